// Stride, dilation and front pad of a sliding window, from a node's attributes and the operands' extents. What is legal was
// checked when shapes were inferred (graph/ops/window.h has the formulas); here the numbers of positions are known already.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernel.h"

namespace eng::cpu {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, begin, end;  // one entry a spatial axis
  int64_t reach(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// `in` and `out`: the tensors on the wide and on the narrow side of the window, (N, C, spatial...).
inline Window read_window(const NodeView& n, const TensorView& in, const TensorView& out, std::vector<int64_t> kernel) {
  const size_t axes = kernel.size();
  Window w;
  w.kernel = std::move(kernel);
  w.strides = n.attr_ints("strides", std::vector<int64_t>(axes, 1));
  w.dilations = n.attr_ints("dilations", std::vector<int64_t>(axes, 1));
  w.begin.assign(axes, 0);
  w.end.assign(axes, 0);
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = n.attr_ints("pads");
  for (size_t i = 0; i < axes; ++i) {
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t extent = in.dims[i + 2], positions = out.dims[i + 2];
      const int64_t total = std::max<int64_t>(0, (positions - 1) * w.strides[i] + w.reach(i) - extent);
      w.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[i] = total - w.begin[i];
    } else if (mode != "VALID" && pads.size() == 2 * axes) {
      w.begin[i] = pads[i];
      w.end[i] = pads[axes + i];
    }
  }
  return w;
}

}  // namespace eng::cpu
