// Conv and its gradients: random geometry against the float64 reference and finite differences; the values of known cases.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

std::vector<int64_t> draw(Random& r, size_t n, int64_t low, int64_t high) {
  std::vector<int64_t> v(n);
  for (int64_t& x : v) x = r.between(low, high);
  return v;
}

OpCase random_conv(uint64_t seed) {
  Random r(seed);
  const size_t axes = static_cast<size_t>(r.between(1, 3));
  const int64_t most = axes == 3 ? 2 : 3;
  const int64_t group = r.pick<int64_t>({1, 1, 2, 3}), in = r.between(1, 2), out = r.between(1, 2);
  const auto kernel = draw(r, axes, 1, most), dilations = draw(r, axes, 1, 2);
  Shape x{r.between(1, 2), group * in}, w{group * out, in};
  for (size_t i = 0; i < axes; ++i) {
    x.push_back((kernel[i] - 1) * dilations[i] + 1 + r.between(0, most));
    w.push_back(kernel[i]);
  }
  OpCase c{.op = "Conv", .inputs = {real(x), real(w)}, .seed = seed};
  if (r.between(0, 1)) c.inputs.push_back(real({w[0]}));
  c.attributes = attrs({{"strides", draw(r, axes, 1, 3)}, {"dilations", dilations}, {"group", group}});
  const std::string mode = r.pick<std::string>({"NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  if (mode == "NOTSET") c.attributes.set("pads", draw(r, 2 * axes, 0, 2));
  else c.attributes.set("auto_pad", mode);
  return c;
}

}  // namespace

TEST_CASE("conv: random geometry agrees with the reference and finite differences") {
  for (uint64_t seed = 1; seed <= 40; ++seed) check_op(random_conv(seed));
}

TEST_CASE("conv: shapes that vectorised kernels take") {
  struct Row { Shape x, w; std::vector<int64_t> strides, pads; int64_t group; };
  const Row rows[] = {
      {{2, 3, 19, 19}, {32, 3, 3, 3}, {2, 2}, {0, 0, 0, 0}, 1},   {{2, 64, 9, 9}, {96, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}, 1},
      {{2, 64, 9, 9}, {64, 64, 7, 1}, {1, 1}, {3, 0, 3, 0}, 1},   {{1, 96, 9, 9}, {64, 96, 7, 1}, {1, 1}, {3, 0, 3, 0}, 1},
      {{1, 64, 13, 13}, {96, 64, 3, 3}, {2, 2}, {0, 0, 0, 0}, 1}, {{2, 128, 8, 8}, {64, 128, 1, 1}, {1, 1}, {0, 0, 0, 0}, 1},
      {{2, 32, 12, 12}, {32, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, 32}, {{3, 48, 6, 6}, {48, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}, 48},
      {{2, 24, 7, 5}, {48, 12, 3, 3}, {1, 1}, {0, 1, 2, 0}, 2},   {{2, 17, 5, 5}, {17, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, 17},
  };
  uint64_t seed = 100;
  for (const Row& row : rows) {
    OpCase c{.op = "Conv", .inputs = {real(row.x), real(row.w), real({row.w[0]})}, .seed = ++seed, .rtol = 1e-4};
    c.attributes = attrs({{"strides", row.strides}, {"pads", row.pads}, {"group", row.group}});
    check_forward(c);
    check_backward(c);
  }
}

TEST_CASE("conv: only the bias is trained") {
  OpCase c{.op = "Conv", .inputs = {real({2, 3, 4, 5}), real({2, 3, 2, 2}), real({2})}};
  c.inputs[0].differentiate = c.inputs[1].differentiate = false;
  check_op(c);
}
