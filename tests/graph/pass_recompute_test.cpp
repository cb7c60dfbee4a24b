// Recomputation as a rewrite: what is copied, where copies stand, lifetimes on the step line against a count over the rewritten graph,
// and the float64 reference interpreter's values before and after, which must not differ in a single bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "engine/exec/evaluate.h"
#include "graph/ops/op.h"
#include "graph/passes/recompute.h"
#include "graph/passes/schedule.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

using namespace eng;
using namespace eng::test;

namespace {

ValueId conv_norm_relu(ModelBuilder& m, ValueId x, const std::string& name, int64_t in, int64_t out) {
  ValueId y = m.op("Conv", {x, m.weight(name + "/kernel", {out, in, 3, 3})}, attrs({{"pads", std::vector<int64_t>{1, 1, 1, 1}}}), name);
  y = m.op("BatchNormalization",
           {y, m.tensor(name + "/scale", {out}, std::vector<double>(static_cast<size_t>(out), 1)), m.weight(name + "/bias", {out}),
            m.tensor(name + "/mean", {out}, std::vector<double>(static_cast<size_t>(out), 0), Role::kState),
            m.tensor(name + "/var", {out}, std::vector<double>(static_cast<size_t>(out), 1), Role::kState)},
           {}, name + "_norm");
  return m.op("Relu", {y}, {}, name + "_relu");
}

// Two branches, joined, pooled, dropped out, dense.
Graph branches() {
  ModelBuilder m;
  ValueId x = conv_norm_relu(m, m.input("x", {2, 6, 6}), "stem", 2, 4);
  ValueId a = conv_norm_relu(m, x, "left", 4, 3);
  ValueId b = conv_norm_relu(m, conv_norm_relu(m, x, "right1", 4, 4), "right2", 4, 5);
  ValueId y = m.op("Concat", {a, b}, attrs({{"axis", int64_t{1}}}), "join");
  y = m.op("MaxPool", {y}, attrs({{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}), "pool");
  y = m.op("Dropout", {y, m.tensor("ratio", {}, {0.25}, Role::kConstant)}, {}, "drop");
  y = conv_norm_relu(m, y, "last", 8, 4);
  y = m.op("Flatten", {m.op("GlobalAveragePool", {y})});
  m.output(m.op("Gemm", {y, m.weight("dense/kernel", {4, 3}), m.weight("dense/bias", {3})}, {}, "dense"), "scores");
  return m.g;
}

Step step_of(const Graph& model) {
  auto step = build_training_step(model, {.batch = 2}, {.loss = LossKind::kSparseCategorical, .optimizer = {.momentum = 0.9}}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  return std::move(*step);
}

std::map<ValueId, RefTensor> feeds_of(const Step& s) {
  std::map<ValueId, RefTensor> feeds;
  Random random(3);
  for (ValueId v : s.inputs) {
    RefTensor t(s.graph.value(v).dtype, s.graph.value(v).shape);
    for (double& d : t.v) d = random.uniform(-1, 1);
    feeds[v] = t;
  }
  feeds[s.labels] = RefTensor(DType::kInt64, s.graph.value(s.labels).shape);
  feeds[s.learning_rate] = RefTensor(DType::kFloat32, {});
  feeds[s.learning_rate][0] = 0.1;
  for (ValueId v = 0; v < s.graph.value_count(); ++v)
    if (s.graph.value(v).role == Role::kState && !s.graph.value(v).data) feeds[v] = RefTensor(s.graph.value(v).dtype, s.graph.value(v).shape);
  return feeds;
}

std::vector<char> keep_none(const Graph& g) { return std::vector<char>(static_cast<size_t>(g.value_count()), 0); }
bool is_copy(const Graph& g, NodeId n) {
  for (ValueId v : g.node(n).outputs)
    if (v != kNoValue && g.value(v).name.find("/again") != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("recompute: every choice gives the same values, exactly") {
  const Step step = step_of(branches());
  const auto feeds = feeds_of(step);
  const auto before = interpret(step.graph, feeds);
  REQUIRE_MESSAGE(before.ok(), before.status().message());
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<char> kept = keep_none(step.graph);
    for (char& k : kept) k = seed > 0 ? static_cast<char>(random.between(kAgain, kEachTime)) : char{kAgain};
    Graph g = step.graph;
    auto copies = recompute(g, kept);
    REQUIRE_MESSAGE(copies.ok(), copies.status().message());
    CHECK(*copies > 0);
    REQUIRE(verify(g).ok());
    const auto after = interpret(g, feeds);
    REQUIRE_MESSAGE(after.ok(), after.status().message());
    CHECK((*after).at(step.loss).v == (*before).at(step.loss).v);
    for (const auto& [state, next] : step.graph.updates) CHECK_MESSAGE((*after).at(next).v == (*before).at(next).v, g.value(state).name);
    CHECK(g.updates == step.graph.updates);
  }
}

TEST_CASE("recompute: copies run late, and what they replace is read by no backward node") {
  const Step step = step_of(branches());
  Graph g = step.graph;
  auto copies = recompute(g, keep_none(g));
  REQUIRE(copies.ok());
  auto order = schedule(g);
  REQUIRE(order.ok());
  std::set<std::string> again;
  int found = 0;
  for (NodeId n : *order) {
    const Node& node = g.node(n);
    if (is_copy(g, n)) {
      ++found;
      CHECK(node.phase == Phase::kBackward);
      REQUIRE(node.forward_node != kNoNode);
      CHECK(g.node(node.forward_node).op_type == node.op_type);
      if (!node.name.empty()) CHECK(node.name.find(g.node(node.forward_node).name + "/again") == 0);
      for (ValueId v : node.outputs)
        if (v != kNoValue) again.insert(g.value(v).name);
      if (node.op_type == "BatchNormTraining") {
        CHECK(std::count(node.outputs.begin(), node.outputs.end(), kNoValue) == 4);  // no running statistics, no saved ones
        for (ValueId v : node.inputs) CHECK(g.value(v).role != Role::kState);
      }
      continue;
    }
    if (node.phase == Phase::kForward || node.phase == Phase::kLoss) {
      CHECK(found == 0);
      continue;
    }
    for (ValueId v : node.inputs)
      if (v != kNoValue && g.value(v).producer != kNoNode) CHECK(again.count(g.value(v).name + "/again") == 0);
  }
  CHECK(found == *copies);
  // The last copy of a row stands in front of its reader. Updates come as soon as they can, so they may stand between.
  std::erase_if(*order, [&](NodeId n) { return g.node(n).phase == Phase::kUpdate; });
  const auto uses = g.uses();
  for (size_t i = 0; i + 1 < order->size(); ++i) {
    if (!is_copy(g, (*order)[i]) || is_copy(g, (*order)[i + 1])) continue;
    bool read = false;
    for (ValueId v : g.node((*order)[i]).outputs)
      if (v != kNoValue) read |= std::count(uses[static_cast<size_t>(v)].begin(), uses[static_cast<size_t>(v)].end(), (*order)[i + 1]) > 0;
    CHECK_MESSAGE(read, g.label((*order)[i]));
  }
}

TEST_CASE("recompute: lifetimes on the line are those of the rewritten graph") {
  const Step step = step_of(branches());
  auto line = StepLine::of(step.graph);
  REQUIRE(line.ok());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<char> kept = keep_none(step.graph);
    for (char& k : kept) k = static_cast<char>(random.between(kAgain, kEachTime));
    const Line unrolled = line->unroll(kept);
    std::multiset<std::pair<int, int>> wanted, got;
    for (const Line::Version& v : unrolled.versions) got.insert({v.first, v.last});
    Graph g = step.graph;
    REQUIRE(recompute(g, kept).ok());
    const std::vector<NodeId> order = g.live_nodes();
    REQUIRE(order.size() == unrolled.slots.size());
    for (size_t i = 0; i < order.size(); ++i)
      for (ValueId v : g.node(order[i]).outputs) {
        if (v == kNoValue) continue;
        size_t last = i;
        for (size_t k = i; k < order.size(); ++k)
          if (std::count(g.node(order[k]).inputs.begin(), g.node(order[k]).inputs.end(), v)) last = k;
        wanted.insert({static_cast<int>(i), static_cast<int>(last)});
      }
    // The copies of normalisations read the saved statistics in place of the running ones, which the line does not count.
    std::erase_if(wanted, [&](const auto& w) { return g.node(order[static_cast<size_t>(w.first)]).op_type == "BatchNormTraining"; });
    std::erase_if(got, [&](const auto& w) { return step.graph.node(unrolled.slots[static_cast<size_t>(w.first)].node).op_type == "BatchNormTraining"; });
    CHECK(wanted == got);
  }
}

namespace {

// How often each node of a chain of three convolutions with normalisations is made again, where their results get `keep`.
std::map<std::string, int> made_again(Keep keep) {
  ModelBuilder m;
  ValueId y = m.input("x", {16, 4, 4});
  for (int i = 0; i < 3; ++i) y = conv_norm_relu(m, y, "c" + std::to_string(i), 16, 16);
  m.output(m.op("Gemm", {m.op("Flatten", {m.op("GlobalAveragePool", {y})}), m.weight("w", {16, 3}), m.weight("b", {3})}), "scores");
  const Step step = step_of(m.g);
  Graph g = step.graph;
  std::vector<char> kept(static_cast<size_t>(g.value_count()), kKept);
  for (NodeId n : g.live_nodes())
    if (g.node(n).op_type == "Conv" || g.node(n).op_type == "BatchNormTraining") kept[static_cast<size_t>(g.node(n).outputs[0])] = keep;
  REQUIRE(recompute(g, kept).ok());
  std::map<std::string, int> made;
  for (NodeId n : g.live_nodes())
    if (is_copy(g, n)) ++made[g.node(n).name.substr(0, g.node(n).name.find("/again"))];
  return made;
}

}  // namespace

TEST_CASE("recompute: a chain of convolutions is made again from its start, its normalisations twice") {
  // The gradient of c2's normalisation asks for c2, so for all convolutions and the first two normalisations in between; their own readers
  // come later and ask again. The last normalisation's result is read by the pool alone, whose gradient needs no values.
  CHECK(made_again(kAgain) == std::map<std::string, int>{{"c0", 1}, {"c1", 1}, {"c2", 1}, {"c0_norm", 2}, {"c1_norm", 2}});
  // Five readers ask, each from the start: c2_norm's gradient for c2, c2's for c1_norm, c1_norm's for c1, c1's for c0_norm, c0_norm's for c0.
  CHECK(made_again(kEachTime) == std::map<std::string, int>{{"c0", 5}, {"c1", 3}, {"c2", 1}, {"c0_norm", 4}, {"c1_norm", 2}});
}

TEST_CASE("recompute: graphs without a backward phase and choices that keep everything change nothing") {
  auto forward = build_evaluation_step(branches(), {.batch = 2}, {.loss = LossKind::kSparseCategorical}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(forward.ok(), forward.status().message());
  const std::string before = print(forward->graph);
  auto copies = recompute(forward->graph, keep_none(forward->graph));
  REQUIRE(copies.ok());
  CHECK(*copies == 0);
  CHECK(print(forward->graph) == before);

  Step step = step_of(branches());
  const std::string whole = print(step.graph);
  auto line = StepLine::of(step.graph);
  REQUIRE(line.ok());
  auto none = recompute(step.graph, line->kept_by_all());
  REQUIRE(none.ok());
  CHECK(*none == 0);
  CHECK(print(step.graph) == whole);
}
