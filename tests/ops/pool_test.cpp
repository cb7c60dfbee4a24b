// Pools: random windows against the float64 reference and finite differences; padding, NaN and ties.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

std::vector<int64_t> draw(Random& r, size_t n, int64_t low, int64_t high) {
  std::vector<int64_t> v(n);
  for (int64_t& x : v) x = r.between(low, high);
  return v;
}

OpCase random_pool(const std::string& op, uint64_t seed) {
  Random r(seed);
  const size_t axes = static_cast<size_t>(r.between(1, 3));
  const auto kernel = draw(r, axes, 1, 3), dilations = draw(r, axes, 1, 2);
  Shape x{r.between(1, 2), r.pick<int64_t>({1, 3, 18})};
  for (size_t i = 0; i < axes; ++i) x.push_back((kernel[i] - 1) * dilations[i] + 1 + r.between(0, axes == 3 ? 1 : 3));
  OpCase c{.op = op, .inputs = {real(x)}, .seed = seed};
  c.attributes = attrs({{"kernel_shape", kernel}, {"strides", draw(r, axes, 1, 3)}, {"dilations", dilations}});
  const std::string mode = r.pick<std::string>({"NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  if (mode == "NOTSET") {
    std::vector<int64_t> pads(2 * axes);
    for (size_t i = 0; i < axes; ++i)
      for (size_t side : {i, axes + i}) pads[side] = r.between(0, std::min<int64_t>(2, (kernel[i] - 1) * dilations[i]));
    c.attributes.set("pads", pads);
    c.attributes.set("ceil_mode", r.between(0, 1));
  } else {
    c.attributes.set("auto_pad", mode);
  }
  return c;
}

}  // namespace

TEST_CASE("pool: MaxPool agrees with the reference and finite differences") {
  for (uint64_t seed = 1; seed <= 25; ++seed) check_op(random_pool("MaxPool", seed));
}

TEST_CASE("pool: MaxPool gives the index of the maximum in both storage orders") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    OpCase c = random_pool("MaxPool", seed);
    c.outputs = {true, true};
    c.attributes.set("storage_order", static_cast<int64_t>(seed % 2));
    check_forward(c);
  }
}

TEST_CASE("pool: AveragePool agrees with the reference and finite differences") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    OpCase c = random_pool("AveragePool", seed);
    c.attributes.set("count_include_pad", static_cast<int64_t>(seed % 2));
    check_op(c);
  }
}

TEST_CASE("pool: pads, rounding and dilation, each by itself") {
  using Ints = std::vector<int64_t>;
  struct Window {
    Shape x;
    Ints kernel, strides, pads;
    int64_t ceil = 0, dilation = 1;
  };
  const Window windows[] = {
      {{2, 3, 7, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}}, {{2, 3, 8, 5}, {3, 2}, {2, 1}, {1, 1, 1, 1}},            // the same at both ends
      {{2, 3, 8, 8}, {3, 3}, {2, 2}, {1, 1, 0, 0}}, {{2, 3, 6, 6}, {3, 3}, {2, 2}, {0, 0, 1, 1}}, {{2, 3, 5}, {3}, {1}, {2, 0}},
      {{2, 3, 6, 6}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1}, {{2, 3, 7, 7}, {3, 3}, {2, 2}, {0, 0, 0, 0}, 1},      // with something to round and without
      {{2, 3, 5, 5}, {3, 3}, {2, 2}, {1, 1, 0, 0}, 1}, {{2, 3, 6}, {2}, {3}, {1, 1}, 1},                     // a window that passes the pads' end
      {{2, 3, 9, 9}, {3, 3}, {2, 2}, {2, 2, 2, 2}, 0, 2}, {{1, 2, 4, 5, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0, 1, 1, 0}}, {{1, 2, 4, 4, 4}, {3, 3, 3}, {2, 2, 2}, {1, 0, 1, 0, 1, 1}},
      {{2, 3, 4, 4}, {4, 4}, {1, 1}, {0, 0, 0, 0}},                                                          // one window
  };
  uint64_t seed = 0;
  for (const Window& w : windows)
    for (const char* op : {"MaxPool", "AveragePool"})
      for (int64_t counted = 0; counted < (*op == 'A' ? 2 : 1); ++counted) {
        OpCase c{.op = op, .inputs = {real(w.x)}, .seed = ++seed};
        c.attributes = attrs({{"kernel_shape", w.kernel}, {"strides", w.strides}, {"pads", w.pads}, {"ceil_mode", w.ceil}, {"dilations", Ints(w.kernel.size(), w.dilation)}});
        if (counted) c.attributes.set("count_include_pad", counted);
        check_op(c);
      }
}

TEST_CASE("pool: LpPool agrees with the reference and finite differences") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    OpCase c = random_pool("LpPool", seed);
    c.inputs[0] = real(c.inputs[0].shape, 0.1, 1);
    if (seed % 2) c.inputs[0].low = -1, c.inputs[0].high = -0.1;
    c.attributes.set("p", static_cast<int64_t>(seed % 3 + 1));
    check_op(c);
  }
}

TEST_CASE("pool: global pools") {
  for (const char* op : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"})
    for (const Shape& x : {Shape{2, 3, 4}, Shape{1, 1, 3, 5}, Shape{2, 70, 3, 2}, Shape{2, 2, 2, 3, 2}, Shape{3, 17, 1, 1}, Shape{1, 4, 1, 6}, Shape{2, 5, 7, 1}}) {
      OpCase c{.op = op, .inputs = {real(x, 0.1, 1)}, .seed = static_cast<uint64_t>(x[0] * 10 + x[1])};
      check_op(c);
    }
}

TEST_CASE("pool: pools of 8-bit integers") {
  for (DType type : {DType::kInt8, DType::kUint8}) {
    OpCase c{.op = "MaxPool", .inputs = {given({1, 1, 2, 3}, {1, 7, 3, 4, 5, 6}, type)}, .attributes = attrs({{"kernel_shape", std::vector<int64_t>{2, 2}}})};
    auto y = run_on_cpu(c)[0];
    CHECK(y.at(0) == 7);
    CHECK(y.at(1) == 7);
  }
}

TEST_CASE("pool: a NaN in the window is the maximum") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  OpCase c{.op = "MaxPool", .inputs = {given({1, 1, 4}, {nan, 5, 1, 2})}, .attributes = attrs({{"kernel_shape", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{2}}})};
  auto y = run_on_cpu(c)[0];
  CHECK(std::isnan(y.at(0)));
  CHECK(y.at(1) == 2);
  // Wherever it is in the window, in three spatial axes too.
  for (int64_t at = 0; at < 8; ++at) {
    std::vector<double> x(16, 1);
    x[static_cast<size_t>(at)] = nan;
    OpCase deep{.op = "MaxPool", .inputs = {given({1, 2, 2, 2, 2}, x)}, .attributes = attrs({{"kernel_shape", std::vector<int64_t>{2, 2, 2}}})};
    y = run_on_cpu(deep)[0];
    CHECK(std::isnan(y.at(0)));
    CHECK(y.at(1) == 1);
  }
}

TEST_CASE("pool: equal maxima send the gradient to the first") {
  OpCase c{.op = "MaxPool", .inputs = {given({1, 1, 4}, {3, 3, 3, 1})}, .attributes = attrs({{"kernel_shape", std::vector<int64_t>{2}}})};
  auto dx = gradient_on_cpu(c, 0, {1, 10, 100});
  CHECK(dx.at(0) == 1);
  CHECK(dx.at(1) == 10);
  CHECK(dx.at(2) == 100);
  CHECK(dx.at(3) == 0);
}
