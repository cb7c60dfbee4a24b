// See backend_conformance.h.
#include "tests/support/backend_conformance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "backends/abi/backend.hpp"
#include "engine/plugin/loader.h"
#include "engine/plugin/node_desc.h"
#include "graph/ops/op.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

eb_error fresh() {
  eb_error e{sizeof(eb_error), 0, {0}};
  std::memset(e.message, 'x', sizeof e.message);
  return e;
}
bool terminated(const eb_error& e) { return std::memchr(e.message, 0, sizeof e.message) != nullptr; }
std::string text(const eb_string& s) { return s.data ? std::string(s.data, s.length) : std::string(); }

// An open device with a stream, and what the checks need of it.
struct Session {
  const eb_backend_table* b;
  eb_device* device = nullptr;
  eb_stream* stream = nullptr;
  eb_error error = fresh();
  uint64_t alignment = 64;

  explicit Session(const eb_backend_table* table) : b(table) {
    eb_device_info info{};
    info.struct_size = sizeof info;
    REQUIRE(b->core->device_info(0, &info, &error) == EB_OK);
    alignment = info.alignment;
    eb_device_options options{sizeof options, 2, 0};
    REQUIRE(b->core->open_device(0, &options, &device, &error) == EB_OK);
    REQUIRE(b->streams->create(device, &stream, &error) == EB_OK);
  }
  ~Session() {
    b->streams->destroy(stream);
    for (void* p : blocks_) b->memory->release(device, p);
    b->core->close_device(device);
  }
  void* allocate(uint64_t bytes) {
    void* p = nullptr;
    REQUIRE(b->memory->allocate(device, bytes, &p, &error) == EB_OK);
    REQUIRE(p != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0);
    blocks_.push_back(p);
    return p;
  }
  void upload(void* to, const void* from, uint64_t bytes) { REQUIRE(b->memory->copy_to_device(stream, to, from, bytes, &error) == EB_OK); }
  void download(void* to, const void* from, uint64_t bytes) { REQUIRE(b->memory->copy_to_host(stream, to, from, bytes, &error) == EB_OK); }
  void finish() { REQUIRE(b->streams->synchronize(stream, -1, &error) == EB_OK); }

 private:
  std::vector<void*> blocks_;
};

void check_devices(const eb_backend_table* b) {
  eb_error error = fresh();
  int32_t count = 0;
  REQUIRE(b->core->device_count(&count, &error) == EB_OK);
  REQUIRE(count >= 1);
  for (int32_t i = 0; i < count; ++i) {
    eb_device_info info{};
    info.struct_size = sizeof info;
    REQUIRE(b->core->device_info(i, &info, &error) == EB_OK);
    CHECK(text(info.name) == text(b->name) + ":" + std::to_string(i));
    CHECK(info.index == i);
    CHECK(info.alignment > 0);
    CHECK((info.alignment & (info.alignment - 1)) == 0);
    eb_device_info shorter;  // an older caller's struct: what lies behind it is not touched
    std::memset(&shorter, 0x5a, sizeof shorter);
    shorter.struct_size = offsetof(eb_device_info, total_memory);
    REQUIRE(b->core->device_info(i, &shorter, &error) == EB_OK);
    CHECK(shorter.total_memory == 0x5a5a5a5a5a5a5a5aull);
    CHECK(shorter.index == i);
  }
  eb_device_info info{};
  info.struct_size = sizeof info;
  for (int32_t wrong : {-1, count, INT32_MAX}) {
    error = fresh();
    CHECK(b->core->device_info(wrong, &info, &error) != EB_OK);
    CHECK(terminated(error));
    eb_device* device = nullptr;
    eb_device_options options{sizeof options, 1, 0};
    CHECK(b->core->open_device(wrong, &options, &device, &error) != EB_OK);
  }
}

