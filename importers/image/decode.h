// Pictures from bytes: PNG (libpng) and JPEG (libjpeg-turbo), told apart by content, never by name, to 8-bit RGB or grey.
// Decided here, once:
// - EXIF orientation is not applied, colour profiles and gamma are not applied (as Keras and Pillow by default).
// - Alpha and palette transparency are dropped, not blended. 16 bits become round(v / 257). Grey to RGB repeats the value; RGB to grey is
//   ITU-R 601 luma in Pillow's integers.
// - Four-component JPEGs are taken as Adobe writes them (inverted inks), without profile: channel = c * k / 255.
// - A libjpeg warning (cut short, corrupt data) is damage: the picture is refused. PNG must be whole, up to its IEND.
// - Refused by name: more than 89,478,485 pixels (before memory is taken), 12-bit and lossless JPEG, more than 256 JPEG scans, other formats.
// - Pictures of more than 16 million pixels are averaged over k x k boxes while they are read, if a target size is given and stays at
//   most half of the result, so that memory stays small.
// A new format: a function like those in formats.h and a row in decode.cpp.
#pragma once

#include <cstddef>

#include "engine/data/image.h"
#include "graph/base/status.h"

namespace eng {

inline constexpr int64_t kMaxPixels = 89'478'485;  // Pillow's limit: 256 MB of RGB
inline constexpr int kMaxScans = 256;

// A DecodeFn. Thread-safe. Errors do not name the file, which is not known here.
Status decode_image(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image);
Result<Image> decode_image(const std::byte* bytes, size_t count, const DecodeOptions& options = {});

}  // namespace eng
