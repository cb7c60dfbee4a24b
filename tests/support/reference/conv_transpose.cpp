// ConvTranspose: every input element, times the weight, is added to the output positions that it reaches.
#include <algorithm>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

std::vector<int64_t> front_pads(const RefCall& c, const Shape& kernel, const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation) {
  const size_t axes = kernel.size();
  const std::string mode = c.attr().get_string("auto_pad", "NOTSET");
  std::vector<int64_t> pads = c.attr().get_ints("pads", std::vector<int64_t>(2 * axes, 0));
  pads.resize(axes);
  if (mode == "VALID") return std::vector<int64_t>(axes, 0);
  if (mode == "NOTSET" && c.attr().get_ints("output_shape").empty()) return pads;
  const std::vector<int64_t> extra = c.attr().get_ints("output_padding", std::vector<int64_t>(axes, 0));
  for (size_t i = 0; i < axes; ++i) {
    int64_t total = stride[i] * (c.in(0).shape[i + 2] - 1) + extra[i] + ((kernel[i] - 1) * dilation[i] + 1) - c.out().shape[i + 2];
    total = std::max<int64_t>(total, 0);
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
  return pads;
}

void conv_transpose(RefCall& c) {
  const RefTensor &x = c.in(0), &w = c.in(1);
  RefTensor& y = c.out();
  const Shape xs(x.shape.begin() + 2, x.shape.end()), ys(y.shape.begin() + 2, y.shape.end()), kernel(w.shape.begin() + 2, w.shape.end());
  const auto stride = c.attr().get_ints("strides", std::vector<int64_t>(xs.size(), 1)), dilation = c.attr().get_ints("dilations", std::vector<int64_t>(xs.size(), 1));
  const auto pads = front_pads(c, kernel, stride, dilation);
  const int64_t nx = element_count(xs), ny = element_count(ys), nk = element_count(kernel), in_group = x.dim(1) / c.attr().get_int("group", 1);
  if (c.has(2))
    for (int64_t i = 0; i < y.count(); ++i) y[i] = c.in(2)[i / ny % y.dim(1)];
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t n = i / nx / x.dim(1), ch = i / nx % x.dim(1);
    const auto p = unravel(i % nx, xs);
    for (int64_t k = 0; k < nk; ++k) {
      const auto kk = unravel(k, kernel);
      std::vector<int64_t> q(p.size());
      bool inside = true;
      for (size_t a = 0; a < p.size(); ++a) {
        q[a] = p[a] * stride[a] + kk[a] * dilation[a] - pads[a];
        inside = inside && q[a] >= 0 && q[a] < ys[a];
      }
      if (!inside) continue;
      for (int64_t m = 0; m < w.dim(1); ++m) y[(n * y.dim(1) + ch / in_group * w.dim(1) + m) * ny + ravel(q, ys)] += x[i] * w[(ch * w.dim(1) + m) * nk + k];
    }
  }
}

}  // namespace

std::span<const RefDef> conv_transpose_reference() {
  static const RefDef defs[] = {{"", "ConvTranspose", conv_transpose}};
  return defs;
}

}  // namespace eng::test
