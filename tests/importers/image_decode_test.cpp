// Decoding of PNG and JPEG: Pillow's pixels, every awkward kind, and hostile files.
#include "importers/image/decode.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "tests/importers/pillow_pictures.h"
#include "tests/support/pictures.h"

using namespace eng;

namespace {

Result<Image> decode(const Bytes& bytes, int64_t channels = 3) {
  DecodeOptions options;
  options.channels = channels;
  return decode_image(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), options);
}
Image decoded(const Bytes& bytes, int64_t channels = 3) {
  Result<Image> image = decode(bytes, channels);
  INFO(image.status().message());
  REQUIRE(image.ok());
  return std::move(*image);
}
uint32_t crc(const Image& image) { return static_cast<uint32_t>(crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size()))); }
std::string error(const Bytes& bytes) {
  Result<Image> image = decode(bytes);
  REQUIRE_FALSE(image.ok());
  return image.status().message();
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
using Pixels = std::vector<uint8_t>;

Bytes big_endian(uint32_t value) {
  Bytes out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255);
  return out;
}
Bytes chunk(const std::string& type, const Bytes& data) {
  Bytes body = type + data;
  return big_endian(static_cast<uint32_t>(data.size())) + body +
         big_endian(static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}
// A baseline header of any size, with no data behind it.
Bytes jpeg_header(int width, int height, int precision, uint8_t frame) {
  Bytes good = jpeg_bytes(8, 8, 1, Pixels(64, 100));
  size_t at = good.find("\xff\xc0");
  good[at + 1] = static_cast<char>(frame);
  good[at + 4] = static_cast<char>(precision);
  good[at + 5] = static_cast<char>(height >> 8);
  good[at + 6] = static_cast<char>(height);
  good[at + 7] = static_cast<char>(width >> 8);
  good[at + 8] = static_cast<char>(width);
  return good;
}

}  // namespace

TEST_CASE("JPEG pixels are Pillow's, in colour and grey") {
  Image image = decoded(from_base64(kBaseline420));
  CHECK(image.height == 18);
  CHECK(image.width == 24);
  CHECK(image.channels == 3);
  CHECK(crc(image) == kBaseline420Rgb);
  CHECK(crc(decoded(from_base64(kBaseline420), 1)) == kBaseline420Grey);
  CHECK(crc(decoded(from_base64(kProgressive444))) == kProgressive444Rgb);
  CHECK(crc(decoded(from_base64(kProgressive444), 1)) == kProgressive444Grey);
  Image grey = decoded(from_base64(kGreyJpeg), 1), rgb = decoded(from_base64(kGreyJpeg));
  CHECK(crc(grey) == kGreyJpegGrey);
  for (size_t i = 0; i < grey.pixels.size(); ++i)
    for (size_t c = 0; c < 3; ++c) CHECK(rgb.pixels[3 * i + c] == grey.pixels[i]);
}

TEST_CASE("CMYK JPEGs with Adobe's inverted inks") {
  struct { const char* file; int rgb[3]; } rows[] = {
      {kRedInk, {255, 0, 0}}, {kMixedInk, {184, 138, 92}}, {kMixedInkProgressive, {184, 138, 92}}};
  for (auto& row : rows) {
    Image image = decoded(from_base64(row.file));
    REQUIRE(image.pixels.size() == 16 * 16 * 3);
    for (size_t i = 0; i < image.pixels.size(); ++i) CHECK(std::abs(image.pixels[i] - row.rgb[i % 3]) <= 2);
  }
  // Grey of the mixed ink: 0.299*184 + 0.587*138 + 0.114*92
  CHECK(std::abs(decoded(from_base64(kMixedInk), 1).pixels[0] - 147) <= 2);
}

TEST_CASE("16-bit grey PNG is scaled to 8 bits") {
  Image image = decoded(from_base64(kGrey16), 1);
  const int values[8] = {0, 255, 256, 257, 32767, 32768, 65280, 65535};
  REQUIRE(image.pixels.size() == 8);
  for (size_t i = 0; i < 8; ++i) CHECK(std::abs(image.pixels[i] - values[i] / 257.0) <= 1);
  CHECK(decoded(from_base64(kGrey16)).pixels[21] == image.pixels[7]);
}

TEST_CASE("palette PNG with transparency gives three channels without alpha") {
  const Pixels want{255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 255, 0};
  for (const char* file : {kPalette2, kPalette4, kPalette8}) CHECK(decoded(from_base64(file)).pixels == want);
  CHECK(decoded(from_base64(kPalette1)).pixels == Pixels{255, 0, 0, 0, 255, 0, 0, 255, 0, 255, 0, 0});
  PngSpec spec{2, 2, 8, 3, true, {255, 0, 0, 0, 255, 0, 0, 0, 255}, {0, 128, 255}, ""};
  CHECK(decoded(png_bytes(spec, {0, 1, 2, 1})).pixels == want);
  CHECK(decoded(png_bytes(spec, {0, 1, 2, 1}), 1).pixels == Pixels{76, 150, 29, 150});
}

