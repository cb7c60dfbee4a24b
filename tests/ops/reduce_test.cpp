// Reductions over any axes, layouts and gradients; ArgMax and ArgMin.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

struct Row {
  const char* op;
  double low, high;
};
// Ranges that keep logarithms and products well away from where they are not smooth.
const Row kRows[] = {{"ReduceSum", -1, 1},  {"ReduceMean", -1, 1}, {"ReduceMax", -1, 1},       {"ReduceMin", -1, 1},      {"ReduceProd", 0.5, 1.5},
                     {"ReduceL1", -1, 1},   {"ReduceL2", -1, 1},   {"ReduceSumSquare", -1, 1}, {"ReduceLogSum", 0.5, 2}, {"ReduceLogSumExp", -3, 3}};

}  // namespace

TEST_CASE("reductions equal the reference for every choice of axes, gradients included") {
  Random random(5);
  for (const Row& row : kRows)
    for (int k = 0; k < 20; ++k) {
      Shape shape;
      const int64_t rank = random.between(1, 4);
      for (int64_t i = 0; i < rank; ++i) shape.push_back(random.between(1, 4));
      std::vector<int64_t> axes;
      for (int64_t i = 0; i < rank; ++i)
        if (random.between(0, 1)) axes.push_back(random.between(0, 1) ? i : i - rank);
      OpCase c{.op = row.op, .inputs = {real(shape, row.low, row.high)}, .attributes = attrs({{"keepdims", random.between(0, 1)}})};
      c.seed = static_cast<uint64_t>(k + 1);
      if (!axes.empty()) c.inputs.push_back(ints(axes));
      else if (k % 2) c.attributes.set("noop_with_empty_axes", int64_t{1});
      check_op(c);
    }
}

TEST_CASE("a long sum keeps its accuracy") {
  // 2^20 values of 0.1 as float32 (0.100000001490116): plain float32 accumulation is off by about 0.1 %.
  const int64_t n = 1 << 20;
  const double exact = static_cast<double>(0.1F) * static_cast<double>(n);
  const Tensor sum = run_on_cpu({.op = "ReduceSum", .inputs = {given({n}, std::vector<double>(static_cast<size_t>(n), 0.1))}, .attributes = attrs({{"keepdims", int64_t{0}}})})[0];
  CHECK(sum.at(0) == doctest::Approx(exact).epsilon(1e-6));
}

TEST_CASE("the product's gradient is right where one factor is zero") {
  const Tensor d = gradient_on_cpu({.op = "ReduceProd", .inputs = {given({3}, {2, 0, 5})}, .attributes = attrs({{"keepdims", int64_t{0}}})}, 0, {1});
  CHECK(d.at(0) == 0);
  CHECK(d.at(1) == 10);
  CHECK(d.at(2) == 0);
}

TEST_CASE("ArgMax and ArgMin find the first or the last extreme along an axis") {
  for (const char* op : {"ArgMax", "ArgMin"})
    for (int64_t axis : {0, 1, -1})
      for (int64_t last : {0, 1})
        for (int64_t keep : {0, 1}) {
          OpInput x = real({3, 4, 5}, 0, 3);
          x.dtype = DType::kInt32;  // many ties
          check_forward({.op = op, .inputs = {x}, .attributes = attrs({{"axis", axis}, {"select_last_index", last}, {"keepdims", keep}})});
        }
}
