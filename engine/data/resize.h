// Resizing as Pillow does it, to the bit where it takes the horizontal pass first (all versions before 12; for some sizes newer ones
// take the vertical one first, which moves bilinear values by at most one grey level): nearest picks source pixel floor((i + 0.5) * scale); bilinear and bicubic (a = -0.5) are
// separable convolutions whose kernel is stretched by the scale where the picture shrinks, with coefficients rounded to
// 22 bits and each pass (horizontal first) rounded to 8 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/image.h"
#include "engine/data/preprocessing.h"

namespace eng {

// Working memory of resize(), kept by a thread from picture to picture. Coefficients are kept too while the sizes stay the same.
class Resizer {
 public:
  // Resizes `in` to height x width pixels at `out` (interleaved). Sizes and channels must be positive.
  void run(const Image& in, int64_t height, int64_t width, Interpolation interpolation, uint8_t* out);

  // One axis: output i sums in[first[i] + k] * weight[i * taps + k], weights in 1/2^22.
  struct Axis {
    int64_t in = -1, out = -1;
    Interpolation interpolation = Interpolation::kNearest;
    int64_t taps = 0;
    std::vector<int32_t> first, count, weight;
  };

 private:
  Axis horizontal_, vertical_;
  std::vector<uint8_t> middle_;
  std::vector<int32_t> sums_;
};

}  // namespace eng
