// See pictures.h.
#include "tests/support/pictures.h"

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

#include <fstream>
#include <random>
#include <sstream>

namespace eng {

Bytes from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Bytes out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    size_t digit = kDigits.find(c);
    if (digit == std::string::npos) continue;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 255);
    }
  }
  return out;
}

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_bytes(const std::string& path, const Bytes& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Bytes png_bytes(const PngSpec& spec, const std::vector<uint8_t>& rows) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out, [](png_structp p, png_bytep data, size_t n) { static_cast<Bytes*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n); },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(spec.width), static_cast<png_uint_32>(spec.height), spec.bit_depth, spec.color_type,
               spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (size_t i = 0; i + 2 < spec.palette.size(); i += 3) palette.push_back({spec.palette[i], spec.palette[i + 1], spec.palette[i + 2]});
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (!spec.transparency.empty())
    png_set_tRNS(png, info, spec.transparency.data(), static_cast<int>(spec.transparency.size()), nullptr);
  std::string key = "Comment", text = spec.text;
  png_text chunk{};
  chunk.compression = PNG_TEXT_COMPRESSION_zTXt;
  chunk.key = key.data();
  chunk.text = text.data();
  chunk.text_length = text.size();
  if (!text.empty()) png_set_text(png, info, &chunk, 1);
  png_write_info(png, info);
  size_t row_bytes = png_get_rowbytes(png, info);
  std::vector<png_bytep> pointers;
  for (int y = 0; y < spec.height; ++y) pointers.push_back(const_cast<png_bytep>(rows.data() + static_cast<size_t>(y) * row_bytes));
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

Bytes rgb_png(int width, int height, const std::vector<uint8_t>& rgb) {
  PngSpec spec;
  spec.width = width;
  spec.height = height;
  return png_bytes(spec, rgb);
}

Bytes solid_png(int width, int height, uint8_t red, uint8_t green, uint8_t blue) {
  std::vector<uint8_t> rgb;
  for (int i = 0; i < width * height; ++i) rgb.insert(rgb.end(), {red, green, blue});
  return rgb_png(width, height, rgb);
}

Bytes jpeg_bytes(int width, int height, int channels, const std::vector<uint8_t>& pixels, int quality, bool progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + static_cast<size_t>(info.next_scanline) * static_cast<size_t>(width * channels));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes out(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return out;
}

std::vector<uint8_t> test_pattern(int64_t count) {
  std::vector<uint8_t> out;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) out.push_back(static_cast<uint8_t>((i * i * 7 + i * 13 + 5) >> 3));
  return out;
}

std::vector<uint8_t> noise(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(random() >> 32));
  return out;
}

}  // namespace eng
