// Resize: every mode and coordinate transformation against the float64 reference and finite differences; a value by hand.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput fixed(const std::vector<double>& values) {
  OpInput i = given({static_cast<int64_t>(values.size())}, values);
  i.constant = true;
  return i;
}

OpCase make(Shape x, OpInput scales, std::initializer_list<std::pair<const char*, Attribute>> a, uint64_t seed) {
  return {.op = "Resize", .inputs = {real(std::move(x)), absent(), std::move(scales)}, .attributes = attrs(a), .seed = seed};
}

}  // namespace

TEST_CASE("resize: modes and coordinate transformations") {
  uint64_t seed = 0;
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* how : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"})
      for (const std::vector<double>& scales : {std::vector<double>{1, 1, 2, 2}, {1, 1, 0.6, 1.7}, {1, 1, 0.5, 0.3}})
        check_op(make({1, 2, 4, 5}, fixed(scales), {{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(how)}}, ++seed));
}

TEST_CASE("resize: nearest rounds as told") {
  uint64_t seed = 0;
  for (const char* how : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    for (double scale : {0.5, 0.75, 1.5, 2.0, 3.0})
      check_op(make({2, 1, 6}, fixed({1, 1, scale}), {{"nearest_mode", std::string(how)}}, ++seed));
}

TEST_CASE("resize: antialias, exclude_outside, cubic coefficient") {
  uint64_t seed = 0;
  for (const char* mode : {"linear", "cubic"})
    for (int64_t antialias : {0, 1})
      for (int64_t exclude : {0, 1})
        check_op(make({1, 1, 7, 5}, fixed({1, 1, 0.45, 1.6}),
                      {{"mode", std::string(mode)}, {"antialias", antialias}, {"exclude_outside", exclude}, {"cubic_coeff_a", -0.5f}}, ++seed));
}

TEST_CASE("resize: sizes, axes and aspect ratio") {
  uint64_t seed = 0;
  for (const char* policy : {"stretch", "not_larger", "not_smaller"})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2, 3}, {3, 2}, {-1, -2}}) {
      OpCase c{.op = "Resize", .inputs = {real({1, 2, 4, 6}), absent(), absent(), ints({7, 8})}, .seed = ++seed};
      c.attributes = attrs({{"mode", std::string("linear")}, {"axes", axes}, {"keep_aspect_ratio_policy", std::string(policy)}});
      check_op(c);
    }
}

TEST_CASE("resize: crops with a value outside") {
  uint64_t seed = 0;
  for (const std::vector<double>& roi : {std::vector<double>{0.4, 0.6, 0.6, 0.8}, {0.4, 0.6, 1.2, 1.7}, {-0.2, 0, 1, 0.5}}) {
    OpCase c{.op = "Resize", .inputs = {real({1, 2, 4, 4}), fixed(roi), absent(), ints({3, 3})}, .seed = ++seed};
    c.attributes = attrs({{"mode", std::string("linear")}, {"axes", std::vector<int64_t>{2, 3}}, {"extrapolation_value", 10.0f},
                          {"coordinate_transformation_mode", std::string("tf_crop_and_resize")}});
    check_op(c);
  }
}

TEST_CASE("resize: doubling a line by hand") {
  OpCase c = make({1, 1, 2}, fixed({1, 1, 2}), {{"mode", std::string("linear")}}, 1);
  c.inputs[0] = given({1, 1, 2}, {1, 3});
  auto y = run_on_cpu(c)[0];
  const double wanted[] = {1, 1.5, 2.5, 3};  // points -0.25, 0.25, 0.75, 1.25
  for (int64_t i = 0; i < 4; ++i) CHECK(y.at(i) == doctest::Approx(wanted[i]));
}
