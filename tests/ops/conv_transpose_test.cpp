// ConvTranspose: random geometry, output_padding, output_shape, auto_pad.
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

OpCase random_case(uint64_t seed) {
  Random r(seed);
  const size_t axes = static_cast<size_t>(r.between(1, 3));
  const int64_t group = r.pick<int64_t>({1, 1, 2, 3}), in = r.between(1, 2), out = r.between(1, 2);
  Shape x{r.between(1, 2), group * in}, w{group * in, out};
  for (size_t i = 0; i < axes; ++i) x.push_back(r.between(1, 3)), w.push_back(r.between(1, 3));
  const auto strides = draw(r, axes, 1, 3);
  OpCase c{.op = "ConvTranspose", .inputs = {real(x), real(w)}, .seed = seed};
  if (r.between(0, 1)) c.inputs.push_back(real({group * out}));
  c.attributes = attrs({{"strides", strides}, {"dilations", draw(r, axes, 1, 2)}, {"group", group}});
  switch (r.between(0, 3)) {
    case 0: c.attributes.set("auto_pad", r.pick<std::string>({"SAME_UPPER", "SAME_LOWER"})); break;
    case 1: {
      std::vector<int64_t> shape;
      for (size_t i = 0; i < axes; ++i) shape.push_back(x[i + 2] * strides[i] + r.between(0, 2));
      c.attributes.set("output_shape", shape);
      break;
    }
    default: {
      std::vector<int64_t> pads(2 * axes), extra(axes);
      for (size_t i = 0; i < axes; ++i) {
        pads[i] = w[i + 2] > 1 ? r.between(0, 1) : 0;
        pads[axes + i] = 0;
        extra[i] = r.between(0, strides[i] - 1) + pads[i];
      }
      c.attributes.set("pads", pads);
      c.attributes.set("output_padding", extra);
    }
  }
  return c;
}

}  // namespace

TEST_CASE("conv_transpose: random geometry agrees with the reference and finite differences") {
  for (uint64_t seed = 1; seed <= 40; ++seed) check_op(random_case(seed));
}

TEST_CASE("conv_transpose: doubling an image, as decoders do") {
  OpCase c{.op = "ConvTranspose", .inputs = {real({2, 24, 5, 6}), real({24, 16, 2, 2}), real({16})}, .rtol = 1e-4};
  c.attributes = attrs({{"strides", std::vector<int64_t>{2, 2}}});
  check_forward(c);
  check_backward(c);
}
