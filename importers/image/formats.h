// The decoders behind decode.h, and what they share: rows on their way into an Image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/data/image.h"
#include "graph/base/status.h"

namespace eng {

Status decode_png(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image);
Status decode_jpeg(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image);

Status check_picture_size(int64_t width, int64_t height);

// Takes rows of RGB or grey from the top and builds the Image: converts the channels and, for big pictures, averages boxes.
// Memory grows with the rows that really come, so a big header over little data costs little.
class RowSink {
 public:
  RowSink(Image& image, const DecodeOptions& options) : image_(image), options_(options) {}
  void begin(int64_t height, int64_t width, int64_t row_channels);
  void add(const uint8_t* row);

 private:
  void convert(const uint8_t* row, uint8_t* out) const;
  void flush_box();

  Image& image_;
  const DecodeOptions& options_;
  int64_t height_ = 0, width_ = 0, row_channels_ = 3;
  int64_t box_ = 1, rows_in_box_ = 0;
  std::vector<uint8_t> line_;
  std::vector<uint32_t> sums_;
};

}  // namespace eng
