// A program that ranks_test.cpp runs through mpirun: ranks-probe MODE [STEP]. Every rank prints "rank R pid P" first; an error goes to stderr, status 1.
//   transfers    messages of many sizes, in many orders, over many tags: every byte is checked
//   collectives  gather_all, broadcast, barrier against values worked out from the rank
//   steps        200 steps of exchange + gather_all of 5 ms each, then the normal end; a stop signal is agreed on through the records. PROBE_BYTES: a message's size
//   long         the same, 4000 steps
//   late STEP    rank 1 does nothing for 1.5 seconds, the others wait for it
//   fail STEP    the same steps; at STEP rank 1 calls fail() with an invalid-data error
//   kill STEP    ... rank 1 kills itself with SIGKILL;  stop STEP: ... stops itself with SIGSTOP;  exit STEP: ... returns from main
//   hang STEP    at STEP every rank's MPI stops returning from its calls
//   unequal      rank 0 sends more bytes than rank 1 receives
//   cost         prints the processor time of waiting, latency and bandwidth
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/distributed/mpi_calls.h"
#include "engine/distributed/ranks.h"
#include "engine/train/interrupt.h"

namespace eng {
namespace {

using std::chrono::milliseconds;

std::atomic<bool> mpi_hangs{false};

// The byte at `i` of the message `number` from `from` to `to`: a function of all of them.
unsigned char content(int from, int to, uint64_t number, uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(from) * 0xbf58476d1ce4e5b9ull + static_cast<uint64_t>(to) * 0x94d049bb133111ebull + number * 0x2545f4914f6cdd1dull;
  x ^= x >> 29;
  return static_cast<unsigned char>(x * 0xff51afd7ed558ccdull >> 56);
}

struct Message {
  int peer = 0, tag = 0;
  uint64_t number = 0;  // within its pair and tag
  bool send = false;
  std::vector<unsigned char> bytes;
  int64_t ticket = -1;
};

// All pairs exchange messages of the same list of sizes; the order of posting is shuffled differently on every rank (but kept within a pair and tag).
Status transfers(Ranks& ranks) {
  const std::vector<uint64_t> sizes = {0, 1, 7, 64, 1000, 4095, 4096, 4097, 65536, 100001, (1 << 20) + 3, (2 << 20) + 1, 3};
  const int me = ranks.rank();
  std::mt19937 random(static_cast<unsigned>(me) + 5);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<Message>> lanes;  // a lane: one direction, peer and tag; its order counts
    for (int peer = 0; peer < ranks.size(); ++peer) {
      if (peer == me) continue;
      for (const bool send : {false, true})
        for (int tag = 0; tag < 3; ++tag) {
          auto& lane = lanes.emplace_back();
          for (size_t k = 0; k < sizes.size(); ++k) {
            Message m;
            m.peer = peer, m.tag = tag == 2 ? Ranks::kMaxTag : tag, m.send = send, m.number = k;
            m.bytes.resize(sizes[(k + static_cast<size_t>(tag)) % sizes.size()]);
            for (size_t i = 0; send && i < m.bytes.size(); ++i) m.bytes[i] = content(me, peer, k, i);
            lane.push_back(std::move(m));
          }
        }
    }
    std::vector<size_t> next(lanes.size(), 0), order;
    for (size_t l = 0; l < lanes.size(); ++l) order.insert(order.end(), sizes.size(), l);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Message*> posted;
    for (const size_t l : order) {
      Message& m = lanes[l][next[l]++];
      m.ticket = m.send ? ranks.post_send(m.peer, m.tag, m.bytes.data(), m.bytes.size()) : ranks.post_receive(m.peer, m.tag, m.bytes.data(), m.bytes.size());
      posted.push_back(&m);
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      if (random() % 4 == 0) (void)ranks.done(posted[random() % posted.size()]->ticket);
    }
    // By turns: wait for any, wait for one.
    while (!posted.empty()) {
      std::vector<int64_t> tickets;
      for (const Message* m : posted) tickets.push_back(m->ticket);
      ENG_ASSIGN(int64_t which, ranks.wait_any(tickets, milliseconds(10000)));
      if (which < 0) return internal_error("a transfer did not end in 10 seconds");
      if (random() % 3 == 0) {
        which = static_cast<int64_t>(random() % posted.size());
        ENG_TRY(ranks.wait(tickets[static_cast<size_t>(which)]));
      }
      Message& m = *posted[static_cast<size_t>(which)];
      if (!ranks.done(m.ticket)) return internal_error("a finished ticket is not done");
      for (size_t i = 0; !m.send && i < m.bytes.size(); ++i)
        if (m.bytes[i] != content(m.peer, me, m.number, i)) return internal_error("rank ", me, " from ", m.peer, " tag ", m.tag, " message ", m.number, ": byte ", i, " is wrong");
      posted.erase(posted.begin() + which);
    }
  }
  ENG_ASSIGN(const int64_t none, ranks.wait_any({}, milliseconds(5)));
  return none == -1 ? Status() : internal_error("wait_any without tickets gave ", none);
}

Status collectives(Ranks& ranks) {
  const int me = ranks.rank(), size = ranks.size();
  for (const uint64_t bytes : {0ul, 1ul, 8ul, 4000ul, 100000ul}) {
    std::vector<unsigned char> mine(bytes), all(bytes * static_cast<uint64_t>(size));
    for (size_t i = 0; i < bytes; ++i) mine[i] = content(me, 0, bytes, i);
    for (int again = 0; again < 20; ++again) {
      std::fill(all.begin(), all.end(), 0);
      ENG_TRY(ranks.gather_all(mine.data(), bytes, all.data()));
      for (int r = 0; r < size; ++r)
        for (size_t i = 0; i < bytes; ++i)
          if (all[static_cast<size_t>(r) * bytes + i] != content(r, 0, bytes, i)) return internal_error("gather_all: rank ", r, "'s byte ", i, " of ", bytes);
    }
    for (int root = 0; root < size; ++root) {
      std::vector<unsigned char> data(bytes * 37);
      for (size_t i = 0; me == root && i < data.size(); ++i) data[i] = content(root, 1, bytes, i);
      ENG_TRY(ranks.broadcast(data.data(), data.size(), root));
      for (size_t i = 0; i < data.size(); ++i)
        if (data[i] != content(root, 1, bytes, i)) return internal_error("broadcast from ", root, ": byte ", i, " of ", data.size());
    }
    ENG_TRY(ranks.barrier());
  }
  return {};
}

struct Record {
  int64_t step;
  int64_t stop;
};

// A training loop in small: each step every rank sends to the next and receives from the one before, "computes", and gathers a record.
Status steps(Ranks& ranks, const std::string& mode, int64_t special) {
  const int me = ranks.rank(), size = ranks.size();
  const size_t bytes = std::getenv("PROBE_BYTES") ? std::strtoul(std::getenv("PROBE_BYTES"), nullptr, 10) : 200000;
  std::vector<char> out(bytes), in(bytes);
  std::vector<Record> all(static_cast<size_t>(size));
  ranks.set_note("the last checkpoint is last.ckpt (step 2)");
  for (int64_t step = 1; step <= (mode == "long" ? 4000 : 200); ++step) {
    ranks.set_step(step);
    std::fill(out.begin(), out.end(), static_cast<char>(step + me));
    if (step == special && mode == "exit" && me == 1) return {};
    mpi_hangs = step == special && mode == "hang";
    int64_t tickets[2] = {-1, -1};
    if (size > 1) {
      tickets[0] = ranks.post_receive((me + size - 1) % size, 1, in.data(), in.size());
      tickets[1] = ranks.post_send((me + 1) % size, 1, out.data(), out.size());
    }
    std::this_thread::sleep_for(milliseconds(5));
    if (step == special && me == 1 % size) {
      if (mode == "fail") ranks.fail(invalid("picture.jpg: it is broken"));
      if (mode == "kill") raise(SIGKILL);
      if (mode == "stop") raise(SIGSTOP);
      if (mode == "late") std::this_thread::sleep_for(milliseconds(1500));
    }
    if (size > 1) {
      for (const int64_t t : tickets) ENG_TRY(ranks.wait(t));
      if (in[0] != static_cast<char>(step + (me + size - 1) % size) || in.back() != in[0]) return internal_error("step ", step, ": wrong bytes");
    }
    const Record mine{step, interrupt_signal() != 0};
    ENG_TRY(ranks.gather_all(&mine, sizeof mine, all.data()));
    bool stop = false;
    for (const Record& r : all) {
      if (r.step != step) return internal_error("rank ", me, " is at step ", step, " and got a record of step ", r.step);
      stop = stop || r.stop;
    }
    if (stop) {
      std::this_thread::sleep_for(milliseconds(me == 0 ? 400 : 0));  // rank 0 saves
      if (me == 0) std::printf("stopped in order after step %lld\n", static_cast<long long>(step));
      return {};
    }
  }
  if (me == 0) std::printf("all steps done\n");
  return {};
}

Status unequal(Ranks& ranks) {
  std::vector<char> data(5000);
  if (ranks.rank() == 0) return ranks.wait(ranks.post_send(1, 0, data.data(), 5000));
  if (ranks.rank() == 1) return ranks.wait(ranks.post_receive(0, 0, data.data(), 4000));
  return ranks.barrier();
}

// What waiting costs, and how fast messages are.
Status cost(Ranks& ranks) {
  char byte = 0;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const int me = ranks.rank();
  if (me == 0) {
    std::this_thread::sleep_for(milliseconds(3000));
    ENG_TRY(ranks.wait(ranks.post_send(1, 0, &byte, 1)));
  } else {
    ENG_TRY(ranks.wait(ranks.post_receive(0, 0, &byte, 1)));
  }
  getrusage(RUSAGE_SELF, &after);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  std::printf("rank %d: %.4f s of processor time in 3 s\n", me,
              seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime));
  const int kRounds = 2000;
  ENG_TRY(ranks.barrier());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds && me < 2; ++i) {
    if (me == 0) ENG_TRY(ranks.wait(ranks.post_send(1, 0, &byte, 1)));
    ENG_TRY(ranks.wait(me == 0 ? ranks.post_receive(1, 0, &byte, 1) : ranks.post_receive(0, 0, &byte, 1)));
    if (me == 1) ENG_TRY(ranks.wait(ranks.post_send(0, 0, &byte, 1)));
  }
  if (me == 0) std::printf("there and back: %.1f us\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRounds * 1e6);
  std::vector<char> big(64 << 20);
  const auto s2 = std::chrono::steady_clock::now();
  for (int i = 0; i < 10 && me < 2; ++i) {
    ENG_TRY(ranks.wait(me == 0 ? ranks.post_send(1, 1, big.data(), big.size()) : ranks.post_receive(0, 1, big.data(), big.size())));
  }
  if (me == 1) std::printf("64 MiB: %.2f GB/s\n", 10 * 64.0 * 1.048576e6 / 1e9 / std::chrono::duration<double>(std::chrono::steady_clock::now() - s2).count());
  return {};
}

