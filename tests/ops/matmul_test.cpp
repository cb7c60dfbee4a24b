// Gemm, MatMul and ai.engine::BatchMatMul.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("Gemm matches the reference for every transpose, scale and broadcast of C") {
  Random r(1);
  for (int i = 0; i < 40; ++i) {
    const int64_t m = r.between(1, 9), n = r.between(1, 9), k = r.between(1, 9), ta = r.between(0, 1), tb = r.between(0, 1);
    const Shape c = r.pick(std::vector<Shape>{{m, n}, {n}, {1, n}, {m, 1}, {1}, {}, {1, 1}});
    OpCase op{.op = "Gemm", .inputs = {real(ta ? Shape{k, m} : Shape{m, k}), real(tb ? Shape{n, k} : Shape{k, n})}, .attributes = {}, .outputs = {true}, .domain = "", .seed = uint64_t(i), .rtol = 2e-5, .differentiate_outputs = {}};
    if (i % 4) op.inputs.push_back(real(c));
    if (ta) op.attributes.set("transA", int64_t{1});
    if (tb) op.attributes.set("transB", int64_t{1});
    if (i % 3 == 0) op.attributes.set("alpha", 0.5f);
    if (i % 5 == 0) op.attributes.set("beta", i % 2 ? 0.25f : 0.0f);
    check_op(op);
  }
}

TEST_CASE("Gemm is right for sizes that use two threads") {
  check_forward({.op = "Gemm", .inputs = {real({32, 784}), real({64, 784}), real({64})}, .attributes = attrs({{"transB", int64_t{1}}}), .outputs = {true}, .domain = "", .seed = 1, .rtol = 1e-5, .differentiate_outputs = {}});
  check_backward({.op = "Gemm", .inputs = {real({33, 784}), real({784, 130}), real({33, 1})}, .attributes = {}, .outputs = {true}, .domain = "", .seed = 1, .rtol = 1e-5, .differentiate_outputs = {}});
}

TEST_CASE("MatMul takes vectors, matrices and broadcast batches") {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{4}, {4}},          {{4}, {4, 3}},          {{2, 4}, {4}},          {{2, 4}, {4, 3}},       {{5, 2, 4}, {4, 3}},       {{5, 2, 4}, {5, 4, 3}},
      {{5, 2, 4}, {4}},    {{4}, {5, 4, 3}},       {{1, 2, 4}, {5, 4, 3}}, {{5, 2, 4}, {1, 4, 3}}, {{2, 4}, {5, 4, 3}},       {{3, 1, 2, 4}, {5, 4, 3}},
      {{3, 5, 2, 4}, {3, 1, 4, 2}}, {{1, 1}, {1, 1}}, {{2, 3, 1, 4}, {4, 1}}, {{3, 1, 2, 4}, {1, 5, 4, 3}}, {{2, 2, 2, 3, 4}, {2, 1, 2, 4, 3}}, {{7, 1}, {1, 7}},
      {{3, 4, 5}, {3, 5, 1}}, {{6, 1, 5}, {6, 5, 2}}, {{2, 3, 4, 5}, {5, 6}}, {{4, 4}, {2, 3, 4, 4}}};
  uint64_t seed = 1;
  for (const auto& [a, b] : shapes) check_op({.op = "MatMul", .inputs = {real(a), real(b)}, .attributes = {}, .outputs = {true}, .domain = "", .seed = seed++, .rtol = 2e-5, .differentiate_outputs = {}});
}

TEST_CASE("BatchMatMul transposes either operand") {
  Random r(3);
  for (int i = 0; i < 24; ++i) {
    const int64_t m = r.between(1, 6), n = r.between(1, 6), k = r.between(1, 6), ta = i & 1, tb = i >> 1 & 1, batch = r.between(1, 3);
    Shape a = ta ? Shape{k, m} : Shape{m, k}, b = tb ? Shape{n, k} : Shape{k, n};
    if (i % 3 != 1) a.insert(a.begin(), batch);
    if (i % 3 != 2) b.insert(b.begin(), batch);
    check_op({.op = "BatchMatMul", .inputs = {real(a), real(b)}, .attributes = attrs({{"trans_a", ta}, {"trans_b", tb}}), .outputs = {true}, .domain = "ai.engine", .seed = uint64_t(i), .rtol = 2e-5, .differentiate_outputs = {}});
  }
}
