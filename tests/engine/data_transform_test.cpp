// Resizing and augmentation against Pillow 13.0 (CRC-32 of its bytes) and SciPy 1.17 (ndimage.affine_transform as Keras's
// apply_affine_transform calls it). The source picture is tests/support/pictures.h's pattern.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <set>

#include "engine/data/augment.h"
#include "engine/data/random.h"
#include "engine/data/resize.h"
#include "engine/data/transform.h"
#include "tests/support/pictures.h"

using namespace eng;

namespace {

struct ResizeRow {
  int height, width, channels, out_height, out_width;
  Interpolation interpolation;
  uint32_t crc;
};
// 37x23 -> 12x40 is Pillow's width pass followed by its height pass: Pillow 13 itself takes them the other way round there.
const ResizeRow kPillow[] = {
    {13, 17, 3, 7, 5, Interpolation::kNearest, 0x13d7ace7u},
    {13, 17, 3, 7, 5, Interpolation::kBilinear, 0xd2b51396u},
    {13, 17, 3, 7, 5, Interpolation::kBicubic, 0xa8739952u},
    {5, 4, 3, 9, 11, Interpolation::kNearest, 0x2ff333a3u},
    {5, 4, 3, 9, 11, Interpolation::kBilinear, 0xff1ce962u},
    {5, 4, 3, 9, 11, Interpolation::kBicubic, 0x563537bcu},
    {37, 23, 1, 12, 40, Interpolation::kNearest, 0x76ab69d8u},
    {37, 23, 1, 12, 40, Interpolation::kBilinear, 0x59146c5fu},
    {37, 23, 1, 12, 40, Interpolation::kBicubic, 0x14502f81u},
    {64, 48, 3, 64, 20, Interpolation::kNearest, 0x9f6e2d4bu},
    {64, 48, 3, 64, 20, Interpolation::kBilinear, 0xd3b4b33du},
    {64, 48, 3, 64, 20, Interpolation::kBicubic, 0x228a2781u},
    {64, 48, 3, 21, 48, Interpolation::kNearest, 0x996d3ac6u},
    {64, 48, 3, 21, 48, Interpolation::kBilinear, 0x4b15f89fu},
    {64, 48, 3, 21, 48, Interpolation::kBicubic, 0x3aad1cc9u},
    {375, 500, 3, 299, 299, Interpolation::kNearest, 0x3b05a7a1u},
    {375, 500, 3, 299, 299, Interpolation::kBilinear, 0xe7a938b7u},
    {375, 500, 3, 299, 299, Interpolation::kBicubic, 0x6e733dbfu},
    {1, 1, 3, 4, 4, Interpolation::kNearest, 0xf3d2da27u},
    {1, 1, 3, 4, 4, Interpolation::kBilinear, 0xf3d2da27u},
    {1, 1, 3, 4, 4, Interpolation::kBicubic, 0xf3d2da27u},
    {28, 28, 1, 96, 96, Interpolation::kNearest, 0x0b58793bu},
    {28, 28, 1, 96, 96, Interpolation::kBilinear, 0xc8718406u},
    {28, 28, 1, 96, 96, Interpolation::kBicubic, 0xb2dafbe1u},
};

struct AffineRow {
  FillMode mode;
  double rotation, shift_y, shift_x, shear, zoom_y, zoom_x;
  double probes[8], mean;
};
const AffineRow kScipy[] = {
    {FillMode::kNearest, 17.5, 0.0, 0.0, 0.0, 1.0, 1.0, {138.90782, 193.22805, 108.64445, 104.94997, 204.00000, 166.69922, 130.42915, 101.73318}, 132.524382},
    {FillMode::kNearest, 0.0, 1.5, -2.25, 0.0, 1.0, 1.0, {124.50000, 140.62500, 249.00000, 183.50000, 216.62500, 126.87500, 187.00000, 143.87500}, 135.956349},
    {FillMode::kNearest, 0.0, 0.0, 0.0, 12.0, 1.0, 1.0, {134.15648, 87.10102, 235.80115, 103.66113, 204.00000, 121.72735, 113.30497, 206.54587}, 133.187574},
    {FillMode::kNearest, 0.0, 0.0, 0.0, 0.0, 0.8, 1.3, {102.00000, 118.60000, 103.20000, 108.20000, 204.00000, 137.72000, 94.88000, 138.38000}, 124.906667},
    {FillMode::kNearest, -33.0, 0.7, 1.1, 8.0, 1.4, 0.9, {119.96397, 177.25993, 249.00000, 142.87350, 157.06802, 136.88425, 133.07875, 116.75913}, 133.079611},
    {FillMode::kNearest, 90.0, 0.0, 0.0, 0.0, 1.0, 1.0, {26.00000, 21.00000, 40.00000, 164.00000, 204.00000, 45.00000, 227.00000, 239.00000}, 132.126984},
    {FillMode::kConstant, 17.5, 0.0, 0.0, 0.0, 1.0, 1.0, {11.00000, 11.00000, 11.00000, 11.00000, 204.00000, 166.69922, 130.42915, 101.73318}, 102.928462},
    {FillMode::kConstant, 0.0, 1.5, -2.25, 0.0, 1.0, 1.0, {11.00000, 140.62500, 11.00000, 11.00000, 216.62500, 126.87500, 11.00000, 143.87500}, 73.572751},
    {FillMode::kConstant, -33.0, 0.7, 1.1, 8.0, 1.4, 0.9, {11.00000, 11.00000, 11.00000, 11.00000, 157.06802, 136.88425, 133.07875, 116.75913}, 80.021227},
    {FillMode::kConstant, 90.0, 0.0, 0.0, 0.0, 1.0, 1.0, {11.00000, 11.00000, 11.00000, 11.00000, 204.00000, 45.00000, 227.00000, 239.00000}, 107.952381},
    {FillMode::kReflect, 17.5, 0.0, 0.0, 0.0, 1.0, 1.0, {138.90782, 189.38060, 116.03494, 104.94997, 204.00000, 166.69922, 130.42915, 101.73318}, 132.628068},
    {FillMode::kReflect, 0.0, 1.5, -2.25, 0.0, 1.0, 1.0, {122.37500, 140.62500, 174.62500, 213.62500, 216.62500, 126.87500, 146.75000, 143.87500}, 137.841931},
    {FillMode::kReflect, -33.0, 0.7, 1.1, 8.0, 1.4, 0.9, {119.96397, 98.81526, 247.65585, 60.30466, 157.06802, 136.88425, 133.07875, 116.75913}, 137.753465},
    {FillMode::kReflect, 90.0, 0.0, 0.0, 0.0, 1.0, 1.0, {26.00000, 21.00000, 40.00000, 164.00000, 204.00000, 45.00000, 227.00000, 239.00000}, 132.126984},
    {FillMode::kWrap, 17.5, 0.0, 0.0, 0.0, 1.0, 1.0, {83.21092, 64.79251, 167.20616, 189.06953, 204.00000, 166.69922, 130.42915, 101.73318}, 131.710071},
    {FillMode::kWrap, 0.0, 1.5, -2.25, 0.0, 1.0, 1.0, {69.00000, 140.62500, 149.87500, 69.00000, 216.62500, 126.87500, 92.50000, 143.87500}, 132.923280},
    {FillMode::kWrap, -33.0, 0.7, 1.1, 8.0, 1.4, 0.9, {186.31414, 32.74610, 238.84202, 39.46132, 157.06802, 136.88425, 133.07875, 116.75913}, 134.072516},
    {FillMode::kWrap, 90.0, 0.0, 0.0, 0.0, 1.0, 1.0, {68.00000, 236.00000, 221.00000, 44.00000, 204.00000, 45.00000, 227.00000, 239.00000}, 139.910053},
};

Image pattern_image(int height, int width, int channels) {
  Image image;
  image.height = height;
  image.width = width;
  image.channels = channels;
  image.pixels = test_pattern(int64_t{height} * width * channels);
  return image;
}

Preprocessing plain(int height, int width, int channels) {
  Preprocessing p;
  p.height = height;
  p.width = width;
  p.channels = channels;
  return p;
}

}  // namespace