int run(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  const int64_t special = count > 2 ? std::atoll(words[2]) : -1;
  RankOptions options;
  if (mode == "transfers") options.piece_bytes = 1 << 20;  // so that the longest are cut
  auto started = Ranks::start(options);
  if (!started.ok()) {
    std::fprintf(stderr, "error: %s\n", started.status().message().c_str());
    return exit_status(started.status().code());
  }
  Ranks& ranks = **started;
  std::printf("rank %d pid %d\n", ranks.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  Status status = mode == "transfers"     ? transfers(ranks)
                  : mode == "collectives" ? collectives(ranks)
                  : mode == "unequal"     ? unequal(ranks)
                  : mode == "cost"        ? cost(ranks)
                                          : steps(ranks, mode, special);
  if (!status.ok()) ranks.fail(status);
  return 0;
}

}  // namespace
}  // namespace eng

// Stands before MPI's own function (the profiling interface), for mode "hang".
extern "C" __attribute__((visibility("default"))) int MPI_Testsome(int count, MPI_Request* requests, int* finished, int* indices, MPI_Status* statuses) {
  while (eng::mpi_hangs) std::this_thread::sleep_for(eng::milliseconds(100));
  return PMPI_Testsome(count, requests, finished, indices, statuses);
}

int main(int count, char** words) { return eng::run(count, words); }
