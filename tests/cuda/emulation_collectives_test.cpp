// The emulated NCCL: values by hand, in one process, by threads and between processes, and the mistakes of a caller that each must catch.
#include <doctest/doctest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/on_device.h"

namespace {

using Values = std::vector<float>;

// One rank's part of the tests: device, stream, a send buffer of 6 numbers and a receive buffer.
struct Rank {
  int device;
  cudaStream_t stream = nullptr;
  float *from = nullptr, *to = nullptr;
  explicit Rank(int index) : device(index) {
    cudaSetDevice(device);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&from), 24);
    cudaMalloc(reinterpret_cast<void**>(&to), 96);
    Values mine;
    for (int i = 0; i < 6; ++i) mine.push_back(static_cast<float>(10 * device + i));
    cudaMemcpy(from, mine.data(), 24, cudaMemcpyHostToDevice);
  }
  Values received(size_t count) const {
    Values out(count);
    cudaMemcpyAsync(out.data(), to, count * 4, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return out;
  }
  ~Rank() {
    cudaSetDevice(device);
    cudaFree(from);
    cudaFree(to);
    cudaStreamDestroy(stream);
    cudaSetDevice(0);
  }
};

}  // namespace

TEST_CASE("collectives in one process by groups") {
  eng_emulation::reset({.devices = 3});
  {
    Rank ranks[3] = {Rank(0), Rank(1), Rank(2)};
    ncclComm_t comms[3];
    REQUIRE(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
    const auto group = [&](auto call) {
      ncclGroupStart();
      for (int r = 0; r < 3; ++r) CHECK(call(r) == ncclSuccess);
      CHECK(ncclGroupEnd() == ncclSuccess);
    };
    group([&](int r) { return ncclAllReduce(ranks[r].from, ranks[r].to, 6, ncclFloat32, ncclSum, comms[r], ranks[r].stream); });
    for (const Rank& rank : ranks) CHECK(rank.received(6) == Values{30, 33, 36, 39, 42, 45});
    group([&](int r) { return ncclAllReduce(ranks[r].from, ranks[r].to, 6, ncclFloat32, ncclMax, comms[r], ranks[r].stream); });
    CHECK(ranks[0].received(2) == Values{20, 21});
    group([&](int r) { return ncclReduceScatter(ranks[r].from, ranks[r].to, 2, ncclFloat32, ncclSum, comms[r], ranks[r].stream); });
    for (int r = 0; r < 3; ++r) CHECK(ranks[r].received(2) == Values{static_cast<float>(30 + 6 * r), static_cast<float>(33 + 6 * r)});
    group([&](int r) { return ncclAllGather(ranks[r].from, ranks[r].to, 2, ncclFloat32, comms[r], ranks[r].stream); });
    for (const Rank& rank : ranks) CHECK(rank.received(6) == Values{0, 1, 10, 11, 20, 21});
    group([&](int r) { return ncclBroadcast(ranks[r].from, ranks[r].to, 3, ncclFloat32, 2, comms[r], ranks[r].stream); });
    for (const Rank& rank : ranks) CHECK(rank.received(3) == Values{20, 21, 22});
    CHECK(eng_emulation::violations().empty());

    CHECK(ncclAllReduce(ranks[0].from, ranks[0].to, 6, ncclFloat32, ncclSum, comms[0], ranks[1].stream) == ncclInvalidUsage);
    CHECK(caught("the stream is device 1's, the communicator is device 0's"));
    for (int r = 0; r < 3; ++r) ncclAllReduce(ranks[r].from, ranks[r].to, 6, ncclFloat32, ncclSum, comms[r], ranks[r].stream);
    CHECK(caught("one thread calls for several ranks outside of ncclGroupStart"));
    group([&](int r) { return ncclAllReduce(ranks[r].from, ranks[r].to, r == 1 ? 3 : 6, ncclFloat32, ncclSum, comms[r], ranks[r].stream); });
    cudaStreamSynchronize(ranks[0].stream);
    CHECK(caught("the ranks do not make the same call"));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comms[0], &state) == ncclSuccess);
    CHECK(state == ncclInvalidUsage);
    for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
  CHECK(eng_emulation::leaks().empty());
}

TEST_CASE("collectives by threads with a unique id, and an abort that ends a call without partners") {
  eng_emulation::reset();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  Values got[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      Rank rank(r);
      cudaSetDevice(r);
      if (ncclCommInitRank(&comms[r], 2, id, r) != ncclSuccess) return;
      ncclAllReduce(rank.from, rank.to, 6, ncclFloat32, ncclSum, comms[r], rank.stream);
      got[r] = rank.received(6);
    });
  for (std::thread& t : threads) t.join();
  CHECK(got[0] == Values{10, 12, 14, 16, 18, 20});
  CHECK(got[1] == got[0]);
  CHECK(eng_emulation::violations().empty());
  {
    Rank alone(0);
    ncclAllReduce(alone.from, alone.to, 6, ncclFloat32, ncclSum, comms[0], alone.stream);
    CHECK(cudaStreamQuery(alone.stream) == cudaErrorNotReady);
    CHECK(ncclCommAbort(comms[0]) == ncclSuccess);
    CHECK(cudaStreamSynchronize(alone.stream) == cudaSuccess);
  }
  CHECK(ncclCommDestroy(comms[1]) == ncclSuccess);
  CHECK(eng_emulation::leaks().empty());
}

TEST_CASE("collectives between processes") {
  eng_emulation::reset();
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  // The children run this program anew, since a process with threads must not go on after fork.
  const std::string text = id.internal;
  std::vector<pid_t> children;
  for (int r = 0; r < 2; ++r) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      setenv("EMULATION_RANK", std::to_string(r).c_str(), 1);
      setenv("EMULATION_ID", text.c_str(), 1);
      execl("/proc/self/exe", "test", "-tc=one rank of several processes", "-ns", static_cast<char*>(nullptr));
      _exit(99);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("one rank of several processes" * doctest::skip()) {
  const char *rank_text = std::getenv("EMULATION_RANK"), *id_text = std::getenv("EMULATION_ID");
  if (!rank_text || !id_text) return;
  const int r = std::atoi(rank_text);
  eng_emulation::reset();
  ncclUniqueId id = {};
  std::snprintf(id.internal, sizeof id.internal, "%s", id_text);
  Rank rank(r);
  cudaSetDevice(r);
  ncclComm_t comm;
  REQUIRE(ncclCommInitRank(&comm, 2, id, r) == ncclSuccess);
  for (int step = 0; step < 20; ++step) {
    ncclAllReduce(rank.from, rank.to, 6, ncclFloat32, ncclSum, comm, rank.stream);
    CHECK(rank.received(6) == Values{10, 12, 14, 16, 18, 20});
    ncclAllGather(rank.from, rank.to, 1, ncclFloat32, comm, rank.stream);
    CHECK(rank.received(2) == Values{0, 10});
  }
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  CHECK(eng_emulation::violations().empty());
}
