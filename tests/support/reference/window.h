// Window geometry for the reference kernels of convolution and pooling, straight from ONNX's text: pads from auto_pad, and a
// visitor of all (output position, kernel position, input position) triples, input positions in the padding left out.
#pragma once

#include <functional>

#include "tests/support/reference/reference.h"

namespace eng::test {

struct RefWindow {
  std::vector<int64_t> kernel, stride, dilation, begin, end;
};

inline RefWindow ref_window(const Attributes& a, const Shape& wide, const Shape& narrow, const std::vector<int64_t>& kernel) {
  RefWindow w;
  w.kernel = kernel;
  const size_t n = kernel.size();
  w.stride = a.get_ints("strides", std::vector<int64_t>(n, 1));
  w.dilation = a.get_ints("dilations", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = a.get_ints("pads", std::vector<int64_t>(2 * n, 0));
  const std::string mode = a.get_string("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; ++i) {
    int64_t front = pads[i], back = pads[n + i];
    if (mode == "VALID") front = back = 0;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t covered = (narrow[i + 2] - 1) * w.stride[i] + (kernel[i] - 1) * w.dilation[i] + 1;
      const int64_t total = covered > wide[i + 2] ? covered - wide[i + 2] : 0;
      front = total / 2;
      if (mode == "SAME_LOWER") front = total - front;
      back = total - front;
    }
    w.begin.push_back(front);
    w.end.push_back(back);
  }
  return w;
}

// f(flat output position, flat kernel position, flat input position) within the spatial axes.
inline void each_tap(const RefWindow& w, const Shape& wide_spatial, const Shape& narrow_spatial,
                     const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const int64_t outs = element_count(narrow_spatial), taps = element_count(w.kernel);
  for (int64_t p = 0; p < outs; ++p) {
    const std::vector<int64_t> at = unravel(p, narrow_spatial);
    for (int64_t k = 0; k < taps; ++k) {
      const std::vector<int64_t> kk = unravel(k, w.kernel);
      std::vector<int64_t> q(at.size());
      bool inside = true;
      for (size_t i = 0; i < at.size(); ++i) {
        q[i] = at[i] * w.stride[i] - w.begin[i] + kk[i] * w.dilation[i];
        inside = inside && q[i] >= 0 && q[i] < wide_spatial[i];
      }
      if (inside) f(p, k, ravel(q, wide_spatial));
    }
  }
}

inline Shape ref_spatial(const Shape& s) { return Shape(s.begin() + 2, s.end()); }

}  // namespace eng::test
