// Layer, instance and group normalisation against the float64 reference and finite differences.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("layer_norm: every axis, with and without bias") {
  uint64_t seed = 0;
  for (const Shape& x : {Shape{3, 8}, Shape{2, 3, 4}, Shape{2, 2, 3, 5}})
    for (int64_t axis = -static_cast<int64_t>(x.size()); axis < static_cast<int64_t>(x.size()); ++axis) {
      const int64_t from = axis < 0 ? axis + static_cast<int64_t>(x.size()) : axis;
      const Shape row(x.begin() + from, x.end());
      OpCase c{.op = "LayerNormalization", .inputs = {real(x), real(row)}, .seed = ++seed};
      if (seed % 2) c.inputs.push_back(real(row));
      c.attributes = attrs({{"axis", axis}, {"epsilon", 1e-2f}});
      check_op(c);
      c.outputs = {true, true, true};
      check_forward(c);
    }
}

TEST_CASE("layer_norm: instance and group normalisation") {
  uint64_t seed = 0;
  for (const Shape& x : {Shape{2, 4, 3}, Shape{2, 6, 3, 2}, Shape{3, 2, 4, 4}, Shape{1, 4, 2, 2, 3}})
    for (float epsilon : {1e-2f, 0.3f}) {
      OpCase c{.op = "InstanceNormalization", .inputs = {real(x), real({x[1]}), real({x[1]})}, .attributes = attrs({{"epsilon", epsilon}}), .seed = ++seed};
      check_op(c);
      for (int64_t groups : {1, 2}) {
        c.op = "GroupNormalization";
        c.attributes = attrs({{"epsilon", epsilon}, {"num_groups", groups}});
        check_op(c);
      }
    }
}

TEST_CASE("layer_norm: 16-bit operands are computed in float32") {
  OpCase c{.op = "LayerNormalization", .inputs = {given({1, 4}, {1, 2, 3, 4}, DType::kFloat16), given({4}, {1, 1, 1, 1}, DType::kFloat16)}};
  auto y = run_on_cpu(c)[0];
  const double wanted[] = {-1.3416, -0.4472, 0.4472, 1.3416};  // (x - 2.5) / sqrt(1.25)
  for (int64_t i = 0; i < 4; ++i) CHECK(y.at(i) == doctest::Approx(wanted[i]).epsilon(1e-3));
}
