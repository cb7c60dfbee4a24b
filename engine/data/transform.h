// From an 8-bit picture of the network's size to the network's floats: augmentation, then (grey * rescale - mean) / std, in one
// pass. How each augmentation is drawn stands in augment.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "engine/data/augment.h"
#include "engine/data/preprocessing.h"

namespace eng {

// in = m * (y, x) + offset, for output pixel (y, x) before flips: Keras's matrix about the centre (size-1)/2.
struct AffineMap {
  double m[2][2] = {{1, 0}, {0, 1}};
  double offset[2] = {0, 0};
};
AffineMap affine_map(const Augmentation& augmentation, int64_t height, int64_t width);

// What does not change from picture to picture.
class Renderer {
 public:
  explicit Renderer(const Preprocessing& preprocessing, FillMode fill_mode = FillMode::kNearest, double fill_value = 0);
  // `pixels`: height x width x channels, interleaved; `out`: as many floats, planes or interleaved as the preprocessing says.
  void render(const uint8_t* pixels, const Augmentation& augmentation, float* out) const;

 private:
  void plain(const uint8_t* pixels, const Augmentation& augmentation, float* out) const;
  void warp(const uint8_t* pixels, const Augmentation& augmentation, float* out) const;

  int64_t height_, width_, channels_;
  bool channels_last_;
  FillMode fill_mode_;
  float fill_value_;
  float scale_[3], shift_[3];  // value = grey * scale + shift
  std::array<std::array<float, 256>, 3> table_;  // the same for whole grey levels
};

}  // namespace eng
