// How this backend's own kernels are written and launched, so that one source compiles with nvcc and, for machines without a GPU, with a plain
// C++ compiler against tests/support/cuda_emulation (which runs every block and thread of a grid on the host).
//
//   template <class T>
//   __global__ void scale(T* y, const T* x, float factor, int64_t n) {
//     const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
//     if (i < n) y[i] = x[i] * factor;
//   }
//   cudaError_t e = launch({blocks, threads, 0, stream}, scale<float>, y, x, 0.5f, n);
//
// A kernel may use
// - __global__, __device__, __host__, __forceinline__, __restrict__, __launch_bounds__; templates; structs as arguments, pointers inside them too.
//   Not: lambdas marked __device__, __constant__ variables, textures, dynamic parallelism, cooperative groups, inline PTX.
// - threadIdx, blockIdx, blockDim, gridDim, warpSize
// - shared memory by ENG_SHARED(float, tile, [32][33]) and ENG_DYNAMIC_SHARED(float, buffer), never by __shared__
// - __syncthreads, __syncwarp, __threadfence(_block), __shfl_sync, __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync, __ballot_sync, __any_sync, __all_sync,
//   __activemask: called by all threads of the block, or all lanes of the mask, that have not returned
// - atomicAdd, atomicSub, atomicMax, atomicMin, atomicExch, atomicCAS, atomicOr, atomicAnd on int, unsigned, unsigned long long; the first and exchange also on
//   float and double
// - __ldg, __int_as_float, __float_as_int, __uint_as_float, __float_as_uint, __double_as_longlong, __longlong_as_double, __popc, __clz, __ffs, __umulhi, __float2int_rn,
//   min, max, rsqrtf, rsqrt, __expf, __logf, __powf, __sinf, __cosf, __fdividef, __fmaf_rn, __frcp_rn, __fsqrt_rn, __saturatef and the functions of <cmath>
// - float2, float4, int2, int4, uint4... and make_*; the types and conversions of cuda_fp16.h and cuda_bf16.h
// Pointers to device memory come from arguments: the host build does not follow pointers that are stored in device memory, so tables of pointers
// travel in a struct argument.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace eng::cuda {

// A grid and where it runs. In the host build it also knows the source line that launches, for messages.
struct LaunchShape {
  dim3 grid, block;
  size_t shared = 0;  // dynamic shared memory, bytes; above 48 KiB allow_shared() first
  cudaStream_t stream = nullptr;
#if defined(__CUDACC__)
  LaunchShape(dim3 g, dim3 b, size_t s, cudaStream_t t) : grid(g), block(b), shared(s), stream(t) {}
#else
  const char* file;
  int line;
  LaunchShape(dim3 g, dim3 b, size_t s, cudaStream_t t, const char* f = __builtin_FILE(), int l = __builtin_LINE())
      : grid(g), block(b), shared(s), stream(t), file(f), line(l) {}
#endif
};

}  // namespace eng::cuda

#if defined(__CUDACC__)

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define ENG_SHARED(type, name, extents) __shared__ type name extents
#define ENG_DYNAMIC_SHARED(type, name)                                      \
  extern __shared__ __align__(16) unsigned char eng_dynamic_shared_bytes[]; \
  type* name = reinterpret_cast<type*>(eng_dynamic_shared_bytes)

namespace eng::cuda {

// Enqueues the kernel; the result is that of the launch. The current device must be the stream's.
template <class... P, class... A>
cudaError_t launch(LaunchShape shape, void (*kernel)(P...), A... arguments) {
  kernel<<<shape.grid, shape.block, shape.shared, shape.stream>>>(static_cast<P>(arguments)...);
  return cudaGetLastError();
}

}  // namespace eng::cuda

#else

#include "cuda_emulation/device.h"  // tests/support is on the include path of the host build

namespace eng::cuda {

template <class... P, class... A>
cudaError_t launch(LaunchShape shape, void (*kernel)(P...), A... arguments) {
  return eng_emulation::launch({shape.grid, shape.block, shape.shared, shape.stream, shape.file, shape.line}, kernel, static_cast<P>(arguments)...);
}

}  // namespace eng::cuda

#endif

namespace eng::cuda {

// Lets a kernel have `bytes` of dynamic shared memory.
template <class... P>
cudaError_t allow_shared(void (*kernel)(P...), size_t bytes) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

}  // namespace eng::cuda
