// Programs whose nodes lie on several devices: the same bits as on one, shared weights, devices that cannot see each other's memory.
#include <doctest/doctest.h>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "graph/partition/cut.h"
#include "graph/passes/mark_parameters.h"
#include "graph/surgery/training_step.h"
#include "tests/support/fake_plugin.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

std::shared_ptr<Device> open(const std::string& name) {
  auto d = Device::open(name, {.threads = 1});
  REQUIRE_MESSAGE(d.ok(), d.status().message());
  return *d;
}

// Two towers with one weight in common, joined and classified; batch norm in one of them.
Graph two_towers() {
  ModelBuilder m;
  const ValueId a = m.input("a", {6}), b = m.input("b", {6}), shared = m.weight("shared", {6, 8});
  const ValueId ha = m.op("Relu", {m.op("Gemm", {a, shared}, {}, "left/gemm")}, {}, "left/relu");
  const ValueId hb = m.op("Tanh", {m.op("Gemm", {b, shared}, {}, "right/gemm")}, {}, "right/tanh");
  const ValueId bn = m.op("BatchNormalization", {hb, m.tensor("scale", {8}, std::vector<double>(8, 1)), m.weight("bias", {8}), m.tensor("mean", {8}, std::vector<double>(8, 0)),
                                                 m.tensor("var", {8}, std::vector<double>(8, 1))}, {}, "right/bn");
  Attributes axis;
  axis.set("axis", int64_t{1});
  const ValueId both = m.op("Concat", {ha, bn}, axis, "join");
  m.output(m.op("Gemm", {both, m.weight("head", {16, 3})}, {}, "head"), "y");
  REQUIRE(mark_parameters(m.g).ok());
  return m.g;
}

