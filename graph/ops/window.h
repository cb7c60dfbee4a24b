// The sliding window that convolution and pooling share: kernel, strides, dilations, padding (explicit or auto_pad) and the
// size of the result. One place, so that a convolution, its gradients and the pools cannot disagree about a pad.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/shape.h"
#include "graph/ir/attribute.h"

namespace eng {

// All vectors have one entry a spatial axis. `begin` and `end` are the resolved pads; out[i] = number of window positions.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, begin, end, out;
  // Extent that the dilated kernel covers along spatial axis i.
  int64_t reach(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// Reads strides, dilations, pads, auto_pad and (ceil_mode allowed) ceil_mode for an input with these spatial extents. The
// error says which attribute is wrong, what came and what was wanted.
//   NOTSET:     out = floor|ceil((in + begin + end - reach) / stride) + 1; with ceil a last window that starts past the
//               input and its front pad is dropped
//   VALID:      the same without pads
//   SAME_*:     out = ceil(in / stride), the odd pad at the end (UPPER) or at the front (LOWER)
Result<Window> read_window(const Attributes& attributes, const Shape& spatial, const std::vector<int64_t>& kernel);

// Dimensions 2, 3, ... of a shape (N, C, spatial...).
Shape spatial_of(const Shape& shape);
// (n, c, spatial...)
Shape with_spatial(int64_t n, int64_t c, const std::vector<int64_t>& spatial);

}  // namespace eng
