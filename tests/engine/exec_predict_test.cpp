// The predicted time of a placed step, against sums done by hand: devices at once and one after the other, links, copies of shared weights,
// and devices that are slower side by side.
#include <doctest/doctest.h>

#include <map>

#include "engine/exec/predict.h"
#include "tests/support/model_builder.h"

using namespace eng;
using namespace eng::test;

namespace {

// x -> a -> b
//        -> c -> d(b, c)
struct Diamond {
  ModelBuilder m;
  NodeId a, b, c, d;
  Diamond() {
    const ValueId x = m.input("x", {250});
    auto node = [&](const char* name, std::vector<ValueId> inputs) {
      const ValueId v = m.op(inputs.size() == 2 ? "Add" : "Relu", std::move(inputs), {}, name);
      Value& value = m.g.value(v);
      value.dtype = DType::kFloat32;
      value.shape = {1, 250};
      value.has_shape = true;
      return v;
    };
    m.g.value(x).shape = {1, 250};
    m.g.value(x).has_shape = true;
    const ValueId va = node("a", {x}), vb = node("b", {va}), vc = node("c", {va}), vd = node("d", {vb, vc});
    m.g.outputs = {vd};
    a = m.g.value(va).producer, b = m.g.value(vb).producer, c = m.g.value(vc).producer, d = m.g.value(vd).producer;
  }
  Graph placed(int on_a, int on_b, int on_c, int on_d) {
    Graph g = m.g;
    g.node(a).place = on_a, g.node(b).place = on_b, g.node(c).place = on_c, g.node(d).place = on_d;
    return g;
  }
};

// a 1 s, b 4 s, c 2 s, d 1 s; beside another device `slower` times as long.
StepCosts costs(double slower, LinkSpec link) {
  StepCosts c;
  for (int d = 0; d < 2; ++d) c.machine.devices.push_back({.name = cat("cpu:", d), .bytes_per_second = 2000});
  c.machine.connect_all(link);
  auto of = [](double factor) {
    return [factor](const Graph& g, NodeId n, int) {
      static const std::map<std::string, double> kSeconds{{"a", 1}, {"b", 4}, {"c", 2}, {"d", 1}};
      const auto it = kSeconds.find(g.node(n).name);
      NodeCost cost;
      cost.seconds = it == kSeconds.end() ? 0 : factor * it->second;
      return cost;
    };
  };
  c.alone = of(1);
  c.together = of(slower);
  c.overhead = 0.125;
  return c;
}

double seconds(const Graph& g, const StepCosts& c) {
  const auto p = predict_step(g, c);
  INFO(p.status().message());
  REQUIRE(p.ok());
  return p->seconds;
}

}  // namespace

TEST_CASE("predict: one device is the sum of its nodes and the overhead") {
  Diamond x;
  CHECK(seconds(x.placed(0, 0, 0, 0), costs(2, {0.5, 0})) == doctest::Approx(8.125));
  CHECK(seconds(x.placed(1, 1, 1, 1), costs(2, {0.5, 0})) == doctest::Approx(8.125));
}

TEST_CASE("predict: branches on two devices run at once, and what crosses takes the link's time") {
  Diamond x;
  // a 0-1; b 1-5; there 1.5, c 1.5-3.5, back 4; d 5-6
  CHECK(seconds(x.placed(0, 0, 1, 0), costs(1, {0.5, 0})) == doctest::Approx(6.125));
  // 1,000 bytes at 500 a second: there 3.5, c 3.5-5.5, back 8; d 8-9
  CHECK(seconds(x.placed(0, 0, 1, 0), costs(1, {0.5, 500})) == doctest::Approx(9.125));
  const auto p = predict_step(x.placed(0, 0, 1, 0), costs(1, {0.5, 500}));
  REQUIRE(p.ok());
  CHECK(p->busy[0] == doctest::Approx(6));
  CHECK(p->busy[1] == doctest::Approx(2));
  for (size_t i = 0; i < p->nodes.size(); ++i)
    if (p->nodes[i] == x.c) CHECK(p->spans[i].start == doctest::Approx(3.5));
}

TEST_CASE("predict: devices that work side by side slow each other down, and only then") {
  Diamond x;
  // Twice as slow together, no link: a 0-1; c 1-5 beside b, which has done 2 of its 4 s by then, and ends at 7; d 7-8
  CHECK(seconds(x.placed(0, 0, 1, 0), costs(2, {})) == doctest::Approx(8.125));
}

TEST_CASE("predict: a weight that another device owns is copied on its reader's stream when the step begins") {
  Diamond x;
  const ValueId w = x.m.tensor("w", {1, 250}, std::vector<double>(250, 0));
  Graph g = x.placed(0, 0, 0, 1);
  g.node(x.a).inputs = {g.node(x.a).inputs[0], w};
  g.node(x.a).op_type = "Add";
  g.node(x.d).inputs[1] = w;
  g.node(x.d).inputs[0] = g.node(x.b).outputs[0];
  // 1,000 bytes read and written at 200 a second: 10 s on the second device, then d; a, b and c take 7 s on the first.
  StepCosts slow = costs(1, {});
  slow.machine.devices[1].bytes_per_second = 200;
  CHECK(seconds(g, slow) == doctest::Approx(11.125));
}
