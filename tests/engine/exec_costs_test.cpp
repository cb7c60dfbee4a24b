// Measured costs: every node gets a time or a refusal, alike nodes are measured once and never again while the cache lives, a damaged
// cache is measured anew, and what is measured is ordered as the work is. Times themselves are not asserted.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/exec/cost_cache.h"
#include "engine/exec/costs.h"
#include "engine/exec/node_signature.h"
#include "engine/io/file.h"
#include "graph/passes/infer_shapes.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/temp_folder.h"

using namespace eng;
using namespace eng::test;

namespace {

// Two dense layers of the same size and one of another.
Graph dense_step(int64_t batch) {
  ModelBuilder b;
  ValueId x = b.input("x", {64});
  for (const char* name : {"first", "second"}) x = b.op("Relu", {b.op("MatMul", {x, b.weight(cat(name, "/w"), {64, 64})}, {}, cat(name, "/product"))});
  b.output(b.op("Softmax", {b.op("MatMul", {x, b.weight("last/w", {64, 10})}, {}, "last/product")}), "scores");
  ShapeBinding binding;
  binding.batch = batch;
  auto step = build_training_step(b.g, binding, {.loss = LossKind::kAuto}, nullptr);
  INFO(step.status().message());
  REQUIRE(step.ok());
  return step->graph;
}

std::vector<std::shared_ptr<Device>> devices(int count) {
  std::vector<std::shared_ptr<Device>> list;
  for (int d = 0; d < count; ++d) {
    auto device = Device::open(cat("cpu:", d), {.threads = 1});
    REQUIRE(device.ok());
    list.push_back(*device);
  }
  return list;
}

}  // namespace

TEST_CASE("costs: every node of a step has a time on every device, and a second run measures nothing") {
  TempFolder folder;
  CostOptions options{.cache_folder = folder.path()};
  const Graph step = dense_step(8);
  const auto two = devices(2);
  CostReport report;
  auto costs = measured_costs(two, {&step}, options, &report);
  INFO(costs.status().message());
  REQUIRE(costs.ok());
  CHECK(report.nodes == static_cast<int>(step.live_nodes().size()));
  CHECK(report.measured == report.signatures);  // both devices are alike: measured once
  CHECK(report.signatures < report.nodes);      // two layers have the same size
  for (NodeId n : step.live_nodes())
    for (int d : {0, 1}) {
      const NodeCost c = (*costs)(step, n, d);
      INFO(step.label(n));
      CHECK(c.refusal.empty());
      CHECK(c.seconds > 0);
      CHECK(c.seconds == (*costs)(step, n, 1 - d).seconds);
    }
  CostReport second;
  auto again = measured_costs(two, {&step}, options, &second);
  REQUIRE(again.ok());
  CHECK(second.measured == 0);
  CHECK(second.signatures == report.signatures);
  for (NodeId n : step.live_nodes()) CHECK((*again)(step, n, 0).seconds == (*costs)(step, n, 0).seconds);
}

TEST_CASE("costs: a copy of the graph under other node numbers has the same costs; devices at work together are a table of their own") {
  TempFolder folder;
  CostOptions options{.cache_folder = folder.path()};
  const Graph step = dense_step(8);
  auto costs = measured_costs(devices(1), {&step}, options);
  REQUIRE(costs.ok());
  Graph copy = step;
  std::vector<NodeId> order = *copy.topological_order();
  copy.renumber(order);
  for (size_t i = 0; i < order.size(); ++i) CHECK((*costs)(copy, static_cast<NodeId>(i), 0).seconds == (*costs)(step, order[i], 0).seconds);
  options.concurrent = 2;
  CostReport report;
  REQUIRE(measured_costs(devices(1), {&step}, options, &report).ok());
  CHECK(report.measured == report.signatures);
}

TEST_CASE("costs: of several batch sizes; the bigger batch takes longer") {
  TempFolder folder;
  const Graph small = dense_step(4), big = dense_step(2048);
  auto costs = measured_costs(devices(1), {&small, &big}, {.cache_folder = folder.path()});
  REQUIRE(costs.ok());
  auto total = [&](const Graph& g) {
    double seconds = 0;
    for (NodeId n : g.live_nodes()) seconds += (*costs)(g, n, 0).seconds;
    return seconds;
  };
  CHECK(total(big) > 4 * total(small));
}