void check_memory(const eb_backend_table* b) {
  Session s(b);
  std::vector<uint8_t> out(100000), back(out.size(), 0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(i * 7 + i / 256);
  void *first = s.allocate(out.size()), *second = s.allocate(out.size());
  s.upload(first, out.data(), out.size());
  REQUIRE(b->memory->copy_on_device(s.stream, second, first, out.size(), &s.error) == EB_OK);
  s.download(back.data(), second, back.size());
  s.finish();
  CHECK(back == out);
  REQUIRE(b->memory->fill_zero(s.stream, second, 1000, &s.error) == EB_OK);
  s.download(back.data(), second, back.size());
  s.finish();
  CHECK(std::count(back.begin(), back.begin() + 1000, 0) == 1000);
  CHECK(std::equal(back.begin() + 1000, back.end(), out.begin() + 1000));
  void* host = nullptr;
  REQUIRE(b->memory->allocate_host(s.device, out.size(), &host, &s.error) == EB_OK);
  std::memcpy(host, out.data(), out.size());
  s.upload(second, host, out.size());
  s.download(back.data(), second, back.size());
  s.finish();
  CHECK(back == out);
  b->memory->release_host(s.device, host);
  (void)s.allocate(0);
  void* none = nullptr;
  for (uint64_t bytes : {uint64_t{1} << 60, UINT64_MAX}) {
    s.error = fresh();
    CHECK(b->memory->allocate(s.device, bytes, &none, &s.error) == EB_OUT_OF_MEMORY);
    CHECK(s.error.code == EB_OUT_OF_MEMORY);
    CHECK(terminated(s.error));
  }
  void* again = s.allocate(4096);  // a refusal does not spoil the device
  s.upload(again, out.data(), 4096);
  s.finish();
}

// A value is handed through a long row of buffers; only work in order brings it to the end.
void check_order(const eb_backend_table* b) {
  Session s(b);
  constexpr int kBuffers = 50;
  std::vector<void*> row;
  for (int i = 0; i < kBuffers; ++i) row.push_back(s.allocate(4096));
  for (int round = 0; round < 40; ++round) {
    std::vector<int32_t> value(1024, round * 17 + 1), back(1024, 0);
    s.upload(row[0], value.data(), 4096);
    for (int i = 1; i < kBuffers; ++i) REQUIRE(b->memory->copy_on_device(s.stream, row[size_t(i)], row[size_t(i - 1)], 4096, &s.error) == EB_OK);
    s.download(back.data(), row.back(), 4096);
    s.finish();
    CHECK(back == value);
  }
  s.finish();  // nothing enqueued: fine
}

void check_events(const eb_backend_table* b) {
  Session s(b);
  eb_stream* other = nullptr;
  eb_event* event = nullptr;
  REQUIRE(b->streams->create(s.device, &other, &s.error) == EB_OK);
  REQUIRE(b->streams->create_event(s.device, &event, &s.error) == EB_OK);
  constexpr uint64_t kBytes = 1 << 20;
  void *shared = s.allocate(kBytes), *scratch = s.allocate(kBytes);
  for (int round = 1; round <= 20; ++round) {
    std::vector<uint8_t> value(kBytes, static_cast<uint8_t>(round)), back(kBytes, 0);
    s.upload(scratch, value.data(), kBytes);
    for (int i = 0; i < 10; ++i) REQUIRE(b->memory->copy_on_device(s.stream, shared, scratch, kBytes, &s.error) == EB_OK);
    REQUIRE(b->streams->record(s.stream, event, &s.error) == EB_OK);
    REQUIRE(b->streams->wait(other, event, &s.error) == EB_OK);
    REQUIRE(b->memory->copy_to_host(other, back.data(), shared, kBytes, &s.error) == EB_OK);
    REQUIRE(b->streams->synchronize(other, -1, &s.error) == EB_OK);
    CHECK(back == value);
    CHECK(b->streams->event_query(event, &s.error) == EB_OK);
    CHECK(b->streams->event_synchronize(event, 1000, &s.error) == EB_OK);
    s.finish();
  }
  b->streams->destroy(other);
  b->streams->destroy_event(event);
}

// Content that one device makes reaches another's memory, ordered by an event, by a copy on either device's stream.
void check_between(const eb_backend_table* b) {
  const auto copy = eb::copy_between(*b->memory);
  Session s(b);
  int32_t count = 0;
  REQUIRE(b->core->device_count(&count, &s.error) == EB_OK);
  if (!copy || count < 2) return;
  eb_device* other = nullptr;
  eb_stream* stream = nullptr;
  eb_event* event = nullptr;
  void* there = nullptr;
  eb_device_options options{sizeof options, 1, 0};
  constexpr uint64_t kBytes = 1 << 20;
  REQUIRE(b->core->open_device(1, &options, &other, &s.error) == EB_OK);
  REQUIRE(b->streams->create(other, &stream, &s.error) == EB_OK);
  REQUIRE(b->streams->create_event(s.device, &event, &s.error) == EB_OK);
  REQUIRE(b->memory->allocate(other, kBytes, &there, &s.error) == EB_OK);
  void* here = s.allocate(kBytes);
  for (int round = 1; round <= 10; ++round) {
    const bool pull = round % 2;
    const std::vector<uint8_t> value(kBytes, static_cast<uint8_t>(round));
    std::vector<uint8_t> back(kBytes, 0);
    s.upload(here, value.data(), kBytes);
    if (!pull) REQUIRE(copy(s.stream, other, there, s.device, here, kBytes, &s.error) == EB_OK);
    REQUIRE(b->streams->record(s.stream, event, &s.error) == EB_OK);
    REQUIRE(b->streams->wait(stream, event, &s.error) == EB_OK);
    if (pull) REQUIRE(copy(stream, other, there, s.device, here, kBytes, &s.error) == EB_OK);
    REQUIRE(b->memory->copy_to_host(stream, back.data(), there, kBytes, &s.error) == EB_OK);
    REQUIRE(b->streams->synchronize(stream, -1, &s.error) == EB_OK);
    CHECK(back == value);
    s.finish();
  }
  b->streams->destroy_event(event);
  b->streams->destroy(stream);
  b->memory->release(other, there);
  b->core->close_device(other);
}

// Copies and fills are written down in order, each after the one before; what is outside start and stop, and what finds no room, is not.
void check_profiler(const eb_backend_table* b) {
  const char* name = "profiler";
  const auto* profiler = static_cast<const eb_profiler_table*>(b->query({name, std::strlen(name)}, 1));
  if (!profiler) return;
  CHECK(profiler->struct_size >= sizeof(eb_profiler_table));
  CHECK(profiler->minor >= 1);
  Session s(b);
  constexpr uint64_t kBytes = 1 << 16;
  void *first = s.allocate(kBytes), *second = s.allocate(kBytes);
  for (const uint64_t room : {uint64_t{8}, uint64_t{2}}) {
    struct Longer {  // a newer caller's spans lie further apart
      eb_span span;
      uint64_t newer;
    };
    std::vector<Longer> spans(8, Longer{{}, 77});
    eb_trace trace{sizeof(eb_trace), sizeof(Longer), &spans[0].span, room, 99, 99};
    REQUIRE(b->memory->fill_zero(s.stream, first, kBytes, &s.error) == EB_OK);
    REQUIRE(profiler->start(s.stream, &trace, &s.error) == EB_OK);
    REQUIRE(b->memory->fill_zero(s.stream, first, 100, &s.error) == EB_OK);
    REQUIRE(b->memory->copy_on_device(s.stream, second, first, kBytes, &s.error) == EB_OK);
    REQUIRE(b->memory->copy_on_device(s.stream, first, second, 1000, &s.error) == EB_OK);
    REQUIRE(profiler->stop(s.stream, &s.error) == EB_OK);
    REQUIRE(b->memory->fill_zero(s.stream, first, kBytes, &s.error) == EB_OK);
    s.finish();
    CHECK(trace.count == std::min<uint64_t>(room, 3));
    CHECK(trace.lost == 3 - trace.count);
    const int32_t kinds[] = {EB_SPAN_FILL, EB_SPAN_COPY, EB_SPAN_COPY};
    const uint64_t bytes[] = {100, kBytes, 1000};
    for (size_t i = 0; i < trace.count; ++i) {
      CHECK(spans[i].span.kind == kinds[i]);
      CHECK(spans[i].span.bytes == bytes[i]);
      CHECK(spans[i].span.start_ns <= spans[i].span.end_ns);
      if (i > 0) CHECK(spans[i].span.start_ns >= spans[i - 1].span.end_ns);
      CHECK(spans[i].newer == 77);
    }
    for (size_t i = trace.count; i < spans.size(); ++i) CHECK(spans[i].span.kind == 0);
  }
}

struct KernelCase {
  const char* op;
  std::vector<Shape> inputs;
  Attributes attributes;
  const char* domain = "";
  size_t outputs = 1;
  double low = -1;  // inputs are random from here to 1
};

std::vector<KernelCase> kernel_cases() {
  using Ints = std::vector<int64_t>;
  constexpr const char* own = "ai.engine";
  const Attributes same = attrs({{"pads", Ints{1, 1, 1, 1}}}), pool = attrs({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const Attributes padded = attrs({{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  Attributes counted = padded, padded_grad = padded, counted_grad = padded;
  for (Attributes* a : {&counted, &counted_grad}) a->set("count_include_pad", int64_t{1});
  for (Attributes* a : {&padded_grad, &counted_grad}) a->set("input_shape", Ints{2, 3, 5, 7});
  const Attributes deep = attrs({{"kernel_shape", Ints{2, 2, 1}}});
  const Attributes first = attrs({{"axis", int64_t{0}}}), middle = attrs({{"axis", int64_t{1}}});
  return {{"Identity", {{3, 5}}, {}}, {"Add", {{4, 6}, {4, 6}}, {}}, {"Add", {{2, 3, 4}, {3, 1}}, {}}, {"Mul", {{4, 6}, {6}}, {}}, {"Relu", {{7, 9}}, {}},
          {"Tanh", {{33}}, {}}, {"MatMul", {{5, 7}, {7, 3}}, {}}, {"MatMul", {{64, 96}, {96, 48}}, {}}, {"Gemm", {{5, 7}, {7, 3}, {3}}, {}},
          {"Conv", {{2, 3, 7, 6}, {4, 3, 3, 3}}, same}, {"Conv", {{1, 16, 9, 9}, {32, 16, 3, 3}}, same}, {"Transpose", {{3, 4, 5}}, {}},
          {"MaxPool", {{2, 3, 6, 6}}, pool}, {"MaxPool", {{2, 3, 5, 7}}, padded}, {"MaxPool", {{2, 1, 3, 4, 2}}, deep}, {"AveragePool", {{2, 3, 5, 7}}, padded},
          {"AveragePool", {{2, 3, 5, 7}}, counted}, {"AveragePool", {{2, 1, 3, 4, 2}}, deep}, {"MaxPoolGrad", {{2, 3, 3, 4}, {2, 3, 5, 7}}, padded, own},
          {"AveragePoolGrad", {{2, 3, 3, 4}}, padded_grad, own}, {"AveragePoolGrad", {{2, 3, 3, 4}}, counted_grad, own},
          {"Softmax", {{4, 10}}, {}}, {"Softmax", {{4, 10, 3}}, first}, {"LogSoftmax", {{2, 5, 3, 2}}, middle}, {"SoftmaxGrad", {{2, 5, 3}, {2, 5, 3}}, middle, own},
          {"LogSoftmaxGrad", {{6, 5}, {6, 5}}, {}, own}, {"BatchNormalization", {{2, 3, 4, 5}, {3}, {3}, {3}, {3}}, {}, "", 1, 0.2},
          {"BatchNormTraining", {{4, 3, 2, 5}, {3}, {3}, {3}, {3}}, {}, own, 5, 0.2}, {"BatchNormTraining", {{9, 3}, {3}, {3}, {3}, {3}}, {}, own, 5, 0.2},
          {"BatchNormGrad", {{2, 3, 4, 5}, {2, 3, 4, 5}, {3}, {3}, {3}, {3}}, {}, own, 3, 0.2}};
}

// Creates, runs twice and destroys one kernel through its descriptor; the results are checked against the float64 reference.
void check_kernel(Session& s, const eb_kernel_desc* d, const Graph& g, const Node& node, const std::map<ValueId, RefTensor>& values) {
  NodeDesc desc(g, node, {});
  std::vector<const void*> in;
  std::vector<void*> out;
  for (ValueId v : node.inputs) {
    const Tensor t = to_tensor(values.at(v), DType::kFloat32);
    void* p = s.allocate(t.byte_count());
    s.upload(p, t.bytes(), t.byte_count());
    s.finish();
    in.push_back(p);
  }
  std::vector<std::vector<float>> results[2];
  for (ValueId v : node.outputs) {
    const auto count = static_cast<size_t>(values.at(v).count());
    out.push_back(s.allocate(count * sizeof(float)));
    for (auto& result : results) result.emplace_back(count, -77.0F);
  }
  for (auto& result : results) {
    eb_kernel* kernel = nullptr;
    REQUIRE(d->create(d, s.device, &desc.get(), &kernel, &s.error) == EB_OK);
    uint64_t need = 1, again = 2;
    REQUIRE(d->workspace(kernel, &need, &s.error) == EB_OK);
    REQUIRE(d->workspace(kernel, &again, &s.error) == EB_OK);
    CHECK(need == again);
    void* workspace = need ? s.allocate(need) : nullptr;
    for (int run = 0; run < 2; ++run) REQUIRE(d->run(kernel, s.stream, in.data(), out.data(), workspace, &s.error) == EB_OK);
    for (size_t i = 0; i < out.size(); ++i) s.download(result[i].data(), out[i], result[i].size() * sizeof(float));
    s.finish();
    d->destroy(kernel);
  }
  CHECK(results[0] == results[1]);
  for (size_t k = 0; k < out.size(); ++k) {
    const RefTensor& wanted = values.at(node.outputs[k]);
    double scale = 1, worst = 0;
    for (int64_t i = 0; i < wanted.count(); ++i) {
      scale = std::max(scale, std::abs(wanted[i]));
      worst = std::max(worst, std::abs(wanted[i] - static_cast<double>(results[0][k][static_cast<size_t>(i)])));
    }
    CAPTURE(k);
    CHECK(worst <= 2e-5 * scale);
  }
}

void check_kernels(const eb_backend_table* b) {
  int ran = 0;
  Random random(11);
  for (const KernelCase& c : kernel_cases()) {
    CAPTURE(c.op);
    Graph g;
    Node n;
    n.domain = c.domain;
    n.op_type = c.op;
    n.attributes = c.attributes;
    std::map<ValueId, RefTensor> feeds;
    for (const Shape& shape : c.inputs) {
      const ValueId v = g.add_value("x", DType::kFloat32, shape);
      g.value(v).role = Role::kInput;
      g.inputs.push_back(v);
      n.inputs.push_back(v);
      RefTensor t(DType::kFloat32, shape);
      for (double& x : t.v) x = static_cast<double>(static_cast<float>(random.uniform(c.low, 1)));
      feeds[v] = t;
    }
    for (size_t i = 0; i < c.outputs; ++i) n.outputs.push_back(g.add_value("y"));
    const NodeId id = g.add_node(n);
    const Status inferred = infer_node(g, id);
    REQUIRE_MESSAGE(inferred.ok(), inferred.message());
    auto values = interpret(g, feeds);
    REQUIRE_MESSAGE(values.ok(), values.status().message());
    Session s(b);
    for (uint32_t i = 0; i < b->kernel_count; ++i) {
      const eb_kernel_desc* d = b->kernels[i];
      if (text(d->op_type) != c.op || text(d->domain) != c.domain) continue;
      CAPTURE(text(d->name));
      NodeDesc desc(g, g.node(id), {});
      s.error = fresh();
      const int32_t code = d->can_run(d, s.device, &desc.get(), &s.error);
      if (code != EB_OK) {  // a refusal has a reason
        CHECK(code == EB_UNSUPPORTED);
        CHECK(terminated(s.error));
        CHECK(s.error.message[0] != 0);
        continue;
      }
      check_kernel(s, d, g, g.node(id), *values);
      ++ran;
    }
  }
  CHECK_MESSAGE(ran > 0, "no kernel took any of the cases");
}

// No kernel takes element types that no operator has; the refusal gives a reason.
void check_refusals(const eb_backend_table* b) {
  Session s(b);
  Graph g;
  const ValueId x = g.add_value("x", static_cast<DType>(60), {2, 2}), y = g.add_value("y", static_cast<DType>(60), {2, 2});
  for (uint32_t i = 0; i < b->kernel_count; ++i) {
    const eb_kernel_desc* d = b->kernels[i];
    Node n;
    n.domain = text(d->domain);
    n.op_type = text(d->op_type);
    n.inputs = {x, x};
    n.outputs = {y};
    NodeDesc desc(g, n, {});
    s.error = fresh();
    CAPTURE(n.op_type);
    CHECK(d->can_run(d, s.device, &desc.get(), &s.error) != EB_OK);
    CHECK(terminated(s.error));
  }
}

}  // namespace

void run_backend_conformance(const eb_backend_table* table) {
  const Status rules = check_backend(table, "the backend");
  REQUIRE_MESSAGE(rules.ok(), rules.message());
  check_devices(table);
  check_memory(table);
  check_order(table);
  check_events(table);
  check_between(table);
  check_profiler(table);
  check_kernels(table);
  check_refusals(table);
}

}  // namespace eng::test
