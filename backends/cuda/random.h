// Random bits from a counter, bit for bit those of the CPU backend (backends/cpu/random.h): SplitMix64's mixing function on
// key + i * golden ratio, with a key made from seed, counter and stream by the same mixing.
#pragma once

#include <cstdint>

#include "backends/cuda/launch.h"

namespace eng::cuda {

inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;

__host__ __device__ inline uint64_t mix_bits(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
__host__ __device__ inline uint64_t random_key(uint64_t seed, uint64_t counter, uint64_t stream) {
  return mix_bits(mix_bits(mix_bits(seed + kGolden) + counter + kGolden) + stream + kGolden);
}
__host__ __device__ inline uint32_t random_bits(uint64_t key, uint64_t i) { return static_cast<uint32_t>(mix_bits(key + (i + 1) * kGolden) >> 32); }

}  // namespace eng::cuda
