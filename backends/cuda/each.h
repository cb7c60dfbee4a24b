// One thread an element: each(stream, count, f) runs f(i) for 0 <= i < count on the device. f is a struct with
// `__device__ void operator()(int64_t i) const`, copied to the device with the launch.
#pragma once

#include <algorithm>

#include "backends/cuda/error.h"
#include "backends/cuda/launch.h"

namespace eng::cuda {

inline constexpr int kThreads = 256;        // a block
inline constexpr int64_t kMostBlocks = 65536;

template <class F>
__global__ void each_kernel(int64_t count, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) f(i);
}

template <class F>
void each(cudaStream_t stream, int64_t count, const F& f) {
  if (count <= 0) return;
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  check(launch({dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream}, each_kernel<F>, count, f), "launching");
}

// f() once, for the few numbers that a kernel needs first.
template <class F>
__global__ void once_kernel(F f) {
  f();
}
template <class F>
void once(cudaStream_t stream, const F& f) {
  check(launch({dim3(1), dim3(1), 0, stream}, once_kernel<F>, f), "launching");
}

}  // namespace eng::cuda