TEST_CASE("interlaced PNG gives the pixels of the plain one") {
  Pixels rgb = noise(13 * 11 * 3, 1);
  PngSpec spec{13, 11, 8, 2, true, {}, {}, ""};
  CHECK(decoded(png_bytes(spec, rgb)).pixels == rgb);
}

TEST_CASE("grey of 1, 2 and 4 bits spans 0 to 255; alpha is dropped") {
  CHECK(decoded(png_bytes({4, 1, 1, 0, false, {}, {}, ""}, {0b10100000}), 1).pixels == Pixels{255, 0, 255, 0});
  CHECK(decoded(png_bytes({4, 1, 2, 0, false, {}, {}, ""}, {0b00011011}), 1).pixels == Pixels{0, 85, 170, 255});
  CHECK(decoded(png_bytes({2, 1, 4, 0, false, {}, {}, ""}, {0x2f}), 1).pixels == Pixels{34, 255});
  CHECK(decoded(from_base64(kGreyAlpha), 1).pixels == Pixels{0, 3, 7, 13, 21, 30});
  CHECK(decoded(png_bytes({1, 1, 8, 6, false, {}, {}, ""}, {9, 8, 7, 0})).pixels == Pixels{9, 8, 7});
  CHECK(decoded(png_bytes({1, 1, 16, 6, false, {}, {}, ""}, {255, 255, 128, 128, 0, 0, 0, 0})).pixels == Pixels{255, 128, 0});
}

TEST_CASE("a JPEG is scaled while decoding only where twice the target stays") {
  Pixels smooth;
  for (int y = 0; y < 128; ++y)
    for (int x = 0; x < 160; ++x) smooth.insert(smooth.end(), {static_cast<uint8_t>(x), static_cast<uint8_t>(y), static_cast<uint8_t>(x + y / 2)});
  Bytes bytes = jpeg_bytes(160, 128, 3, smooth, 95);
  auto size = [&](int64_t height, int64_t width) {
    DecodeOptions options;
    options.target_height = height;
    options.target_width = width;
    Image image = *decode_image(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), options);
    return std::pair(image.height, image.width);
  };
  CHECK(size(33, 20) == std::pair<int64_t, int64_t>(128, 160));
  CHECK(size(32, 40) == std::pair<int64_t, int64_t>(64, 80));
  CHECK(size(16, 20) == std::pair<int64_t, int64_t>(32, 40));
  CHECK(size(8, 10) == std::pair<int64_t, int64_t>(16, 20));
  CHECK(size(0, 0) == std::pair<int64_t, int64_t>(128, 160));
}

TEST_CASE("a huge picture with a target is averaged over boxes while it is read") {
  // 4200 x 4200, left half black, right half white
  int side = 4200;
  Pixels grey(static_cast<size_t>(side) * static_cast<size_t>(side));
  for (size_t i = 0; i < grey.size(); ++i) grey[i] = i % static_cast<size_t>(side) < static_cast<size_t>(side) / 2 ? 0 : 255;
  Bytes bytes = png_bytes({side, side, 8, 0, false, {}, {}, ""}, grey);
  DecodeOptions options;
  options.target_height = options.target_width = 100;
  Image image = *decode_image(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), options);
  CHECK(image.height == 200);  // boxes of 21
  CHECK(image.width == 200);
  CHECK(image.pixels[0] == 0);
  CHECK(image.pixels[99 * 3] == 0);
  CHECK(image.pixels[100 * 3] == 255);
  CHECK(image.pixels.size() == 200 * 200 * 3);
}

TEST_CASE("damage: every truncation of a JPEG and a PNG is refused, none crashes") {
  for (const Bytes& whole : {jpeg_bytes(16, 16, 3, noise(768, 2)), jpeg_bytes(16, 16, 3, noise(768, 2), 90, true),
                             rgb_png(9, 9, noise(243, 3)), png_bytes({9, 9, 8, 2, true, {}, {}, ""}, noise(243, 3))}) {
    CHECK(decode(whole).ok());
    for (size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(decode(whole.substr(0, length)).ok());
    }
  }
}

TEST_CASE("half a JPEG says that it is cut short") {
  Bytes whole = jpeg_bytes(64, 64, 3, noise(64 * 64 * 3, 4));
  CHECK(contains(error(whole.substr(0, whole.size() / 2)), "damaged"));
  CHECK(contains(error(whole.substr(0, whole.size() - 2)), "damaged"));
  CHECK(contains(error(rgb_png(9, 9, noise(243, 3)).substr(0, 100)), "cut short"));
}

