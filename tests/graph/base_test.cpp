// Shapes, element types, tensors, globs, graphs.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/base/glob.h"
#include "graph/base/tensor.h"
#include "graph/ir/graph.h"
#include "tests/support/model_builder.h"

using namespace eng;

TEST_CASE("an element count that wraps around 64 bits is refused") {
  CHECK_FALSE(checked_element_count({4194305, 4194305, 211106198978564}).ok());
  CHECK_FALSE(checked_element_count({0, int64_t{1} << 62, int64_t{1} << 62}).ok());
  CHECK_FALSE(checked_element_count({3, -1}).ok());
  CHECK(*checked_element_count({3, 0, 5}) == 0);
  CHECK(*checked_element_count({}) == 1);
}

TEST_CASE("shapes broadcast as in NumPy") {
  CHECK(*broadcast({3, 1, 5}, {4, 1}) == Shape{3, 4, 5});
  CHECK(*broadcast({}, {2}) == Shape{2});
  CHECK_FALSE(broadcast({2, 3}, {2, 4}).ok());
}

TEST_CASE("channels-last strides have axis 1 innermost") {
  CHECK(channels_last_strides({2, 3, 4, 5}) == std::vector<int64_t>{60, 1, 15, 3});
  CHECK(channels_last_strides({2, 3}) == row_major_strides({2, 3}));
}

TEST_CASE("half precision rounds to nearest even and keeps special values") {
  CHECK(float_to_half(1.0F) == 0x3c00);
  CHECK(float_to_half(65504.0F) == 0x7bff);
  CHECK(float_to_half(65520.0F) == 0x7c00);          // halfway to 65536 rounds up to infinity
  CHECK(float_to_half(1.0F + 0x1p-11F) == 0x3c00);   // halfway, to even
  CHECK(float_to_half(1.0F + 3 * 0x1p-11F) == 0x3c02);
  CHECK(half_to_float(0x0001) == 0x1p-24F);
  CHECK(std::isnan(half_to_float(float_to_half(NAN))));
  CHECK(float_to_bfloat16(1.0F) == 0x3f80);
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(NAN))));
  for (uint32_t bits = 0; bits < 0x7c00; bits += 7) CHECK(float_to_half(half_to_float(static_cast<uint16_t>(bits))) == bits);
}

TEST_CASE("globs match whole names") {
  CHECK(glob_match("stem/*", "stem/conv1/kernel"));
  CHECK(glob_match("*bn?*", "block/bn1.weight"));
  CHECK_FALSE(glob_match("stem", "stem/conv1"));
  CHECK(glob_match("*", ""));
  CHECK_FALSE(glob_match("a?c", "ac"));
  CHECK(glob_match("*a*b", "xxaxxab"));
}

TEST_CASE("a cycle is named, unsorted nodes are sorted") {
  Graph g;
  ValueId x = g.add_value("x", DType::kFloat32, {1});
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  ValueId a = g.add_value("a"), b = g.add_value("b");
  g.add_node(Node{.op_type = "Identity", .name = "late", .inputs = {a}, .outputs = {b}});
  g.add_node(Node{.op_type = "Identity", .name = "early", .inputs = {x}, .outputs = {a}});
  g.outputs = {b};
  REQUIRE(g.topological_order().ok());
  CHECK(*g.topological_order() == std::vector<NodeId>{1, 0});
  CHECK(verify(g).ok());
  g.node(1).inputs[0] = b;
  auto order = g.topological_order();
  REQUIRE_FALSE(order.ok());
  CHECK(order.status().message().find("'late'") != std::string::npos);
}

TEST_CASE("names of new values are unique") {
  Graph g;
  ValueId a = g.add_value("x"), b = g.add_value("x"), c = g.add_value("");
  CHECK(g.value(a).name == "x");
  CHECK(g.value(b).name != "x");
  CHECK(g.find_value("x") == a);
  CHECK_FALSE(g.value(c).name.empty());
}

TEST_CASE("a label is one line, whatever the names hold") {
  Graph g;
  const ValueId y = g.add_value("made\nerror: forged");
  g.add_node(Node{.op_type = "Relu", .name = "a\tb\r\nc", .inputs = {}, .outputs = {y}});
  g.add_node(Node{.domain = "x\ny", .op_type = "Relu", .inputs = {}, .outputs = {y}});
  CHECK(g.label(NodeId{0}) == "Relu 'a\\tb\\r\\nc'");
  CHECK(g.label(NodeId{1}) == "x\\ny::Relu with output 'made\\nerror: forged'");
}
