// Pictures for tests: made with libpng and libjpeg here, or given as base64 of what Pillow wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace eng {

using Bytes = std::string;

Bytes from_base64(const std::string& text);
Bytes read_bytes(const std::string& path);
void write_bytes(const std::string& path, const Bytes& bytes);

struct PngSpec {
  int width = 1, height = 1;
  int bit_depth = 8;
  int color_type = 2;      // libpng's: 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA
  bool interlaced = false;
  std::vector<uint8_t> palette;       // RGB triples
  std::vector<uint8_t> transparency;  // alpha of palette entries
  std::string text;                   // a compressed text chunk
};
// `rows`: packed rows of the depth given, 16 bits big endian, as libpng takes them.
Bytes png_bytes(const PngSpec& spec, const std::vector<uint8_t>& rows);
// A PNG of one colour, or of RGB bytes.
Bytes solid_png(int width, int height, uint8_t red, uint8_t green, uint8_t blue);
Bytes rgb_png(int width, int height, const std::vector<uint8_t>& rgb);
// RGB or grey (channels 1) bytes at a quality; progressive if wanted.
Bytes jpeg_bytes(int width, int height, int channels, const std::vector<uint8_t>& pixels, int quality = 95, bool progressive = false);
// (i*i*7 + i*13 + 5) >> 3, as bytes: a picture that Python can make too.
std::vector<uint8_t> test_pattern(int64_t count);
std::vector<uint8_t> noise(int64_t count, uint64_t seed);

}  // namespace eng