TEST_CASE("single flipped bytes never crash, and flips in PNG data never pass") {
  Bytes png = rgb_png(9, 9, noise(243, 3)), jpeg = jpeg_bytes(16, 16, 3, noise(768, 2));
  for (size_t i = 0; i < png.size(); ++i) {
    Bytes bad = png;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    CHECK_FALSE(decode(bad).ok());
  }
  for (size_t i = 0; i < jpeg.size(); ++i)
    for (int bit : {1, 0x10, 0x80}) {
      Bytes bad = jpeg;
      bad[i] = static_cast<char>(bad[i] ^ bit);
      Result<Image> image = decode(bad);
      if (image.ok()) CHECK(image->pixels.size() == static_cast<size_t>(image->height * image->width * 3));
    }
}

TEST_CASE("a header of 60000 x 60000 pixels is refused before memory is taken") {
  CHECK(contains(error(jpeg_header(60000, 60000, 8, 0xc0)), "89478485"));
  Bytes ihdr = big_endian(60000) + big_endian(60000) + Bytes("\x08\x02\x00\x00\x00", 5);
  Bytes png = Bytes("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", ihdr) + chunk("IDAT", "x") + chunk("IEND", "");
  CHECK(contains(error(png), "89478485"));
  Bytes zero = Bytes("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", big_endian(0) + big_endian(5) + Bytes("\x08\x02\x00\x00\x00", 5));
  CHECK_FALSE(decode(zero).ok());
}

TEST_CASE("a big header over no data costs little memory and time") {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(decode(jpeg_header(9000, 9000, 8, 0xc0)).ok());
  CHECK_FALSE(decode(jpeg_header(9000, 9000, 8, 0xc2)).ok());  // progressive: would hold all coefficients
  Bytes ihdr = big_endian(9400) + big_endian(9400) + Bytes("\x10\x06\x00\x00\x00", 5);
  CHECK_FALSE(decode(Bytes("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", ihdr) + chunk("IDAT", "x") + chunk("IEND", "")).ok());
  getrusage(RUSAGE_SELF, &after);
  CHECK((after.ru_maxrss - before.ru_maxrss) / 1024 < 256);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
}

TEST_CASE("more than 256 scans are refused") {
  Bytes whole = jpeg_bytes(16, 16, 1, noise(256, 5), 90, true);
  // Repeat the last scan: from its SOS marker up to EOI.
  size_t scan = whole.rfind("\xff\xda");
  Bytes last = whole.substr(scan, whole.size() - 2 - scan), many = whole.substr(0, whole.size() - 2);
  for (int i = 0; i < 80000; ++i) many += last;
  many += whole.substr(whole.size() - 2);
  auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(decode(many).ok());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
}

TEST_CASE("many scans that libjpeg finds no fault with are refused by number") {
  // An AC first scan of no coefficients (one end-of-band run) may be repeated for other bands without a warning.
  Bytes whole = jpeg_bytes(8, 8, 1, Pixels(64, 100), 90, true);
  size_t first = whole.find("\xff\xda");
  Bytes head = whole.substr(0, first);
  size_t second = std::min(whole.find("\xff\xda", first + 2), whole.find("\xff\xc4", first + 2));
  Bytes scan = whole.substr(first, second - first), many = head;
  for (int i = 0; i < 300; ++i) many += scan;
  many += whole.substr(second);
  std::string text = error(many);
  CHECK((contains(text, "scan") || contains(text, "damaged")));
}

TEST_CASE("12-bit JPEG is refused by name") { CHECK(contains(error(jpeg_header(8, 8, 12, 0xc1)), "12 bits")); }

TEST_CASE("PNG text bombs are skipped unread") {
  PngSpec spec{2, 2, 8, 2, false, {}, {}, std::string(50'000'000, 'a')};
  Bytes bytes = png_bytes(spec, Pixels(12, 7));
  CHECK(bytes.size() < 200'000);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  CHECK(decoded(bytes).pixels == Pixels(12, 7));
  getrusage(RUSAGE_SELF, &after);
  CHECK((after.ru_maxrss - before.ru_maxrss) / 1024 < 64);
}

TEST_CASE("other files are refused by what they are") {
  CHECK(contains(error(""), "empty"));
  CHECK(contains(error("GIF89a............"), "GIF"));
  CHECK(contains(error("RIFF....WEBPVP8 "), "WebP"));
  CHECK(contains(error("BM............"), "BMP"));
  CHECK(contains(error("hello, I am a text"), "neither PNG nor JPEG"));
  CHECK_FALSE(decode(std::string(1, '\xff')).ok());
}

TEST_CASE("a damaged EXIF block does not matter, and orientation is not applied") {
  Bytes jpeg = jpeg_bytes(4, 2, 3, Pixels(24, 50));
  Bytes exif("\xff\xe1\x00\x10" "Exif\0\0" "II*\0\xff\xff\xff\xff", 18);
  Image image = decoded(jpeg.substr(0, 2) + exif + jpeg.substr(2));
  CHECK(image.width == 4);
  CHECK(image.height == 2);
}