TEST_CASE("resize gives Pillow's bytes") {
  Resizer resizer;  // one for all: coefficients of earlier sizes must not be mistaken for the new ones
  for (const ResizeRow& row : kPillow) {
    CAPTURE(row.height);
    CAPTURE(row.out_width);
    CAPTURE(name_of(row.interpolation));
    Image in = pattern_image(row.height, row.width, row.channels);
    std::vector<uint8_t> out(static_cast<size_t>(row.out_height * row.out_width * row.channels));
    resizer.run(in, row.out_height, row.out_width, row.interpolation, out.data());
    CHECK(crc32(0, out.data(), static_cast<uInt>(out.size())) == row.crc);
  }
}

TEST_CASE("resize to the same size copies") {
  Image in = pattern_image(5, 7, 3);
  std::vector<uint8_t> out(in.pixels.size());
  Resizer().run(in, 5, 7, Interpolation::kBicubic, out.data());
  CHECK(out == in.pixels);
}

TEST_CASE("rotation, shift, shear and zoom give SciPy's values in every fill mode") {
  Image in = pattern_image(7, 9, 3);
  for (const AffineRow& row : kScipy) {
    CAPTURE(name_of(row.mode));
    CAPTURE(row.rotation);
    CAPTURE(row.shift_y);
    Augmentation a;
    a.rotation = row.rotation;
    a.shift_y = row.shift_y;
    a.shift_x = row.shift_x;
    a.shear = row.shear;
    a.zoom_y = row.zoom_y;
    a.zoom_x = row.zoom_x;
    std::vector<float> out(3 * 7 * 9);
    Renderer(plain(7, 9, 3), row.mode, 11).render(in.pixels.data(), a, out.data());
    auto at = [&](int y, int x, int c) { return static_cast<double>(out[static_cast<size_t>(c * 63 + y * 9 + x)]); };
    const double got[8] = {at(0, 0, 0), at(0, 8, 1), at(6, 0, 2), at(6, 8, 0), at(3, 4, 1), at(2, 6, 2), at(5, 1, 0), at(1, 3, 1)};
    for (int i = 0; i < 8; ++i) {
      CAPTURE(i);
      CHECK(got[i] == doctest::Approx(row.probes[i]).epsilon(2e-5));
    }
    double sum = 0;
    for (float v : out) sum += static_cast<double>(v);
    CHECK(sum / static_cast<double>(out.size()) == doctest::Approx(row.mean).epsilon(1e-5));
  }
}

