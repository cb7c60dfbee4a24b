// Copies a box of elements between two tensors with any strides: what Transpose, Concat, Split, Slice, Expand, Reorder and padding are made
// of. Works on the element's size, not its type. A source stride of 0 repeats, a negative one reverses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "backends/cuda/loop.h"

namespace eng::cuda {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides and offsets in elements.
  StridedCopy(size_t element_size, const std::vector<int64_t>& dims, const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides,
              int64_t from_offset = 0, int64_t to_offset = 0);
  void run(cudaStream_t stream, const void* from, void* to) const;

 private:
  size_t size_ = 1;
  Loop<2> loop_{};  // to, from
  int64_t from_offset_ = 0, to_offset_ = 0;
};

// Row-major strides of a shape.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims);

}  // namespace eng::cuda
