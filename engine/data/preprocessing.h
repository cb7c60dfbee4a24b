// What turns a picture into a network's input, apart from random augmentation: size, colour, interpolation and
// value = (grey level * rescale - mean[channel]) / std[channel]. A trained file carries it as metadata (keys "preprocess.*"), so
// that prediction does what training did.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace eng {

enum class Interpolation : uint8_t { kNearest, kBilinear, kBicubic };
Result<Interpolation> interpolation_from(const std::string& name);  // nearest, bilinear, bicubic
std::string name_of(Interpolation interpolation);

struct Preprocessing {
  int64_t height = 224, width = 224;
  int64_t channels = 3;                // 3: RGB, 1: grey
  bool channels_last = false;          // the input is [N,H,W,C] and not [N,C,H,W]
  // Pillow's resize, to the bit. Keras's own default is nearest; ours is bilinear, which averages when it shrinks.
  Interpolation interpolation = Interpolation::kBilinear;
  double rescale = 1.0;
  std::vector<double> mean, std;       // empty, or one value for all channels, or one a channel

  Status check() const;
  // "preprocess.size" = "224x224", "preprocess.color" = "rgb", ...; keys of other kinds are left alone when read.
  std::map<std::string, std::string> to_metadata() const;
  // False where the metadata holds no preprocessing; an error where it holds a broken one.
  static Result<bool> from_metadata(const std::map<std::string, std::string>& metadata, Preprocessing& out);
};

}  // namespace eng
