// The CUDA plugin's sources against the emulation of the CUDA libraries: the ABI's conformance, devices that cannot be used, memory that runs out, devices
// that fail, collectives; whatever is done, the emulation has nothing to complain about and nothing is left behind.
#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backends/abi/backend.hpp"
#include "tests/cuda/on_device.h"
#include "tests/support/backend_conformance.h"

extern "C" const eb_backend_table* eb_get_backend(void);

using eng_emulation::Order;

namespace {

eb_error no_error() { return {sizeof(eb_error), 0, {0}}; }

// A fresh machine; at the end nothing was done wrong and nothing is left.
struct Machine {
  explicit Machine(const eng_emulation::Settings& settings = {}) { eng_emulation::reset(settings); }
  ~Machine() {
    for (const std::string& v : eng_emulation::violations()) FAIL_CHECK(v);
    for (const std::string& l : eng_emulation::leaks()) FAIL_CHECK(l);
    eng_emulation::reset();
  }
};

struct OpenDevice {
  const eb_backend_table* b = eb_get_backend();
  eb_device* device = nullptr;
  eb_stream* stream = nullptr;
  eb_error error = no_error();
  explicit OpenDevice(int32_t index) {
    eb_device_options options{sizeof options, 0, 0};
    REQUIRE_MESSAGE(b->core->open_device(index, &options, &device, &error) == EB_OK, error.message);
    REQUIRE(b->streams->create(device, &stream, &error) == EB_OK);
  }
  ~OpenDevice() {
    b->streams->destroy(stream);
    for (void* p : blocks) b->memory->release(device, p);
    b->core->close_device(device);
  }
  float* floats(const std::vector<float>& values) {
    void* p = nullptr;
    REQUIRE(b->memory->allocate(device, values.size() * sizeof(float), &p, &error) == EB_OK);
    blocks.push_back(p);
    REQUIRE(b->memory->copy_to_device(stream, p, values.data(), values.size() * sizeof(float), &error) == EB_OK);
    REQUIRE(b->streams->synchronize(stream, -1, &error) == EB_OK);
    return static_cast<float*>(p);
  }
  std::vector<float> read(const float* p, size_t count) {
    std::vector<float> out(count);
    REQUIRE(b->memory->copy_to_host(stream, out.data(), p, count * sizeof(float), &error) == EB_OK);
    REQUIRE_MESSAGE(b->streams->synchronize(stream, -1, &error) == EB_OK, error.message);
    return out;
  }
  std::vector<void*> blocks;
};

}  // namespace

TEST_CASE("cuda plugin: keeps the ABI's promises in whatever order work runs") {
  for (Order order : {Order::kLazy, Order::kRandom, Order::kEager}) {
    const Machine machine({.devices = 2, .order = order, .seed = 5});
    eng::test::run_backend_conformance(eb_get_backend());
  }
}

TEST_CASE("cuda plugin: a device that is full says how much is free") {
  const Machine machine({.devices = 1, .memory = size_t{64} << 20});
  OpenDevice d(0);
  void* p = nullptr;
  CHECK(d.b->memory->allocate(d.device, uint64_t{100} << 20, &p, &d.error) == EB_OUT_OF_MEMORY);
  CHECK(std::string(d.error.message).find("cannot allocate 104857600 bytes of device memory; cuda:0 has ") == 0);
  CHECK(d.b->memory->allocate(d.device, uint64_t{1} << 20, &p, &d.error) == EB_OK);
  d.b->memory->release(d.device, p);
}

TEST_CASE("cuda plugin: work that fails is an error at the next wait, and the device is lost from then on") {
  eng_emulation::reset({.devices = 1, .fail_operation = 2});
  {
    OpenDevice d(0);
    const float* p = d.floats({1, 2, 3, 4});
    float out[4];
    (void)d.b->memory->copy_to_host(d.stream, out, p, sizeof out, &d.error);
    CHECK(d.b->streams->synchronize(d.stream, -1, &d.error) == EB_DEVICE_LOST);
    CHECK(std::string(d.error.message).find("cudaErrorLaunchFailure") != std::string::npos);
    CHECK(d.b->streams->synchronize(d.stream, 100, &d.error) == EB_DEVICE_LOST);
  }
  eng_emulation::reset();
}

