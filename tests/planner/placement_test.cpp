#include "graph/partition/placement.h"

#include <doctest/doctest.h>

using namespace eng;

namespace {

// tower_a/conv, tower_b/conv, a node without a name that makes 'joined', and the backward node of tower_b/conv.
Graph towers() {
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, {1});
  g.inputs = {x};
  g.value(x).role = Role::kInput;
  Node a{.op_type = "Relu", .name = "tower_a/conv", .inputs = {x}, .outputs = {g.add_value("a")}};
  Node b{.op_type = "Relu", .name = "tower_b/conv", .inputs = {x}, .outputs = {g.add_value("b")}};
  Node c{.op_type = "Add", .inputs = {a.outputs[0], b.outputs[0]}, .outputs = {g.add_value("joined")}};
  g.add_node(a);
  const NodeId forward = g.add_node(b);
  g.add_node(c);
  Node back{.op_type = "ReluGrad", .inputs = {c.outputs[0]}, .outputs = {g.add_value("grad")}, .phase = Phase::kBackward, .forward_node = forward};
  g.add_node(back);
  return g;
}

const std::vector<std::string> kDevices{"cpu:0", "cpu:1"};

}  // namespace

TEST_CASE("placement file: patterns, comments, nodes without names; backward nodes follow") {
  const auto places = read_placement("# towers\n tower_a/* = cpu:0 # left\n\ntower_b/* = cpu:1\r\njoin?d=cpu:1\n", "p.txt", towers(), kDevices);
  REQUIRE(places.ok());
  CHECK(places->device == std::vector<int>{0, 1, 1, 1});
  CHECK(places->line == std::vector<int>{2, 4, 5, 4});
  const auto some = read_placement("tower_b/* = cpu:1\n*_b/conv = cpu:1", "p.txt", towers(), kDevices);
  REQUIRE(some.ok());
  CHECK(some->device == std::vector<int>{-1, 1, -1, 1});
}

TEST_CASE("placement file: all mistakes at once, with their lines") {
  const auto places = read_placement("tower_a/* = cpu:7\nconv = cpu:0\ntower_* = cpu:0\nhello\ntower_b/* = cpu:1\n*/conv = cpu:1\n = cpu:0\n", "p.txt", towers(), kDevices);
  REQUIRE(!places.ok());
  CHECK(places.status().code() == Code::kInvalid);
  CHECK(places.status().message() ==
        "p.txt: 6 lines of the placement are wrong:\n"
        "  line 1: there is no device 'cpu:7'; the devices are cpu:0, cpu:1\n"
        "  line 2: no node's name matches 'conv'\n"
        "  line 4: 'hello': wanted 'node-name pattern = device'\n"
        "  line 5: gives 'tower_b/conv' another device than line 3\n"
        "  line 6: gives 'tower_a/conv' and 1 more another device than line 3\n"
        "  line 7: '= cpu:0': wanted 'node-name pattern = device'");
}
