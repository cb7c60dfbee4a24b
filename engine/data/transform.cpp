// See transform.h. A row is done in pieces: first where each output pixel comes from (a loop without branches, one per fill mode),
// then the sampling.
#include "engine/data/transform.h"

#include <algorithm>
#include <cmath>

namespace eng {
namespace {

constexpr double kDegree = 3.14159265358979323846 / 180;
constexpr int kPiece = 64;

// Where the pixels of a piece come from: two neighbours on an axis and the share of the second.
struct Axis {
  int32_t low[kPiece], high[kPiece];
  float share[kPiece];
};

// Coordinates of an axis to neighbours. `inside` is cleared where kConstant has no picture.
[[gnu::always_inline]] inline void neighbours(FillMode mode, const float* at, int count, int32_t size, Axis& axis, uint8_t* inside) {
  auto last = static_cast<float>(size - 1);
  auto clamp_to_neighbours = [&](int i, float v) {
    v = std::min(std::max(v, 0.0f), last);
    auto low = static_cast<int32_t>(v);
    axis.low[i] = low;
    axis.high[i] = std::min(low + 1, size - 1);
    axis.share[i] = v - static_cast<float>(low);
  };
  switch (mode) {
    case FillMode::kNearest:
      for (int i = 0; i < count; ++i) clamp_to_neighbours(i, at[i]);
      break;
    case FillMode::kConstant:  // a thousandth of a pixel of tolerance: a quarter turn must not lose the border to rounding
      for (int i = 0; i < count; ++i) {
        inside[i] &= static_cast<uint8_t>(at[i] >= -1e-3f && at[i] <= last + 1e-3f);
        clamp_to_neighbours(i, at[i]);
      }
      break;
    case FillMode::kWrap:
      for (int i = 0; i < count; ++i) {
        bool out = (at[i] < 0 || at[i] > last) && size > 1;
        clamp_to_neighbours(i, out ? at[i] - last * std::floor(at[i] / last) : at[i]);
      }
      break;
    case FillMode::kReflect:
      for (int i = 0; i < count; ++i) {
        auto period = static_cast<float>(2 * size);
        float v = at[i] - period * std::floor(at[i] / period);
        int32_t low = std::min(static_cast<int32_t>(v), 2 * size - 1), high = low + 1 == 2 * size ? 0 : low + 1;
        axis.low[i] = low < size ? low : 2 * size - 1 - low;
        axis.high[i] = high < size ? high : 2 * size - 1 - high;
        axis.share[i] = v - static_cast<float>(low);
      }
      break;
  }
}

// Everything that sampling a row needs.
struct RowJob {
  const uint8_t* pixels;
  int32_t height, width;
  FillMode mode;
  float fill_value, brightness;
  const float *scale, *shift;
  float y0, dy, x0, dx;      // in-coordinates of output pixel i: y0 + i*dy, x0 + i*dx
  float* out;                // first channel of the first pixel
  int64_t channel_step, pixel_step;
};

template <int C, bool kBrightness>
[[gnu::always_inline]] inline void sample_row(const RowJob& job) {
  float at_y[kPiece], at_x[kPiece];
  uint8_t inside[kPiece];
  Axis y, x;
  float* out = job.out;
  for (int32_t start = 0; start < job.width; start += kPiece) {
    int count = std::min(kPiece, job.width - start);
    for (int i = 0; i < count; ++i) {
      auto position = static_cast<float>(start + i);
      at_y[i] = job.y0 + position * job.dy;
      at_x[i] = job.x0 + position * job.dx;
      inside[i] = 1;
    }
    neighbours(job.mode, at_y, count, job.height, y, inside);
    neighbours(job.mode, at_x, count, job.width, x, inside);
    for (int i = 0; i < count; ++i, out += job.pixel_step) {
      const uint8_t* upper = job.pixels + int64_t{y.low[i]} * job.width * C;
      const uint8_t* lower = job.pixels + int64_t{y.high[i]} * job.width * C;
      int32_t left = x.low[i] * C, right = x.high[i] * C;
      float fx = x.share[i], fy = y.share[i];
      for (int c = 0; c < C; ++c) {
        float a = upper[left + c], b = upper[right + c], d = lower[left + c], e = lower[right + c];
        float top = a + (b - a) * fx, bottom = d + (e - d) * fx;
        float value = top + (bottom - top) * fy;
        value = inside[i] ? value : job.fill_value;
        if (kBrightness) value = std::min(std::max(value * job.brightness, 0.0f), 255.0f);
        out[c * job.channel_step] = value * job.scale[c] + job.shift[c];
      }
    }
  }
}

using RowFn = void (*)(const RowJob&);
template <int C, bool B>
void sample_any(const RowJob& job) { sample_row<C, B>(job); }
#if defined(__x86_64__)
template <int C, bool B>
[[gnu::target("avx2")]] void sample_avx2(const RowJob& job) { sample_row<C, B>(job); }
#endif

RowFn choose(int64_t channels, bool brightness) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return channels == 3 ? (brightness ? sample_avx2<3, true> : sample_avx2<3, false>)
                         : (brightness ? sample_avx2<1, true> : sample_avx2<1, false>);
#endif
  return channels == 3 ? (brightness ? sample_any<3, true> : sample_any<3, false>)
                       : (brightness ? sample_any<1, true> : sample_any<1, false>);
}

}  // namespace

