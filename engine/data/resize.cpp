// See resize.h. The inner loops are compiled twice, for any x86-64 and for AVX2; integers, so both give the same bits.
#include "engine/data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace eng {
namespace {

constexpr int kBits = 22;  // Pillow's 32 - 8 - 2: leaves room for overshoot of the bicubic kernel

double kernel_at(Interpolation interpolation, double x) {
  x = std::abs(x);
  if (interpolation == Interpolation::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The same arithmetic, in the same order, as Pillow's precompute_coeffs and normalize_coeffs_8bpc.
void prepare(Resizer::Axis& axis, int64_t in, int64_t out, Interpolation interpolation) {
  if (axis.in == in && axis.out == out && axis.interpolation == interpolation) return;
  axis.in = in;
  axis.out = out;
  axis.interpolation = interpolation;
  double scale = static_cast<double>(in) / static_cast<double>(out), filter_scale = std::max(scale, 1.0);
  double support = (interpolation == Interpolation::kBilinear ? 1.0 : 2.0) * filter_scale;
  axis.taps = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  auto n = static_cast<size_t>(out), taps = static_cast<size_t>(axis.taps);
  axis.first.assign(n, 0);
  axis.count.assign(n, 0);
  axis.weight.assign(n * taps, 0);
  std::vector<double> k(taps);
  for (size_t i = 0; i < n; ++i) {
    double center = (static_cast<double>(i) + 0.5) * scale, inverse = 1.0 / filter_scale, sum = 0;
    int64_t low = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    int64_t count = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), in) - low;
    for (int64_t x = 0; x < count; ++x) {
      double w = kernel_at(interpolation, (static_cast<double>(x + low) - center + 0.5) * inverse);
      k[static_cast<size_t>(x)] = w;
      sum += w;
    }
    axis.first[i] = static_cast<int32_t>(low);
    axis.count[i] = static_cast<int32_t>(count);
    for (size_t x = 0; x < static_cast<size_t>(count); ++x) {
      double w = sum != 0 ? k[x] / sum : k[x];
      axis.weight[i * taps + x] = static_cast<int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << kBits));
    }
  }
}

inline uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

template <int C>
[[gnu::always_inline]] inline void horizontal_body(const uint8_t* in, int64_t in_width, int64_t rows, const Resizer::Axis& axis,
                                                   uint8_t* out) {
  for (int64_t y = 0; y < rows; ++y, in += in_width * C) {
    const int32_t* weight = axis.weight.data();
    for (int64_t x = 0; x < axis.out; ++x, weight += axis.taps, out += C) {
      const uint8_t* p = in + int64_t{axis.first[static_cast<size_t>(x)]} * C;
      int32_t sum[C];
      for (int c = 0; c < C; ++c) sum[c] = 1 << (kBits - 1);
      for (int32_t k = 0, count = axis.count[static_cast<size_t>(x)]; k < count; ++k, p += C)
        for (int c = 0; c < C; ++c) sum[c] += p[c] * weight[k];
      for (int c = 0; c < C; ++c) out[c] = to_byte(sum[c]);
    }
  }
}

[[gnu::always_inline]] inline void vertical_body(const uint8_t* in, int64_t row_bytes, const Resizer::Axis& axis, int32_t* sums,
                                                 uint8_t* out) {
  const int32_t* weight = axis.weight.data();
  for (int64_t y = 0; y < axis.out; ++y, weight += axis.taps, out += row_bytes) {
    for (int64_t i = 0; i < row_bytes; ++i) sums[i] = 1 << (kBits - 1);
    const uint8_t* row = in + int64_t{axis.first[static_cast<size_t>(y)]} * row_bytes;
    for (int32_t k = 0, count = axis.count[static_cast<size_t>(y)]; k < count; ++k, row += row_bytes) {
      int32_t w = weight[k];
      for (int64_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * w;
    }
    for (int64_t i = 0; i < row_bytes; ++i) out[i] = to_byte(sums[i]);
  }
}

template <int C>
void horizontal_any(const uint8_t* in, int64_t in_width, int64_t rows, const Resizer::Axis& axis, uint8_t* out) {
  horizontal_body<C>(in, in_width, rows, axis, out);
}
void vertical_any(const uint8_t* in, int64_t row_bytes, const Resizer::Axis& axis, int32_t* sums, uint8_t* out) {
  vertical_body(in, row_bytes, axis, sums, out);
}
#if defined(__x86_64__)
template <int C>
[[gnu::target("avx2")]] void horizontal_avx2(const uint8_t* in, int64_t in_width, int64_t rows, const Resizer::Axis& axis, uint8_t* out) {
  horizontal_body<C>(in, in_width, rows, axis, out);
}
[[gnu::target("avx2")]] void vertical_avx2(const uint8_t* in, int64_t row_bytes, const Resizer::Axis& axis, int32_t* sums, uint8_t* out) {
  vertical_body(in, row_bytes, axis, sums, out);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

void horizontal(const uint8_t* in, int64_t in_width, int64_t rows, int64_t channels, const Resizer::Axis& axis, uint8_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return channels == 3 ? horizontal_avx2<3>(in, in_width, rows, axis, out) : horizontal_avx2<1>(in, in_width, rows, axis, out);
#endif
  channels == 3 ? horizontal_any<3>(in, in_width, rows, axis, out) : horizontal_any<1>(in, in_width, rows, axis, out);
}

void vertical(const uint8_t* in, int64_t row_bytes, const Resizer::Axis& axis, int32_t* sums, uint8_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return vertical_avx2(in, row_bytes, axis, sums, out);
#endif
  vertical_any(in, row_bytes, axis, sums, out);
}

// Source positions of an axis. Pillow adds the scale up step by step, and so do we: where a position falls on a whole number, the sum's
// rounding decides.
std::vector<int64_t> nearest_positions(int64_t in, int64_t out) {
  double scale = static_cast<double>(in) / static_cast<double>(out), position = scale * 0.5;
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < out; ++i, position += scale) positions.push_back(std::min(static_cast<int64_t>(position), in - 1));
  return positions;
}

void nearest(const Image& in, int64_t height, int64_t width, uint8_t* out) {
  std::vector<int64_t> rows = nearest_positions(in.height, height), columns = nearest_positions(in.width, width);
  for (int64_t row : rows) {
    const uint8_t* from = in.pixels.data() + row * in.width * in.channels;
    for (int64_t column : columns)
      for (int64_t c = 0; c < in.channels; ++c) *out++ = from[column * in.channels + c];
  }
}

}  // namespace

void Resizer::run(const Image& in, int64_t height, int64_t width, Interpolation interpolation, uint8_t* out) {
  if (in.height == height && in.width == width) {
    std::memcpy(out, in.pixels.data(), in.pixels.size());
    return;
  }
  if (interpolation == Interpolation::kNearest) return nearest(in, height, width, out);
  bool across = in.width != width, down = in.height != height;
  const uint8_t* source = in.pixels.data();
  int64_t row_bytes = width * in.channels;
  if (across) {
    prepare(horizontal_, in.width, width, interpolation);
    if (down) middle_.resize(static_cast<size_t>(in.height * row_bytes));
    uint8_t* target = down ? middle_.data() : out;
    horizontal(source, in.width, in.height, in.channels, horizontal_, target);
    source = target;
  }
  if (down) {
    prepare(vertical_, in.height, height, interpolation);
    sums_.resize(static_cast<size_t>(row_bytes));
    vertical(source, row_bytes, vertical_, sums_.data(), out);
  }
}

}  // namespace eng
