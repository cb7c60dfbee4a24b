// Which elements a Slice takes: per axis a first index, a step and a count. Shared by Slice, its gradient, and shape inference.
#pragma once

#include "graph/ops/op.h"

namespace eng {

struct SliceAxis {
  int64_t start = 0, step = 1, count = 0;
};
// starts, ends, axes (empty: the first ones), steps (empty: 1) as ONNX's Slice takes them, clamped to `from`.
Result<std::vector<SliceAxis>> resolve_slice(const Shape& from, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                                             const std::vector<int64_t>& axes, const std::vector<int64_t>& steps);

}  // namespace eng
