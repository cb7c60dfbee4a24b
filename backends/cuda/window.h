// The sliding window of convolutions and pools on three spatial axes (missing ones have extent 1), as the host reads it from a node
// and as device code walks it. What is legal was checked when shapes were inferred (graph/ops/window.h has the formulas).
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cuda/kernel.h"

namespace eng::cuda {

struct Window {
  int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];

  // Input index of tap k of output o along an axis; it may lie in the padding.
  __host__ __device__ int64_t place(int axis, int64_t o, int64_t k) const { return o * stride[axis] - begin[axis] + k * dilation[axis]; }
  // Taps [first, last) of output o that hit the input.
  __host__ __device__ void taps(int axis, int64_t o, int64_t* first, int64_t* last) const {
    const int64_t start = place(axis, o, 0), d = dilation[axis];
    *first = start < 0 ? (-start + d - 1) / d : 0;
    const int64_t room = in[axis] - start;  // taps at k d < room
    *last = room <= 0 ? 0 : (room + d - 1) / d;
    if (*last > kernel[axis]) *last = kernel[axis];
  }
  // Outputs [first, last) whose window may cover input index i; tap() says whether it does.
  __host__ __device__ void covering(int axis, int64_t i, int64_t* first, int64_t* last) const {
    const int64_t reach = (kernel[axis] - 1) * dilation[axis], high = i + begin[axis], low = high - reach;
    *first = low <= 0 ? 0 : (low + stride[axis] - 1) / stride[axis];
    *last = high / stride[axis] + 1;
    if (*last > out[axis]) *last = out[axis];
  }
  // The tap by which output o reads input index i; -1 where none does.
  __host__ __device__ int64_t tap(int axis, int64_t i, int64_t o) const {
    const int64_t way = i + begin[axis] - o * stride[axis];
    return way % dilation[axis] == 0 ? way / dilation[axis] : -1;
  }
  // Taps of output o within the input and its pads.
  __host__ __device__ int64_t padded(int axis, int64_t o) const {
    const int64_t room = in[axis] + end[axis] - place(axis, o, 0), count = (room + dilation[axis] - 1) / dilation[axis];
    return count < kernel[axis] ? count : kernel[axis];
  }
  __host__ __device__ int64_t in_size() const { return in[0] * in[1] * in[2]; }
};

// `wide` and `narrow`: the tensors on the two sides of the window, (N, C, spatial...); `size` the kernel.
inline Window read_window(const NodeView& n, const TensorView& wide, const TensorView& narrow, const std::vector<int64_t>& size) {
  const size_t axes = size.size(), lead = 3 - axes;
  Window w{};
  for (int64_t* one : {w.in, w.out, w.kernel, w.stride, w.dilation}) std::fill(one, one + 3, 1);
  const std::vector<int64_t> strides = n.attr_ints("strides", std::vector<int64_t>(axes, 1)), dilations = n.attr_ints("dilations", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = n.attr_ints("pads");
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  for (size_t i = 0; i < axes; ++i) {
    const size_t a = lead + i;
    w.in[a] = wide.dims[i + 2];
    w.out[a] = narrow.dims[i + 2];
    w.kernel[a] = size[i];
    w.stride[a] = strides[i];
    w.dilation[a] = dilations[i];
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const int64_t total = std::max<int64_t>(0, (w.out[a] - 1) * w.stride[a] + (size[i] - 1) * w.dilation[a] + 1 - w.in[a]);
      w.begin[a] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.end[a] = total - w.begin[a];
    } else if (mode != "VALID" && pads.size() == 2 * axes) {
      w.begin[a] = pads[i];
      w.end[a] = pads[axes + i];
    }
  }
  return w;
}

// A tensor (N, C, spatial...) for device code: strides of batch, channel and three spatial axes.
struct Strides5 {
  int64_t batch, channel, space[3];
};
inline Strides5 strides_of(const TensorView& t) {
  Strides5 s{};
  s.batch = t.strides[0];
  s.channel = t.strides[1];
  const size_t axes = t.dims.size() - 2;
  for (size_t i = 0; i < axes; ++i) s.space[3 - axes + i] = t.dims[i + 2] == 1 ? 0 : t.strides[i + 2];
  return s;
}

// `t` with its dims and strides 1 along `axis` (counted from batch 0, channel 1; spatial axes 2 to 4 at the right), 0 else: as an operand of
// a Loop its offset is the index along that axis.
inline TensorView index_along(const TensorView& t, int axis) {
  TensorView index = t;
  std::fill(index.strides.begin(), index.strides.end(), 0);
  const int own = axis < 2 ? axis : axis - 3 + static_cast<int>(t.dims.size()) - 2;
  if (axis < 2 || own >= 2) index.strides[static_cast<size_t>(own)] = 1;
  return index;
}

}  // namespace eng::cuda
