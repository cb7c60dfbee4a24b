// Layouts: which values become channels-last, where reorders stand and how many; values stay what they are (the reference does not
// know layouts, so a reorder in a wrong place shows only in programs: tests/engine/exec_program_test.cpp).
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/ops/op.h"
#include "graph/passes/assign_layouts.h"
#include "graph/passes/schedule.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

ValueId add_input(Graph& g, Shape shape) {
  ValueId v = g.add_value("x", DType::kFloat32, std::move(shape));
  g.value(v).role = Role::kInput;
  g.inputs.push_back(v);
  return v;
}
ValueId weight(Graph& g, Shape shape) { return g.add_tensor("w", Tensor(DType::kFloat32, std::move(shape)), Role::kParameter); }
LayoutReport assign(Graph& g) {
  auto report = assign_layouts(g);
  REQUIRE(report.ok());
  CHECK(verify(g).ok());
  return *report;
}
bool last(const Graph& g, ValueId v) { return g.value(v).layout == Layout::kChannelsLast; }

}  // namespace

TEST_CASE("layouts: convolutions pull the elementwise operators between them along; one reorder in, one out") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {2, 8, 6, 6});
  ValueId c = b.op("Conv", {x, weight(g, {8, 8, 1, 1})});
  ValueId r = b.op("Relu", {c});
  ValueId s = b.op("Add", {r, c});
  ValueId d = b.op("Conv", {s, weight(g, {4, 8, 1, 1})});
  ValueId y = b.op("Reshape", {d, b.ints({2, -1})});
  g.outputs = {y};
  REQUIRE(b.status().ok());
  const LayoutReport report = assign(g);
  CHECK(report.reorders == 2);
  for (ValueId v : {c, r, s, d}) CHECK(last(g, v));
  CHECK_FALSE(last(g, x));
}

TEST_CASE("layouts: a reordered value is shared by its readers, and outputs stay row-major") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {1, 4, 5, 5});
  ValueId a = b.op("Conv", {x, weight(g, {4, 4, 1, 1})}), c = b.op("Conv", {x, weight(g, {4, 4, 1, 1})});
  g.outputs = {a, b.op("Reshape", {a, b.ints({-1})}), c};
  const LayoutReport report = assign(g);
  CHECK(report.reorders == 3);  // x once; a once for the output and the Reshape; c
  for (ValueId v : g.outputs) CHECK_FALSE(last(g, v));
}

TEST_CASE("layouts: one pixel or one channel lies the same either way and costs nothing") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {3, 1, 7, 7});
  ValueId c = b.op("Conv", {x, weight(g, {6, 1, 7, 7})});  // [3,6,1,1]
  ValueId r = b.op("Relu", {c});
  g.outputs = {b.op("Reshape", {r, b.ints({3, 6})})};
  CHECK(assign(g).reorders == 0);
  CHECK(layouts_coincide({3, 6, 1, 1}));
  CHECK(layouts_coincide({3, 1, 7, 7}));
  CHECK(layouts_coincide({5, 6}));
  CHECK_FALSE(layouts_coincide({1, 2, 1, 2}));
}

TEST_CASE("layouts: without convolutions nothing changes") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {2, 3, 4, 5});
  g.outputs = {b.op("Transpose", {b.op("Relu", {x})})};
  const LayoutReport report = assign(g);
  CHECK(report.reorders == 0);
  CHECK(report.channels_last == 0);
}

TEST_CASE("layouts: a weight's gradient and its update stay row-major; constants are stored as their reader wants") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {2, 4, 5, 5}), w = weight(g, {4, 4, 3, 3});
  ValueId constant = g.add_tensor("c", Tensor(DType::kFloat32, {2, 4, 5, 5}), Role::kConstant);
  Attributes pads = attrs({{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  ValueId y = b.op("Add", {b.op("Conv", {x, w}, pads), constant});
  Attributes backward = pads;
  backward.set("weight_shape", std::vector<int64_t>{4, 4, 3, 3});
  ValueId dw = b.engine_op("ConvGradWeight", {x, y}, backward);
  ValueId next = b.op("Sub", {w, dw});
  REQUIRE_MESSAGE(b.status().ok(), b.status().message());
  g.updates = {{w, next}};
  const LayoutReport report = assign(g);
  CHECK(report.reorders == 1);  // x
  CHECK_FALSE(last(g, dw));
  CHECK_FALSE(last(g, next));
  CHECK(last(g, y));
  int twins = 0;
  for (ValueId v = 0; v < g.value_count(); ++v) twins += g.value(v).role == Role::kConstant && last(g, v);
  CHECK(twins == 1);
}

TEST_CASE("layouts: an operator that the device refuses in channels-last gets row-major operands") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {1, 4, 5, 5});
  ValueId c = b.op("Conv", {x, weight(g, {4, 4, 1, 1})});
  ValueId t = b.op("Tanh", {c});
  ValueId d = b.op("Conv", {t, weight(g, {4, 4, 1, 1})});
  g.outputs = {b.op("Reshape", {d, b.ints({-1})})};
  auto report = assign_layouts(g, [](const Graph& graph, NodeId n) { return graph.node(n).op_type != "Tanh"; });
  REQUIRE(report.ok());
  CHECK_FALSE(last(g, t));
  CHECK(last(g, c));
  CHECK(report->reorders == 4);  // in, around Tanh, out
}

TEST_CASE("schedule: updates come as soon as their gradient is there, after every reader of the old content") {
  Graph g;
  Builder b(g);
  ValueId x = add_input(g, {4});
  std::vector<ValueId> w, gradient;
  for (int i = 0; i < 3; ++i) w.push_back(g.add_tensor("w", Tensor(DType::kFloat32, {4}), Role::kParameter));
  ValueId y = x;
  for (ValueId v : w) y = b.op("Mul", {y, v});
  ValueId dy = y;
  b.set_origin(Phase::kBackward, kNoNode);
  for (int i = 2; i >= 0; --i) {
    gradient.push_back(b.op("Exp", {dy}));
    dy = b.op("Mul", {dy, w[static_cast<size_t>(i)]});
  }
  b.set_origin(Phase::kUpdate, kNoNode);
  for (int i = 0; i < 3; ++i) g.updates.emplace_back(w[static_cast<size_t>(2 - i)], b.op("Sub", {w[static_cast<size_t>(2 - i)], gradient[static_cast<size_t>(i)]}));
  g.outputs = {dy};
  auto order = schedule(g);
  REQUIRE(order.ok());
  auto position = [&](NodeId n) { return std::find(order->begin(), order->end(), n) - order->begin(); };
  const auto uses = g.uses();
  for (int i = 0; i < 3; ++i) {
    const NodeId update = g.value(g.updates[static_cast<size_t>(i)].second).producer;
    for (NodeId reader : uses[static_cast<size_t>(g.updates[static_cast<size_t>(i)].first)])
      if (reader != update) CHECK(position(reader) < position(update));
    if (i < 2) CHECK(position(update) < position(g.value(gradient[static_cast<size_t>(i + 1)]).producer) + 2);
  }
  CHECK(position(g.value(g.updates[0].second).producer) < position(g.value(gradient[2]).producer));  // not kept for the end
}
