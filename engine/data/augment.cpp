// See augment.h.
#include "engine/data/augment.h"

#include <cmath>

namespace eng {
namespace {

struct Row {
  const char* name;
  FillMode value;
};
constexpr Row kFillModes[] = {
    {"nearest", FillMode::kNearest}, {"constant", FillMode::kConstant}, {"reflect", FillMode::kReflect}, {"wrap", FillMode::kWrap}};

}  // namespace

Result<FillMode> fill_mode_from(const std::string& name) {
  for (const Row& row : kFillModes)
    if (name == row.name) return row.value;
  return usage_error("fill mode '", name, "' is not known; known are nearest, constant, reflect, wrap");
}
std::string name_of(FillMode mode) {
  for (const Row& row : kFillModes)
    if (mode == row.value) return row.name;
  return "?";
}

bool AugmentOptions::any() const {
  return rotation != 0 || width_shift != 0 || height_shift != 0 || shear != 0 || zoom_low != 1 || zoom_high != 1 || horizontal_flip ||
         vertical_flip || brightness_low != 1 || brightness_high != 1;
}

Status AugmentOptions::check() const {
  for (double v : {rotation, width_shift, height_shift, shear, zoom_low, zoom_high, brightness_low, brightness_high, fill_value})
    if (!std::isfinite(v)) return usage_error("an augmentation range is not a finite number");
  if (rotation < 0 || width_shift < 0 || height_shift < 0 || shear < 0)
    return usage_error("rotation, shift and shear ranges cannot be negative (they are taken to both sides)");
  if (shear >= 90) return usage_error("shear is in degrees and must stay below 90, got ", shear);
  if (zoom_low <= 0 || zoom_high < zoom_low) return usage_error("zoom range [", zoom_low, ", ", zoom_high, "] must be positive and ascending");
  if (brightness_low < 0 || brightness_high < brightness_low)
    return usage_error("brightness range [", brightness_low, ", ", brightness_high, "] must be ascending and not negative");
  return {};
}

bool Augmentation::has_affine() const { return rotation != 0 || shift_y != 0 || shift_x != 0 || shear != 0 || zoom_y != 1 || zoom_x != 1; }

// Always the same number of draws in the same order, so that switching one change on does not alter the others.
Augmentation draw(const AugmentOptions& options, int64_t height, int64_t width, CounterRandom& random) {
  auto range = [&](double r) { return random.uniform(-r, r); };
  Augmentation a;
  a.rotation = range(options.rotation);
  a.shift_y = range(options.height_shift) * (options.height_shift < 1 ? static_cast<double>(height) : 1);
  a.shift_x = range(options.width_shift) * (options.width_shift < 1 ? static_cast<double>(width) : 1);
  a.shear = range(options.shear);
  a.zoom_y = random.uniform(options.zoom_low, options.zoom_high);
  a.zoom_x = random.uniform(options.zoom_low, options.zoom_high);
  bool heads_horizontal = random.uniform() < 0.5, heads_vertical = random.uniform() < 0.5;
  a.flip_horizontal = options.horizontal_flip && heads_horizontal;
  a.flip_vertical = options.vertical_flip && heads_vertical;
  a.brightness = random.uniform(options.brightness_low, options.brightness_high);
  return a;
}

}  // namespace eng
