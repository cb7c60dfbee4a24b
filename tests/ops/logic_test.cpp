// Truth values, bits, comparisons and Where, broadcast, against the reference.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput typed(Shape shape, DType type, double low, double high) {
  OpInput i = real(std::move(shape), low, high);
  i.dtype = type;
  return i;
}

const std::vector<std::pair<Shape, Shape>> kPairs = {{{2, 3, 4, 5}, {2, 3, 4, 5}}, {{2, 3, 4, 5}, {3, 1, 1}}, {{4}, {}}, {{2, 1}, {1, 3}}};

}  // namespace

TEST_CASE("comparisons give the reference's truth values, equal operands included") {
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
    for (const auto& [a, b] : kPairs)
      for (DType type : {DType::kFloat32, DType::kInt32, DType::kInt64})  // integers of a small range meet often
        check_forward({.op = op, .inputs = {typed(a, type, -2, 2), typed(b, type, -2, 2)}});
  CHECK(run_on_cpu({.op = "Less", .inputs = {given({3}, {NAN, 1, 1}), given({3}, {1, NAN, 2})}})[0].at(0) == 0);
}

TEST_CASE("truth operators and bit operators give the reference's values") {
  for (const auto& [a, b] : kPairs) {
    for (const char* op : {"And", "Or", "Xor"}) check_forward({.op = op, .inputs = {typed(a, DType::kBool, 0, 1), typed(b, DType::kBool, 0, 1)}});
    for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
      check_forward({.op = op, .inputs = {typed(a, DType::kInt32, -1000, 1000), typed(b, DType::kInt32, -1000, 1000)}});
    for (const char* direction : {"LEFT", "RIGHT"})
      check_forward({.op = "BitShift", .inputs = {typed(a, DType::kUint32, 0, 1000), typed(b, DType::kUint32, 0, 8)}, .attributes = attrs({{"direction", std::string(direction)}})});
  }
  check_forward({.op = "Not", .inputs = {typed({2, 3, 4, 5}, DType::kBool, 0, 1)}});
  check_forward({.op = "BitwiseNot", .inputs = {typed({2, 3, 4, 5}, DType::kInt64, -1000, 1000)}});
}

TEST_CASE("infinities and not-a-numbers are told apart") {
  const OpInput x = given({4}, {INFINITY, -INFINITY, NAN, 1});
  const Tensor nan = run_on_cpu({.op = "IsNaN", .inputs = {x}})[0], inf = run_on_cpu({.op = "IsInf", .inputs = {x}})[0];
  const Tensor positive = run_on_cpu({.op = "IsInf", .inputs = {x}, .attributes = attrs({{"detect_negative", int64_t{0}}})})[0];
  const double is_nan[] = {0, 0, 1, 0}, is_inf[] = {1, 1, 0, 0}, is_positive[] = {1, 0, 0, 0};
  for (int64_t i = 0; i < 4; ++i) {
    CHECK(nan.at(i) == is_nan[i]);
    CHECK(inf.at(i) == is_inf[i]);
    CHECK(positive.at(i) == is_positive[i]);
  }
}

TEST_CASE("Where chooses and sends the gradient to the chosen operand") {
  const std::vector<std::vector<Shape>> shapes = {{{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}}, {{2, 3, 4, 5}, {3, 1, 1}, {}}, {{3}, {2, 3}, {1}}, {{2, 1}, {1, 3}, {2, 3}}, {{}, {2}, {2}}};
  for (const auto& s : shapes)
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      OpCase c{.op = "Where", .inputs = {typed(s[0], DType::kBool, 0, 1), real(s[1]), real(s[2])}};
      c.seed = seed;
      check_op(c);
    }
}