TEST_CASE("costs: a node that no kernel takes is refused with the reason") {
  TempFolder folder;
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, {4});
  g.value(x).role = Role::kInput;
  g.inputs.push_back(x);
  const NodeId n = g.add_node("", "Det", {x}, 1, {}, "y");
  g.outputs = g.node(n).outputs;
  Value& y = g.value(g.outputs[0]);
  y.dtype = DType::kFloat32;
  y.shape = {};
  y.has_shape = true;
  auto costs = measured_costs(devices(1), {&g}, {.cache_folder = folder.path()});
  REQUIRE(costs.ok());
  CHECK((*costs)(g, n, 0).refusal == "it has no kernel for this operator");
}

TEST_CASE("costs: a damaged cache is measured anew with a warning and replaced") {
  TempFolder folder;
  std::string warning;
  CostOptions options{.cache_folder = folder.path(), .warn = [&](const std::string& text) { warning += text; }};
  const Graph step = dense_step(8);
  CostReport report;
  REQUIRE(measured_costs(devices(1), {&step}, options, &report).ok());
  CHECK(warning.empty());
  const std::string costs = join_path(folder.path(), "costs");
  const auto files = list_folder(costs);
  REQUIRE(files.ok());
  REQUIRE(files->size() == 1);
  const std::string path = join_path(costs, (*files)[0]);
  const std::string good = *read_text_file(path, 1 << 20);
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), std::string("[1]"), std::string("{\"version\":2}"),
                                 std::string("{\"version\":1,\"device\":\"another\",\"seconds\":{}}")}) {
    REQUIRE(write_file_atomic(path, bad).ok());
    warning.clear();
    CostReport anew;
    REQUIRE(measured_costs(devices(1), {&step}, options, &anew).ok());
    CHECK(anew.measured == report.measured);
    CHECK(warning.find("measured anew") != std::string::npos);
    CostReport after;
    REQUIRE(measured_costs(devices(1), {&step}, options, &after).ok());
    CHECK(after.measured == 0);
  }
}

TEST_CASE("costs: what two processes save is both kept") {
  TempFolder folder;
  CostCache a = CostCache::load(folder.path(), "device", nullptr), b = CostCache::load(folder.path(), "device", nullptr);
  a.put("one", 1);
  b.put("two", 2);
  REQUIRE(a.save().ok());
  REQUIRE(b.save().ok());
  const CostCache c = CostCache::load(folder.path(), "device", nullptr);
  REQUIRE(c.find("one"));
  REQUIRE(c.find("two"));
  CHECK(*c.find("one") == 1);
  CHECK(c.find("three") == nullptr);
}

TEST_CASE("costs: signatures differ by attributes, shapes, layouts and known contents, not by names") {
  auto signature = [](int64_t axis, int64_t rows, Layout layout, int64_t known, const std::string& name) {
    Graph g;
    const ValueId x = g.add_value(name, DType::kFloat32, {rows, 3, 4, 4});
    g.value(x).layout = layout;
    const ValueId k = g.add_tensor(name + "k", Tensor::ints({known}), Role::kConstant);
    Attributes attributes;
    attributes.set("axis", axis);
    return node_signature(g, g.node(g.add_node("", "Op", {x, k}, 1, attributes, name + "y")));
  };
  const std::string base = signature(1, 2, Layout::kRowMajor, 5, "a");
  CHECK(signature(1, 2, Layout::kRowMajor, 5, "b") == base);
  CHECK(signature(0, 2, Layout::kRowMajor, 5, "a") != base);
  CHECK(signature(1, 3, Layout::kRowMajor, 5, "a") != base);
  CHECK(signature(1, 2, Layout::kChannelsLast, 5, "a") != base);
  CHECK(signature(1, 2, Layout::kRowMajor, 6, "a") != base);
}

TEST_CASE("costs: a machine has every link, and passing an event takes time") {
  TempFolder folder;
  auto machine = measured_machine(devices(2), {.cache_folder = folder.path()});
  INFO(machine.status().message());
  REQUIRE(machine.ok());
  CHECK(machine->devices[1].name == "cpu:1");
  CHECK_FALSE(machine->devices[0].memory_limit.has_value());
  CHECK(machine->devices[0].flops_per_second > 0);
  CHECK(machine->devices[0].bytes_per_second > 0);
  CHECK(machine->link(0, 1).latency > 0);
  CHECK(machine->link(0, 1).latency == measured_machine(devices(2), {.cache_folder = folder.path()})->link(0, 1).latency);
  auto overhead = measured_overhead(devices(2), {.cache_folder = folder.path()});
  INFO(overhead.status().message());
  REQUIRE(overhead.ok());
  CHECK(*overhead > 0);
}