TEST_CASE("flips after an affine map are the map's picture, mirrored") {
  Image in = pattern_image(6, 5, 3);
  Augmentation a;
  a.rotation = 20;
  a.zoom_x = 0.9;
  Preprocessing p = plain(6, 5, 3);
  std::vector<float> straight(90), mirrored(90);
  Renderer renderer(p);
  renderer.render(in.pixels.data(), a, straight.data());
  a.flip_horizontal = a.flip_vertical = true;
  renderer.render(in.pixels.data(), a, mirrored.data());
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 5; ++x)
        CHECK(mirrored[static_cast<size_t>(c * 30 + y * 5 + x)] ==
              doctest::Approx(straight[static_cast<size_t>(c * 30 + (5 - y) * 5 + (4 - x))]).epsilon(1e-4));
}

TEST_CASE("plain rendering: (grey * rescale - mean) / std, planes or interleaved, with flips") {
  Image in = pattern_image(2, 3, 3);
  Preprocessing p = plain(2, 3, 3);
  p.rescale = 1.0 / 255;
  p.mean = {0.485, 0.456, 0.406};
  p.std = {0.229, 0.224, 0.225};
  std::vector<float> planes(18), pixels(18);
  Augmentation a;
  a.flip_horizontal = true;
  Renderer(p).render(in.pixels.data(), a, planes.data());
  p.channels_last = true;
  Renderer(p).render(in.pixels.data(), a, pixels.data());
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 3; ++x) {
        auto k = static_cast<size_t>(c);
        double want = (in.pixels[static_cast<size_t>((y * 3 + 2 - x) * 3 + c)] / 255.0 - p.mean[k]) / p.std[k];
        CHECK(planes[static_cast<size_t>(c * 6 + y * 3 + x)] == doctest::Approx(want).epsilon(1e-6));
        CHECK(pixels[static_cast<size_t>((y * 3 + x) * 3 + c)] == doctest::Approx(want).epsilon(1e-6));
      }
}

TEST_CASE("brightness multiplies grey levels and clips at 255") {
  std::vector<uint8_t> pixels{0, 10, 200, 255};
  Preprocessing p = plain(2, 2, 1);
  Augmentation a;
  a.brightness = 1.5;
  std::vector<float> out(4);
  Renderer(p).render(pixels.data(), a, out.data());
  CHECK(out == std::vector<float>{0, 15, 255, 255});
}

