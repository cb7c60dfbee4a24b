// Random changes of training pictures, with the names and formulas of Keras's ImageDataGenerator: rotation, shift, shear and zoom
// are one affine map  in = M * out, M = rotation * shift * shear * zoom about the picture's centre, sampled bilinearly as
// SciPy's ndimage.affine_transform(order=1) does; then flips; then brightness. One pass over the picture.
// A new kind of change: a field in AugmentOptions and Augmentation, a draw in draw(), a step in render() (transform.cpp).
#pragma once

#include <cstdint>
#include <string>

#include "engine/data/random.h"
#include "graph/base/status.h"

namespace eng {

// What lies outside of the picture: nearest repeats the border, constant is fill_value, reflect mirrors (d c b a | a b c d |
// d c b a), wrap repeats with a period of size-1 pixels, as SciPy does.
enum class FillMode : uint8_t { kNearest, kConstant, kReflect, kWrap };
Result<FillMode> fill_mode_from(const std::string& name);
std::string name_of(FillMode mode);

// Ranges; all zero or false: pictures stay as they are.
struct AugmentOptions {
  double rotation = 0;       // degrees: angle in [-rotation, rotation]
  double width_shift = 0, height_shift = 0;  // < 1: fraction of the size, else pixels; in [-s, s]
  double shear = 0;          // degrees, in [-shear, shear]
  double zoom_low = 1, zoom_high = 1;  // factor of each axis on its own; Keras's zoom_range=z is [1-z, 1+z]; < 1 enlarges
  bool horizontal_flip = false, vertical_flip = false;  // each with probability 1/2
  double brightness_low = 1, brightness_high = 1;       // factor on grey levels, clipped to [0, 255]
  FillMode fill_mode = FillMode::kNearest;
  double fill_value = 0;     // grey level for kConstant

  bool any() const;
  Status check() const;
};

// One draw.
struct Augmentation {
  double rotation = 0, shift_y = 0, shift_x = 0;  // degrees; pixels
  double shear = 0, zoom_y = 1, zoom_x = 1;
  bool flip_horizontal = false, flip_vertical = false;
  double brightness = 1;
  bool has_affine() const;
};
Augmentation draw(const AugmentOptions& options, int64_t height, int64_t width, CounterRandom& random);

}  // namespace eng