Step step_of(const Graph& model, int64_t batch) {
  ShapeBinding b;
  b.batch = batch;
  b.shapes["a"] = {batch, 6};
  b.shapes["b"] = {batch, 6};
  StepOptions o;
  o.optimizer.momentum = 0.9;
  auto step = build_training_step(model, b, o, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  return std::move(*step);
}

Tensor numbers(Shape shape, int seed) {
  Random r(static_cast<uint64_t>(seed));
  Tensor t(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < t.element_count(); ++i) t.set(i, r.uniform(-1, 1));
  return t;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

// Five steps with nodes placed by `place`.
Trained run(const std::vector<std::shared_ptr<Device>>& places, const std::function<int(const Graph&, const Node&)>& place) {
  Step step = step_of(two_towers(), 4);
  for (NodeId n : step.graph.live_nodes()) step.graph.node(n).place = place(step.graph, step.graph.node(n));
  auto store = std::make_shared<StateStore>(places[0]);
  auto program = Program::compile(step.graph, places, store, {step.loss});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  Trained out;
  for (int i = 0; i < 5; ++i) {
    const Tensor a = numbers({4, 6}, 2 * i), b = numbers({4, 6}, 2 * i + 1), labels = Tensor::ints({0, 1, 2, i % 3}), rate = Tensor::scalar(DType::kFloat32, 0.1);
    REQUIRE((*program)->feed(step.inputs[0], a).ok());
    REQUIRE((*program)->feed(step.inputs[1], b).ok());
    REQUIRE((*program)->feed(step.labels, labels).ok());
    REQUIRE((*program)->feed(step.learning_rate, rate).ok());
    REQUIRE((*program)->run().ok());
    Tensor loss;
    const Status s = (*program)->fetch(step.loss, loss);
    REQUIRE_MESSAGE(s.ok(), s.message());
    out.losses.push_back(loss.at(0));
  }
  for (const std::string& name : store->names()) {
    auto t = store->get(name);
    REQUIRE(t.ok());
    out.states[name] = *t;
  }
  return out;
}

void check_same(const Trained& a, const Trained& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.states.size() == b.states.size());
  for (const auto& [name, t] : a.states) {
    const Tensor& other = b.states.at(name);
    REQUIRE(t.byte_count() == other.byte_count());
    CHECK_MESSAGE(std::equal(t.bytes(), t.bytes() + t.byte_count(), other.bytes()), name, " differs");
  }
}

bool right_tower(const Graph& g, const Node& n) {
  for (ValueId v : n.outputs)
    if (v != kNoValue && g.value(v).name.find("right") != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("branches on two and three devices give the bits of one device, running statistics and momentum included") {
  const Trained one = run({open("cpu:0")}, [](const Graph&, const Node&) { return 0; });
  check_same(one, run({open("cpu:0"), open("cpu:1")}, [](const Graph& g, const Node& n) { return right_tower(g, n) ? 1 : 0; }));
  check_same(one, run({open("cpu:0"), open("cpu:1"), open("cpu:2")}, [](const Graph& g, const Node& n) {
               return right_tower(g, n) ? 1 : n.phase == Phase::kForward && n.op_type == "Gemm" ? 0 : 2;
             }));
}

TEST_CASE("any placement of the nodes gives the bits of one device") {
  const Trained one = run({open("cpu:0")}, [](const Graph&, const Node&) { return 0; });
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random r(seed);
    check_same(one, run({open("cpu:0"), open("cpu:1"), open("cpu:2")}, [&](const Graph&, const Node&) { return static_cast<int>(r.uniform(0, 2.999)); }));
  }
}

TEST_CASE("devices that cannot see each other's memory exchange values through the host") {
  auto table = load_fake({{"FAKE_NAME", "fake_far"}, {"FAKE_DEVICES", "2"}, {"FAKE_LATE_EVENT", "1"}});
  REQUIRE_MESSAGE(table.ok(), table.status().message());
  auto far0 = Device::open(*table, 0), far1 = Device::open(*table, 1);
  REQUIRE((far0.ok() && far1.ok()));
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, {2, 2}), y = g.add_value("y", DType::kFloat32, {2, 2});
  for (ValueId v : {x, y}) g.value(v).role = Role::kInput, g.inputs.push_back(v);
  Builder b(g);
  const ValueId sum = b.op("Add", {x, y}), product = b.op("MatMul", {sum, y}), back = b.op("Relu", {product}), end = b.op("Add", {back, sum});
  const int places[] = {0, 1, 2, 0};
  for (NodeId n : g.live_nodes()) g.node(n).place = places[n];
  auto program = Program::compile(g, {*far0, *far1, open("cpu:0")}, std::make_shared<StateStore>(*far0), {end, product});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  for (int i = 1; i < 4; ++i) {
    const Tensor a = Tensor::of<float>({2, 2}, {1, -2, 3, 4}), c = Tensor::of<float>({2, 2}, {static_cast<float>(i), 0, 1, -1});
    REQUIRE((*program)->feed(x, a).ok());
    REQUIRE((*program)->feed(y, c).ok());
    REQUIRE((*program)->run().ok());
    Tensor got;
    const Status s = (*program)->fetch(end, got);
    REQUIRE_MESSAGE(s.ok(), s.message());
    // sum = [1+i -2; 4 3], product = sum * c, by hand
    const double f = i, p[] = {(1 + f) * f - 2, 2, 4 * f + 3, -3}, first[] = {1 + f, -2, 4, 3};
    for (int64_t k = 0; k < 4; ++k) CHECK(got.at(k) == std::max(0.0, p[k]) + first[k]);
  }
}

TEST_CASE("a weight has one owner: readers elsewhere get a copy, and its name is stored once") {
  Step step = step_of(two_towers(), 4);
  for (NodeId n : step.graph.live_nodes())  // gradients and updates follow
    if (step.graph.node(n).phase == Phase::kForward) step.graph.node(n).place = right_tower(step.graph, step.graph.node(n)) ? 1 : 0;
  const auto devices = std::vector<std::shared_ptr<Device>>{open("cpu:0"), open("cpu:1")};
  auto store = std::make_shared<StateStore>(devices[0]);
  auto program = Program::compile(step.graph, devices, store, {step.loss});
  REQUIRE(program.ok());
  CHECK(store->has("shared"));
  CHECK(store->device_of("scale")->name() == "cpu:1");
  int sends = 0, receives = 0;
  const Graph& g = (*program)->graph();
  for (NodeId n : g.live_nodes()) {
    sends += g.node(n).op_type == "Send";
    receives += g.node(n).op_type == "Recv";
    if (g.node(n).op_type == "Recv") CHECK(g.node(n).place != g.node(g.value(g.node(n).inputs[0]).producer).place);
  }
  CHECK(sends == receives);
  CHECK(sends >= 3);  // the weight, the tower's result, its gradient
}