TEST_CASE("draws stay in their ranges, use them, and depend on seed, epoch and sample only") {
  AugmentOptions options;
  options.rotation = 10;
  options.width_shift = 0.1;
  options.height_shift = 3;
  options.shear = 5;
  options.zoom_low = 0.8;
  options.zoom_high = 1.2;
  options.horizontal_flip = true;
  options.brightness_low = 0.5;
  options.brightness_high = 1.5;
  double most_rotation = 0, most_shift = 0;
  int flips = 0;
  std::set<double> zooms;
  for (int64_t i = 0; i < 1000; ++i) {
    CounterRandom random(7, Purpose::kAugment, 3, i), again(7, Purpose::kAugment, 3, i), other(7, Purpose::kAugment, 4, i);
    Augmentation a = draw(options, 100, 200, random), b = draw(options, 100, 200, again), c = draw(options, 100, 200, other);
    CHECK(a.rotation == b.rotation);
    CHECK(a.rotation != c.rotation);
    CHECK(std::abs(a.rotation) <= 10);
    CHECK(std::abs(a.shift_x) <= 20);
    CHECK(std::abs(a.shift_y) <= 3);
    CHECK(std::abs(a.shear) <= 5);
    CHECK(a.zoom_x >= 0.8);
    CHECK(a.zoom_x <= 1.2);
    CHECK_FALSE(a.flip_vertical);
    most_rotation = std::max(most_rotation, std::abs(a.rotation));
    most_shift = std::max(most_shift, std::abs(a.shift_x));
    flips += a.flip_horizontal;
    zooms.insert(a.zoom_x);
  }
  CHECK(most_rotation > 9.5);
  CHECK(most_shift > 19);
  CHECK(flips > 440);
  CHECK(flips < 560);
  CHECK(zooms.size() > 990);
}

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a shuffle is a permutation, and close to uniform") {
  std::vector<int> counts(25, 0);
  for (int64_t epoch = 0; epoch < 2000; ++epoch) {
    std::vector<int> v{0, 1, 2, 3, 4};
    CounterRandom(1, Purpose::kShuffle, epoch, 0).shuffle(v);
    CHECK(std::set<int>(v.begin(), v.end()).size() == 5);
    for (size_t place = 0; place < 5; ++place) ++counts[place * 5 + static_cast<size_t>(v[place])];
  }
  for (int count : counts) {  // 400 expected, sigma 18
    CHECK(count > 310);
    CHECK(count < 490);
  }
}

TEST_CASE("ranges that make no sense are refused") {
  AugmentOptions bad;
  bad.shear = 90;
  CHECK_FALSE(bad.check().ok());
  bad = {};
  bad.zoom_low = 0;
  CHECK_FALSE(bad.check().ok());
  bad = {};
  bad.rotation = -3;
  CHECK_FALSE(bad.check().ok());
  CHECK_FALSE(fill_mode_from("mirror").ok());
  CHECK(fill_mode_from("wrap").value() == FillMode::kWrap);
  Preprocessing p;
  p.std = {1, 0, 1};
  CHECK_FALSE(p.check().ok());
  p.std = {1, 1};
  CHECK_FALSE(p.check().ok());
}

TEST_CASE("preprocessing survives the way through metadata") {
  Preprocessing p = plain(299, 171, 1), back;
  p.rescale = 1.0 / 255;
  p.mean = {0.1};
  p.std = {0.3};
  p.channels_last = true;
  p.interpolation = Interpolation::kBicubic;
  std::map<std::string, std::string> metadata = p.to_metadata();
  metadata["author"] = "x";
  REQUIRE(Preprocessing::from_metadata(metadata, back).value());
  CHECK(back.height == 299);
  CHECK(back.width == 171);
  CHECK(back.channels == 1);
  CHECK(back.channels_last);
  CHECK(back.rescale == p.rescale);
  CHECK(back.mean == p.mean);
  CHECK(back.std == p.std);
  CHECK(back.interpolation == Interpolation::kBicubic);
  CHECK_FALSE(Preprocessing::from_metadata({{"author", "x"}}, back).value());
  metadata["preprocess.size"] = "0x5";
  CHECK_FALSE(Preprocessing::from_metadata(metadata, back).ok());
}
