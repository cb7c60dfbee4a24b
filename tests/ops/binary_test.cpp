// Arithmetic of broadcast operands: values, layouts, gradients, integers, ends of ranges.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "graph/ops/op.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

const std::vector<std::pair<Shape, Shape>>& pairs() {
  static const std::vector<std::pair<Shape, Shape>> list = {
      {{}, {}}, {{3}, {3}}, {{3}, {}}, {{}, {3}}, {{2, 3}, {3}}, {{2, 3}, {2, 1}}, {{2, 1}, {1, 3}}, {{1}, {2, 3}}, {{2, 3, 4, 5}, {2, 3, 4, 5}},
      {{2, 3, 4, 5}, {2, 3, 1, 1}}, {{2, 3, 4, 5}, {3, 1, 1}}, {{2, 3, 4, 5}, {1, 3, 1, 1}}, {{2, 3, 4, 5}, {1}}, {{2, 3, 4, 5}, {5}},
      {{2, 3, 4, 5}, {2, 1, 4, 5}}, {{3, 1, 1}, {2, 3, 4, 5}}, {{2, 3, 1, 1}, {2, 3, 4, 5}}, {{2, 1, 4, 1}, {1, 3, 1, 5}}, {{2, 3, 4}, {1, 3, 1}},
      {{2, 3, 2, 2, 2}, {3, 1, 1, 1}}, {{1, 3, 1, 1}, {2, 1, 4, 5}}, {{2, 0, 3}, {3}}};
  return list;
}

struct Row {
  const char* op;
  double a_low, a_high, b_low, b_high;
  Attributes attributes;
};

std::vector<int64_t> ints_of(const char* op, DType type, std::vector<double> a, std::vector<double> b, Attributes attributes = {}) {
  const Shape s{static_cast<int64_t>(a.size())};
  return run_on_cpu({.op = op, .inputs = {given(s, a, type), given(s, b, type)}, .attributes = attributes})[0].to_ints();
}

}  // namespace

TEST_CASE("binary operators and their gradients broadcast every way, row-major and channels-last") {
  const std::vector<Row> rows = {{"Add", -1, 1, -1, 1, {}}, {"Sub", -1, 1, -1, 1, {}}, {"Mul", -1, 1, -1, 1, {}}, {"Div", -1, 1, 0.5, 2, {}},
                                 {"Pow", 0.3, 2, -2, 2, {}}, {"Max", -1, 1, -1, 1, {}}, {"Min", -1, 1, -1, 1, {}}, {"Sum", -1, 1, -1, 1, {}},
                                 {"Mean", -1, 1, -1, 1, {}}, {"Mod", -5, 5, 0.7, 2, attrs({{"fmod", int64_t{1}}})}};
  uint64_t seed = 1;
  for (const Row& row : rows)
    for (const auto& [a, b] : pairs())
      check_op({.op = row.op, .inputs = {real(a, row.a_low, row.a_high), real(b, row.b_low, row.b_high)}, .attributes = row.attributes, .seed = seed++});
}

TEST_CASE("binary operators are right for sizes that use several threads") {
  for (const char* op : {"Add", "Mul"}) {
    check_forward({.op = op, .inputs = {real({3, 37, 31, 29}), real({3, 37, 31, 29})}});
    check_forward({.op = op, .inputs = {real({3, 37, 31, 29}), real({3, 37, 1, 1})}});
    check_forward({.op = op, .inputs = {real({37, 1, 1}), real({3, 37, 31, 29})}});
  }
}

TEST_CASE("variadic operators take one operand and more than a loop holds") {
  for (const char* op : {"Sum", "Mean", "Max", "Min"})
    for (size_t count : {1, 3, 5, 13}) {
      OpCase c{.op = op, .seed = count};
      for (size_t k = 0; k < count; ++k) c.inputs.push_back(real(k % 3 == 1 ? Shape{4} : k % 3 == 2 ? Shape{3, 1, 1} : Shape{2, 3, 2, 4}));
      check_op(c);
    }
  OpCase c{.op = "Sum"};
  for (int k = 0; k < 40; ++k) c.inputs.push_back(real({2, 3, 2, 4}));
  check_forward(c);
}

