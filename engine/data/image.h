// A decoded picture and the function type that makes one. The engine knows no picture format: importers/image/decode.h fulfils
// DecodeFn, and whoever builds a dataset passes it in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "graph/base/status.h"

namespace eng {

// 8 bits a channel, rows from the top, channels interleaved (RGB or one grey), no padding.
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

struct DecodeOptions {
  int64_t channels = 3;  // 3: RGB, 1: grey (ITU-R 601 luma, as Pillow's convert("L"))
  // The size the picture will be resized to, or 0. A JPEG decoder may then deliver 1/2, 1/4 or 1/8 of the size, as long as each
  // side stays at least twice the target (Pillow's reducing_gap=2): faster, and within about one grey level on average.
  int64_t target_height = 0, target_width = 0;
};

// Decodes into `image`, whose buffer is reused. An error says what is wrong with the bytes; the caller adds the file's name.
// Called from several threads at once.
using DecodeFn = std::function<Status(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image)>;

}  // namespace eng