TEST_CASE("cuda plugin: waiting for work that hangs ends when the time is over") {
  eng_emulation::reset({.devices = 1, .hang_seconds = 2, .hang_operation = 2});
  {
    OpenDevice d(0);
    const float* p = d.floats({1, 2, 3, 4});
    float out[4];
    (void)d.b->memory->copy_to_host(d.stream, out, p, sizeof out, &d.error);
    CHECK(d.b->streams->synchronize(d.stream, 50, &d.error) == EB_TIMEOUT);
  }
  eng_emulation::reset();
}

TEST_CASE("cuda plugin: entry points leave the caller's current device alone") {
  const Machine machine({.devices = 2});
  OpenDevice first(0), second(1);
  for (int current : {0, 1}) {
    REQUIRE(cudaSetDevice(current) == cudaSuccess);
    float *a = first.floats({1, 2}), *b = second.floats({3, 4});
    CHECK(first.read(a, 2) == std::vector<float>{1, 2});
    CHECK(second.read(b, 2) == std::vector<float>{3, 4});
    int now = -1;
    REQUIRE(cudaGetDevice(&now) == cudaSuccess);
    CHECK(now == current);
  }
}

TEST_CASE("cuda plugin: a trace holds a stream's work in its order, waits too, in the host's time, whatever the order in which streams run") {
  for (Order order : {Order::kLazy, Order::kRandom, Order::kEager}) {
    const Machine machine({.devices = 2, .order = order, .seed = 11});
    OpenDevice d(0), other(1);
    const auto* profiler = static_cast<const eb_profiler_table*>(d.b->query(eb::str("profiler"), 1));
    REQUIRE(profiler);
    float *a = d.floats({1, 2, 3, 4}), *b = other.floats({0, 0, 0, 0});
    eb_event* event = nullptr;
    eb_error error = no_error();
    REQUIRE(d.b->streams->create_event(other.device, &event, &error) == EB_OK);
    std::vector<eb_span> spans(8);
    eb_trace trace{sizeof(eb_trace), sizeof(eb_span), spans.data(), spans.size(), 9, 9};
    const auto now = [] { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
    const int64_t before = now();
    REQUIRE(profiler->start(d.stream, &trace, &error) == EB_OK);
    CHECK(trace.count == 0);
    REQUIRE(d.b->memory->fill_zero(other.stream, b, 16, &error) == EB_OK);  // another stream's work is not this trace's
    REQUIRE(d.b->streams->record(other.stream, event, &error) == EB_OK);
    REQUIRE(d.b->memory->fill_zero(d.stream, a, 8, &error) == EB_OK);
    REQUIRE(d.b->streams->wait(d.stream, event, &error) == EB_OK);
    REQUIRE(d.b->memory->copy_between(d.stream, other.device, b, d.device, a, 12, &error) == EB_OK);
    std::vector<float> host(4);
    REQUIRE(d.b->memory->copy_to_host(d.stream, host.data(), a, 16, &error) == EB_OK);
    REQUIRE(profiler->stop(d.stream, &error) == EB_OK);
    REQUIRE(d.b->streams->synchronize(d.stream, 5000, &error) == EB_OK);
    const int64_t after = now();
    REQUIRE(trace.count == 4);
    CHECK(trace.lost == 0);
    const int32_t kinds[] = {EB_SPAN_FILL, EB_SPAN_WAIT, EB_SPAN_COPY, EB_SPAN_COPY};
    const uint64_t bytes[] = {8, 0, 12, 16};
    constexpr int64_t kClocks = 50'000'000;  // between the device's clock and the host's, on a busy machine
    for (size_t i = 0; i < 4; ++i) {
      CHECK(spans[i].kind == kinds[i]);
      CHECK(spans[i].bytes == bytes[i]);
      CHECK(spans[i].object == (spans[i].kind == EB_SPAN_WAIT ? event : nullptr));
      CHECK(spans[i].end_ns >= spans[i].start_ns);
      CHECK(spans[i].start_ns >= (i == 0 ? before - kClocks : spans[i - 1].end_ns));
    }
    CHECK(spans[3].end_ns <= after + kClocks);
    CHECK(host == std::vector<float>{0, 0, 3, 4});
    d.b->streams->destroy_event(event);
  }
}

TEST_CASE("cuda plugin: the table of collectives sums, gathers, scatters and broadcasts over the devices of a process") {
  const Machine machine({.devices = 2, .order = Order::kRandom, .seed = 3});
  OpenDevice d0(0), d1(1);
  CHECK(d0.b->query(eb::str("profiler"), 99) == nullptr);
  CHECK(d0.b->query(eb::str("collectives"), 99) == nullptr);
  const auto* c = static_cast<const eb_collectives_table*>(d0.b->query(eb::str("collectives"), 1));
  REQUIRE(c);
  eb_device* devices[2] = {d0.device, d1.device};
  OpenDevice* of[2] = {&d0, &d1};
  eb_communicator* comm[2] = {};
  eb_error error = no_error();
  REQUIRE_MESSAGE(c->init_all(devices, 2, comm, &error) == EB_OK, error.message);
  float *x[2] = {d0.floats({1, 2, 3, 4}), d1.floats({10, 20, 30, 40})}, *y[2] = {d0.floats({0, 0, 0, 0}), d1.floats({0, 0, 0, 0})};
  auto all = [&](auto&& call) {
    REQUIRE(c->group_begin(&error) == EB_OK);
    for (int r = 0; r < 2; ++r) REQUIRE_MESSAGE(call(r) == EB_OK, error.message);
    REQUIRE_MESSAGE(c->group_end(&error) == EB_OK, error.message);
  };
  all([&](int r) { return c->all_reduce(comm[r], of[r]->stream, x[r], y[r], 4, EB_FLOAT32, EB_REDUCE_SUM, &error); });
  for (int r = 0; r < 2; ++r) CHECK(of[r]->read(y[r], 4) == std::vector<float>{11, 22, 33, 44});
  all([&](int r) { return c->all_reduce(comm[r], of[r]->stream, x[r], y[r], 4, EB_FLOAT32, EB_REDUCE_MAX, &error); });
  for (int r = 0; r < 2; ++r) CHECK(of[r]->read(y[r], 4) == std::vector<float>{10, 20, 30, 40});
  all([&](int r) { return c->reduce_scatter(comm[r], of[r]->stream, x[r], y[r], 2, EB_FLOAT32, EB_REDUCE_SUM, &error); });
  CHECK(d0.read(y[0], 2) == std::vector<float>{11, 22});
  CHECK(d1.read(y[1], 2) == std::vector<float>{33, 44});
  all([&](int r) { return c->all_gather(comm[r], of[r]->stream, x[r], y[r], 2, EB_FLOAT32, &error); });
  for (int r = 0; r < 2; ++r) CHECK(of[r]->read(y[r], 4) == std::vector<float>{1, 2, 10, 20});
  all([&](int r) { return c->broadcast(comm[r], of[r]->stream, x[r], y[r], 4, EB_FLOAT32, 1, &error); });
  for (int r = 0; r < 2; ++r) CHECK(of[r]->read(y[r], 4) == std::vector<float>{10, 20, 30, 40});
  CHECK(c->all_reduce(comm[0], d0.stream, x[0], y[0], 4, EB_BOOL, EB_REDUCE_SUM, &error) == EB_UNSUPPORTED);
  for (int r = 0; r < 2; ++r) {
    CHECK(c->async_error(comm[r], &error) == EB_OK);
    c->destroy(comm[r]);
  }
}

TEST_CASE("cuda plugin: ranks meet by an id; an aborted communicator refuses more work") {
  const Machine machine({.devices = 2});
  OpenDevice d0(0), d1(1);
  const auto* c = static_cast<const eb_collectives_table*>(d0.b->query(eb::str("collectives"), 1));
  OpenDevice* of[2] = {&d0, &d1};
  float* x[2] = {d0.floats({1, 2}), d1.floats({3, 4})};
  eb_communicator* comm[2] = {};
  eb_unique_id id;
  eb_error error = no_error();
  REQUIRE(c->unique_id(&id, &error) == EB_OK);
  int32_t codes[2] = {-1, -1};
  auto rank = [&](int r) {
    eb_error own = no_error();
    codes[r] = c->init_rank(of[r]->device, &id, 2, r, &comm[r], &own);
    if (codes[r] == EB_OK) codes[r] = c->all_reduce(comm[r], of[r]->stream, x[r], x[r], 2, EB_FLOAT32, EB_REDUCE_SUM, &own);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  for (int r = 0; r < 2; ++r) {
    REQUIRE(codes[r] == EB_OK);
    CHECK(of[r]->read(x[r], 2) == std::vector<float>{4, 6});
    CHECK(c->abort(comm[r], &error) == EB_OK);
    CHECK(c->all_reduce(comm[r], of[r]->stream, x[r], x[r], 2, EB_FLOAT32, EB_REDUCE_SUM, &error) == EB_INVALID_ARGUMENT);
    c->destroy(comm[r]);
  }
}
