// See strided_copy.h.
#include "backends/cuda/strided_copy.h"

#include "backends/cuda/each.h"

namespace eng::cuda {
namespace {

template <class E>
struct CopyElements {
  Loop<2> loop;
  E* to;
  const E* from;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    loop.at(i, at);
    to[at[0]] = from[at[1]];
  }
};

}  // namespace

StridedCopy::StridedCopy(size_t element_size, const std::vector<int64_t>& dims, const std::vector<int64_t>& from_strides, const std::vector<int64_t>& to_strides,
                         int64_t from_offset, int64_t to_offset)
    : size_(element_size), loop_(pack<2>({dims, {to_strides, from_strides}})), from_offset_(from_offset), to_offset_(to_offset) {}

void StridedCopy::run(cudaStream_t stream, const void* from, void* to) const {
  auto copy = [&](auto element) {
    using E = decltype(element);
    each(stream, loop_.count, CopyElements<E>{loop_, static_cast<E*>(to) + to_offset_, static_cast<const E*>(from) + from_offset_});
  };
  switch (size_) {
    case 1: return copy(uint8_t{});
    case 2: return copy(uint16_t{});
    case 4: return copy(uint32_t{});
    default: return copy(uint64_t{});
  }
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0; step *= dims[i]) strides[i] = step;
  return strides;
}

}  // namespace eng::cuda
