// Reductions in a fixed order. A reduction is a struct R, copied to the device:
//   using A                                       what is held while folding; plain data
//   A start() const
//   void take(A&, int64_t output, int64_t element) const    element `element` of output `output`, 0 <= element < elements
//   void join(A&, const A&) const                 appends a later part
//   void finish(const A&, int64_t output) const   writes the result
// Each output's elements are cut into chunks that follow from the shapes alone. A chunk is folded by one thread where neighbouring outputs lie side by
// side (reads are then coalesced) or elements are few, else by a block that joins its threads' parts as a tree. Chunks are joined in order.
#pragma once

#include <algorithm>

#include "backends/cuda/each.h"

namespace eng::cuda {

struct ReducePlan {
  int64_t outputs = 0, elements = 0, chunks = 1;
  bool by_block = false;
  template <class R> size_t workspace() const { return chunks > 1 ? static_cast<size_t>(outputs * chunks) * sizeof(typename R::A) : 0; }
};

// `side_by_side`: neighbouring outputs read neighbouring elements.
inline ReducePlan plan_reduce(int64_t outputs, int64_t elements, bool side_by_side) {
  constexpr int64_t kWantedThreads = 1 << 16, kWantedBlocks = 1024, kMostChunks = 1024;
  ReducePlan p;
  p.outputs = outputs;
  p.elements = elements;
  p.by_block = elements >= 64 && !(side_by_side && outputs >= 16);
  const int64_t lines = std::max<int64_t>(outputs, 1);
  const int64_t wanted = p.by_block ? std::min(kWantedBlocks / lines, elements / 4096) : std::min(kWantedThreads / lines, elements / 64);
  p.chunks = std::clamp<int64_t>(wanted, 1, kMostChunks);
  return p;
}

template <class R>
struct FoldChunk {
  R r;
  typename R::A* partial;  // [chunks][outputs]; null where there is one chunk
  int64_t outputs, elements, chunks;
  __device__ void operator()(int64_t i) const {
    const int64_t chunk = i / outputs, output = i - chunk * outputs;
    typename R::A a = r.start();
    const int64_t end = elements * (chunk + 1) / chunks;
    for (int64_t e = elements * chunk / chunks; e < end; ++e) r.take(a, output, e);
    if (partial) partial[i] = a;
    else r.finish(a, output);
  }
};

template <class R>
struct JoinChunks {
  R r;
  const typename R::A* partial;
  int64_t outputs, chunks;
  __device__ void operator()(int64_t output) const {
    typename R::A a = partial[output];
    for (int64_t k = 1; k < chunks; ++k) r.join(a, partial[k * outputs + output]);
    r.finish(a, output);
  }
};

template <class R>
__global__ void fold_block(R r, typename R::A* partial, int64_t outputs, int64_t elements, int64_t chunks) {
  using A = typename R::A;
  ENG_SHARED(A, parts, [kThreads]);
  const int me = static_cast<int>(threadIdx.x);
  for (int64_t i = blockIdx.x; i < outputs * chunks; i += gridDim.x) {
    const int64_t chunk = i / outputs, output = i - chunk * outputs, end = elements * (chunk + 1) / chunks;
    A a = r.start();
    for (int64_t e = elements * chunk / chunks + me; e < end; e += kThreads) r.take(a, output, e);
    parts[me] = a;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (me < half) r.join(parts[me], parts[me + half]);
      __syncthreads();
    }
    if (me == 0) {
      if (partial) partial[i] = parts[0];
      else r.finish(parts[0], output);
    }
    __syncthreads();
  }
}

// `space`: plan.workspace<R>() bytes of device memory.
template <class R>
void reduce(cudaStream_t stream, const ReducePlan& p, const R& r, void* space) {
  if (p.outputs <= 0) return;
  auto* partial = p.chunks > 1 ? static_cast<typename R::A*>(space) : nullptr;
  const int64_t items = p.outputs * p.chunks;
  if (p.by_block) {
    const dim3 grid(static_cast<unsigned>(std::min(items, kMostBlocks)));
    check(launch({grid, dim3(kThreads), 0, stream}, fold_block<R>, r, partial, p.outputs, p.elements, p.chunks), "launching");
  } else {
    each(stream, items, FoldChunk<R>{r, partial, p.outputs, p.elements, p.chunks});
  }
  if (partial) each(stream, p.outputs, JoinChunks<R>{r, partial, p.outputs, p.chunks});
}

}  // namespace eng::cuda