AffineMap affine_map(const Augmentation& a, int64_t height, int64_t width) {
  double cosine = std::cos(a.rotation * kDegree), sine = std::sin(a.rotation * kDegree);
  double shear_sine = std::sin(a.shear * kDegree), shear_cosine = std::cos(a.shear * kDegree);
  // inner = shear * zoom; in = centre + rotation * (shift + inner * (out - centre))
  double inner[2][2] = {{a.zoom_y, -shear_sine * a.zoom_x}, {0, shear_cosine * a.zoom_x}};
  double rotation[2][2] = {{cosine, -sine}, {sine, cosine}};
  double centre[2] = {static_cast<double>(height - 1) / 2, static_cast<double>(width - 1) / 2};
  AffineMap map;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) map.m[i][j] = rotation[i][0] * inner[0][j] + rotation[i][1] * inner[1][j];
    map.offset[i] = centre[i] + rotation[i][0] * a.shift_y + rotation[i][1] * a.shift_x - map.m[i][0] * centre[0] - map.m[i][1] * centre[1];
  }
  return map;
}

Renderer::Renderer(const Preprocessing& p, FillMode fill_mode, double fill_value)
    : height_(p.height), width_(p.width), channels_(p.channels), channels_last_(p.channels_last), fill_mode_(fill_mode),
      fill_value_(static_cast<float>(fill_value)) {
  auto pick = [](const std::vector<double>& list, size_t c, double fallback) {
    return list.empty() ? fallback : list[list.size() == 1 ? 0 : c];
  };
  for (size_t c = 0; c < 3; ++c) {
    double mean = c < static_cast<size_t>(channels_) ? pick(p.mean, c, 0) : 0;
    double deviation = c < static_cast<size_t>(channels_) ? pick(p.std, c, 1) : 1;
    scale_[c] = static_cast<float>(p.rescale / deviation);
    shift_[c] = static_cast<float>(-mean / deviation);
    for (size_t grey = 0; grey < 256; ++grey)
      table_[c][grey] = static_cast<float>((static_cast<double>(grey) * p.rescale - mean) / deviation);
  }
}

void Renderer::render(const uint8_t* pixels, const Augmentation& augmentation, float* out) const {
  if (augmentation.has_affine() || augmentation.brightness != 1)
    warp(pixels, augmentation, out);
  else
    plain(pixels, augmentation, out);
}

void Renderer::plain(const uint8_t* pixels, const Augmentation& a, float* out) const {
  int64_t channel_step = channels_last_ ? 1 : height_ * width_, pixel_step = channels_last_ ? channels_ : 1;
  for (int64_t y = 0; y < height_; ++y) {
    const uint8_t* row = pixels + (a.flip_vertical ? height_ - 1 - y : y) * width_ * channels_;
    int64_t step = a.flip_horizontal ? -channels_ : channels_;
    if (a.flip_horizontal) row += (width_ - 1) * channels_;
    float* target = out + y * width_ * pixel_step;
    for (int64_t c = 0; c < channels_; ++c) {
      const float* table = table_[static_cast<size_t>(c)].data();
      const uint8_t* from = row + c;
      float* to = target + c * channel_step;
      for (int64_t x = 0; x < width_; ++x, from += step, to += pixel_step) *to = table[*from];
    }
  }
}

// Flips come after the map, so output pixel (y, x) is the map's pixel (height-1-y, width-1-x).
void Renderer::warp(const uint8_t* pixels, const Augmentation& a, float* out) const {
  AffineMap map = affine_map(a, height_, width_);
  RowFn sample = choose(channels_, a.brightness != 1);
  RowJob job{};
  job.pixels = pixels;
  job.height = static_cast<int32_t>(height_);
  job.width = static_cast<int32_t>(width_);
  job.mode = fill_mode_;
  job.fill_value = fill_value_;
  job.brightness = static_cast<float>(a.brightness);
  job.scale = scale_;
  job.shift = shift_;
  job.channel_step = channels_last_ ? 1 : height_ * width_;
  job.pixel_step = channels_last_ ? channels_ : 1;
  double x_start = a.flip_horizontal ? static_cast<double>(width_ - 1) : 0, x_step = a.flip_horizontal ? -1 : 1;
  job.dy = static_cast<float>(map.m[0][1] * x_step);
  job.dx = static_cast<float>(map.m[1][1] * x_step);
  for (int64_t row = 0; row < height_; ++row) {
    auto y = static_cast<double>(a.flip_vertical ? height_ - 1 - row : row);
    job.y0 = static_cast<float>(map.offset[0] + map.m[0][0] * y + map.m[0][1] * x_start);
    job.x0 = static_cast<float>(map.offset[1] + map.m[1][0] * y + map.m[1][1] * x_start);
    job.out = out + row * width_ * job.pixel_step;
    sample(job);
  }
}

}  // namespace eng