TEST_CASE("where operands tie the first one gets Max's and Min's gradient (ExtremumGrad)") {
  for (const char* op : {"Max", "Min"}) {
    const OpCase c{.op = op, .inputs = {given({2}, {1, 3}), given({2}, {1, 3}), given({2}, {1, 3})}};
    CHECK(gradient_on_cpu(c, 0, {5, 7}).at(0) == 5);
    CHECK(gradient_on_cpu(c, 0, {5, 7}).at(1) == 7);
    CHECK(gradient_on_cpu(c, 1, {5, 7}).at(0) == 0);
    CHECK(gradient_on_cpu(c, 2, {5, 7}).at(1) == 0);
  }
  CHECK(find_op(kEngineDomain, "ExtremumGrad"));
}

TEST_CASE("Pow with a constant exponent; PowGradBase and PowGradExponent at the edges") {
  uint64_t seed = 1;
  for (double e : {2.0, 0.5, 1.0, 3.0, -1.0, 0.0, 1.7}) {
    OpCase c{.op = "Pow", .inputs = {real({2, 3, 4, 5}, 0.2, 2), given({}, {e})}, .seed = seed++};
    c.inputs[1].constant = true;
    check_op(c);
  }
  CHECK(find_op(kEngineDomain, "PowGradBase"));
  CHECK(find_op(kEngineDomain, "PowGradExponent"));
  const OpCase zero{.op = "Pow", .inputs = {given({2}, {0, -2}), given({2}, {0, 2})}};
  CHECK(gradient_on_cpu(zero, 0, {1, 1}).at(0) == 0);   // d/da a^0 at 0
  CHECK(gradient_on_cpu(zero, 0, {1, 1}).at(1) == -4);  // d/da a^2 at -2
  CHECK(gradient_on_cpu(zero, 1, {1, 1}).at(1) == 0);
}

TEST_CASE("integer arithmetic wraps, and division by zero does not end the process") {
  using V = std::vector<int64_t>;
  CHECK(ints_of("Add", DType::kUint8, {250}, {10}) == V{4});
  CHECK(ints_of("Sub", DType::kUint16, {1}, {2}) == V{65535});
  CHECK(ints_of("Mul", DType::kInt8, {100}, {2}) == V{-56});
  CHECK(ints_of("Div", DType::kInt32, {7, -7, 7}, {2, 2, -2}) == V{3, -3, -3});
  CHECK(ints_of("Div", DType::kInt32, {7, -2147483648.0}, {0, -1}) == V{0, -2147483648LL});
  CHECK(ints_of("Mod", DType::kInt64, {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}) == V{0, -2, 5, 0, 2, 3});
  CHECK(ints_of("Mod", DType::kInt64, {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}, attrs({{"fmod", int64_t{1}}})) == V{0, 1, 5, 0, -1, 3});
  CHECK(ints_of("Mod", DType::kInt32, {5, 5}, {0, -1}) == V{0, 0});
  CHECK(ints_of("Pow", DType::kInt32, {2, -3, 2}, {10, 3, -1}) == V{1024, -27, 0});
  CHECK(ints_of("Max", DType::kInt16, {-5, 3}, {2, 1}) == V{2, 3});
}

TEST_CASE("NaN wins in Max and Min") {
  for (const char* op : {"Max", "Min"})
    for (int side = 0; side < 2; ++side) {
      const Tensor y = run_on_cpu({.op = op, .inputs = {given({1}, {side ? 1.0 : NAN}), given({1}, {side ? NAN : 1.0})}})[0];
      CHECK(std::isnan(y.at(0)));
    }
}

TEST_CASE("shapes and types that do not fit are refused by name") {
  Graph g;
  auto input = [&](DType t, Shape s) {
    ValueId v = g.add_value("x", t, s);
    g.value(v).role = Role::kInput;
    return v;
  };
  Builder one(g);
  one.op("Add", {input(DType::kFloat32, {2, 3}), input(DType::kFloat32, {4})});
  CHECK(one.status().message().find("[4]") != std::string::npos);
  Builder two(g);
  two.op("Add", {input(DType::kFloat32, {2}), input(DType::kInt64, {2})});
  CHECK(two.status().message().find("float32") != std::string::npos);
  CHECK(two.status().message().find("int64") != std::string::npos);
}
