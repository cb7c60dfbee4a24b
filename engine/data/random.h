// Random numbers by counter: Philox4x32-10 (Salmon et al., 2011). A stream is named by (seed, purpose, epoch, index), so any
// sample's numbers can be made at any time by any thread: the order in which workers run changes nothing, and a resumed run
// needs no saved state. Everything random in data handling comes from here.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace eng {

// One block of Philox4x32-10: four words from a counter and a key.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53u} * counter[0], b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// What a stream is for: streams of different purposes never meet.
enum class Purpose : uint32_t { kShuffle = 1, kAugment = 2, kSplit = 3, kInitialise = 4 };

class CounterRandom {
 public:
  // Epoch and purpose share one word: 24 bits of epoch, 8 of purpose; the block number is 32 bits.
  CounterRandom(uint64_t seed, Purpose purpose, int64_t epoch, int64_t index)
      : counter_{0, static_cast<uint32_t>(index), static_cast<uint32_t>(static_cast<uint64_t>(index) >> 32),
                 static_cast<uint32_t>(epoch) << 8 | static_cast<uint32_t>(purpose)},
        key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

  uint32_t next() {
    if (used_ == 4) {
      block_ = philox(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  // [0, 1) with 53 bits.
  double uniform() {
    uint64_t high = next(), low = next();
    return static_cast<double>(high << 21 | low >> 11) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal() {  // Box-Muller, one of the pair
    double radius = std::sqrt(-2.0 * std::log(1.0 - uniform())), angle = 6.283185307179586 * uniform();
    return radius * std::cos(angle);
  }
  // [0, bound), unbiased.
  uint64_t below(uint64_t bound) {
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound, draw;
    do { draw = static_cast<uint64_t>(next()) << 32 | next(); } while (draw >= limit);
    return draw % bound;
  }
  template <class T>
  void shuffle(std::vector<T>& values) {  // Fisher-Yates
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> block_{};
  unsigned used_ = 4;
};

}  // namespace eng
