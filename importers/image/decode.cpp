// See decode.h and formats.h.
#include "importers/image/decode.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "importers/image/formats.h"

namespace eng {
namespace {

constexpr int64_t kReduceAbove = 16'000'000;  // pixels

struct Format {
  std::string_view start;
  size_t at;
  const char* name;
  Status (*decode)(const std::byte*, size_t, const DecodeOptions&, Image&);  // null: known, not supported
};
using namespace std::string_view_literals;
constexpr Format kFormats[] = {
    {"\x89PNG\r\n\x1a\n"sv, 0, "PNG", decode_png},
    {"\xff\xd8\xff"sv, 0, "JPEG", decode_jpeg},
    {"GIF8"sv, 0, "GIF", nullptr},
    {"BM"sv, 0, "BMP", nullptr},
    {"WEBP"sv, 8, "WebP", nullptr},
    {"II*\0"sv, 0, "TIFF", nullptr},
    {"MM\0*"sv, 0, "TIFF", nullptr},
    {"\0\0\0\x0cjP  "sv, 0, "JPEG 2000", nullptr},
    {"P5"sv, 0, "PGM", nullptr},
    {"P6"sv, 0, "PPM", nullptr},
};

}  // namespace

Status check_picture_size(int64_t width, int64_t height) {
  if (width < 1 || height < 1) return invalid("the picture has no pixels (", width, "x", height, ")");
  if (width > kMaxPixels / height)
    return invalid("the picture is ", width, "x", height, ", more than the ", kMaxPixels, " pixels that are decoded");
  return {};
}

Status decode_image(const std::byte* bytes, size_t count, const DecodeOptions& options, Image& image) {
  if (options.channels != 1 && options.channels != 3) return usage_error("pictures have 1 or 3 channels, not ", options.channels);
  if (count == 0) return invalid("the file is empty");
  std::string_view text(reinterpret_cast<const char*>(bytes), count);
  for (const Format& format : kFormats) {
    if (text.size() < format.at + format.start.size() || text.substr(format.at, format.start.size()) != format.start) continue;
    if (!format.decode) return unsupported(format.name, " pictures are not supported, only PNG and JPEG");
    try {
      return format.decode(bytes, count, options, image).in(format.name);
    } catch (const std::bad_alloc&) {
      return invalid(format.name, ": not enough memory for the picture");
    }
  }
  return invalid("is neither PNG nor JPEG");
}

Result<Image> decode_image(const std::byte* bytes, size_t count, const DecodeOptions& options) {
  Image image;
  ENG_TRY(decode_image(bytes, count, options, image));
  return image;
}

void RowSink::begin(int64_t height, int64_t width, int64_t row_channels) {
  height_ = height;
  width_ = width;
  row_channels_ = row_channels;
  if (height * width > kReduceAbove && options_.target_height > 0 && options_.target_width > 0)
    box_ = std::max<int64_t>(1, std::min(height / (2 * options_.target_height), width / (2 * options_.target_width)));
  image_.channels = options_.channels;
  image_.height = (height + box_ - 1) / box_;
  image_.width = (width + box_ - 1) / box_;
  image_.pixels.clear();
  image_.pixels.reserve(static_cast<size_t>(image_.height * image_.width * image_.channels));
  if (box_ > 1) {
    line_.resize(static_cast<size_t>(width * image_.channels));
    sums_.assign(static_cast<size_t>(image_.width * image_.channels), 0);
  }
}

void RowSink::convert(const uint8_t* row, uint8_t* out) const {
  if (row_channels_ == options_.channels) {
    std::memcpy(out, row, static_cast<size_t>(width_ * row_channels_));
  } else if (row_channels_ == 1) {
    for (int64_t x = 0; x < width_; ++x, out += 3) out[0] = out[1] = out[2] = row[x];
  } else {
    for (int64_t x = 0; x < width_; ++x, row += 3) out[x] = static_cast<uint8_t>((row[0] * 19595 + row[1] * 38470 + row[2] * 7471 + 0x8000) >> 16);
  }
}

void RowSink::add(const uint8_t* row) {
  if (box_ == 1) {
    size_t at = image_.pixels.size();
    image_.pixels.resize(at + static_cast<size_t>(width_ * image_.channels));
    return convert(row, image_.pixels.data() + at);
  }
  convert(row, line_.data());
  const int64_t channels = image_.channels;
  for (int64_t x = 0; x < width_; ++x)
    for (int64_t c = 0; c < channels; ++c) sums_[static_cast<size_t>(x / box_ * channels + c)] += line_[static_cast<size_t>(x * channels + c)];
  ++rows_in_box_;
  --height_;
  if (rows_in_box_ == box_ || height_ == 0) flush_box();
}

void RowSink::flush_box() {
  const int64_t channels = image_.channels;
  for (int64_t x = 0; x < image_.width; ++x) {
    auto area = static_cast<uint32_t>(rows_in_box_ * std::min(box_, width_ - x * box_));
    for (int64_t c = 0; c < channels; ++c) {
      uint32_t& sum = sums_[static_cast<size_t>(x * channels + c)];
      image_.pixels.push_back(static_cast<uint8_t>((sum + area / 2) / area));
      sum = 0;
    }
  }
  rows_in_box_ = 0;
}

}  // namespace eng
