// Element-wise walks over operands of any strides. A Box says how operands lie over one shape (broadcast axes: stride 0); pack() orders its
// axes by the first operand's strides, merges what lies together, and gives a Loop that device code asks for an element's places.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "backends/abi/backend.hpp"
#include "backends/cuda/error.h"

namespace eng::cuda {

using eb::TensorView;

// The axes of a walk that is not empty, outermost first; the last one is passed fastest.
template <int N>
struct Loop {
  static constexpr int kMaxRank = 8;
  int32_t rank;
  int64_t count;
  int64_t extent[kMaxRank];
  int64_t stride[N][kMaxRank];

  // Offsets of element i of the walk, 0 <= i < count.
  __host__ __device__ void at(int64_t i, int64_t (&offset)[N]) const {
    if (rank == 1) {
      for (int k = 0; k < N; ++k) offset[k] = i * stride[k][0];
    } else if (count <= int64_t{0x7fffffff}) {
      split<uint32_t>(static_cast<uint32_t>(i), offset);  // 32-bit divisions are several times cheaper
    } else {
      split<uint64_t>(static_cast<uint64_t>(i), offset);
    }
  }

 private:
  template <class I>
  __host__ __device__ void split(I i, int64_t (&offset)[N]) const {
    for (int k = 0; k < N; ++k) offset[k] = 0;
    for (int a = rank - 1; a >= 0; --a) {
      const I extent_a = static_cast<I>(extent[a]), next = i / extent_a;
      const int64_t here = static_cast<int64_t>(i - next * extent_a);
      for (int k = 0; k < N; ++k) offset[k] += here * stride[k][a];
      i = next;
    }
  }
};

struct Box {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;  // per operand, of dims' rank
};

// Operands over the first one's shape, aligned at the last axis as ONNX broadcasts.
inline Box box_of(const std::vector<const TensorView*>& operands) {
  Box box{operands[0]->dims, {}};
  const int64_t rank = operands[0]->rank();
  for (const TensorView* t : operands) {
    std::vector<int64_t>& strides = box.strides.emplace_back();
    for (int64_t a = 0; a < rank; ++a) {
      const int64_t own = a - (rank - t->rank());
      strides.push_back(own < 0 || t->dim(own) == 1 ? 0 : t->strides[static_cast<size_t>(own)]);
    }
  }
  return box;
}

template <int N>
Loop<N> pack(const Box& box) {
  std::vector<size_t> axes;
  Loop<N> l{};
  l.count = 1;
  for (size_t a = 0; a < box.dims.size(); ++a) {
    l.count *= box.dims[a];
    if (box.dims[a] != 1) axes.push_back(a);
  }
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) { return std::abs(box.strides[0][a]) > std::abs(box.strides[0][b]); });
  for (size_t a : axes) {
    bool merge = l.rank > 0;
    for (size_t k = 0; merge && k < N; ++k) merge = l.stride[k][l.rank - 1] == box.strides[k][a] * box.dims[a];
    if (!merge && ++l.rank > Loop<N>::kMaxRank) throw Failure(EB_UNSUPPORTED, "the operands have too many axes");
    l.extent[l.rank - 1] = merge ? l.extent[l.rank - 1] * box.dims[a] : box.dims[a];
    for (size_t k = 0; k < N; ++k) l.stride[k][l.rank - 1] = box.strides[k][a];
  }
  if (l.rank == 0) l.rank = 1, l.extent[0] = 1;
  return l;
}

template <int N>
Loop<N> loop_over(const std::vector<const TensorView*>& operands) {
  return pack<N>(box_of(operands));
}

}  // namespace eng::cuda
