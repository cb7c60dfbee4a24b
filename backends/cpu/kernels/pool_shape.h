// How the pooling kernels see their operands: [outer][position][inner] with positions on a grid of three axes. Channels-last:
// outer = batch, inner = channels; row-major: outer = batch * channels, inner = 1. For each axis and output index the
// taps that hit the input are a range, found at create, so that no pad is tested in a loop.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/window.h"

namespace eng::cpu {

// Taps first, first + 1, ... first + count - 1 of one output index along one axis; tap `first` reads input index `at`.
struct TapRange {
  int64_t first = 0, count = 0, at = 0;
  int64_t padded_count = 0;  // taps within the input and its pads
};

struct PoolShape {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, dilation{1, 1, 1};
  std::array<std::vector<TapRange>, 3> ranges;
  int64_t outer = 1, inner = 1, batch = 1, channels = 1;
  int64_t in_size() const { return in[0] * in[1] * in[2]; }
  int64_t out_size() const { return out[0] * out[1] * out[2]; }

  // `wide`: X or dX, `narrow`: Y or dY.
  PoolShape(const NodeView& n, const TensorView& wide, const TensorView& narrow);

  // f(flat input position, flat tap) for the taps of output position (a, b, c) that hit the input, in order.
  template <class F>
  void each_tap(int64_t a, int64_t b, int64_t c, F&& f) const {
    const TapRange &ra = ranges[0][size_t(a)], &rb = ranges[1][size_t(b)], &rc = ranges[2][size_t(c)];
    for (int64_t i = 0; i < ra.count; ++i)
      for (int64_t j = 0; j < rb.count; ++j) {
        const int64_t row = ((ra.at + i * dilation[0]) * in[1] + rb.at + j * dilation[1]) * in[2] + rc.at;
        const int64_t tap = ((ra.first + i) * kernel[1] + rb.first + j) * kernel[2] + rc.first;
        for (int64_t k = 0; k < rc.count; ++k) f(row + k * dilation[2], tap + k);
      }
  }
  int64_t valid_taps(int64_t a, int64_t b, int64_t c) const { return ranges[0][size_t(a)].count * ranges[1][size_t(b)].count * ranges[2][size_t(c)].count; }
  int64_t padded_taps(int64_t a, int64_t b, int64_t c) const {
    return ranges[0][size_t(a)].padded_count * ranges[1][size_t(b)].padded_count * ranges[2][size_t(c)].padded_count;
  }
};

// Dense row-major or channels-last, all operands alike.
std::string pool_can_run(const NodeView& n);

// Backward kernels, pool_grad.cpp.
std::unique_ptr<Kernel> create_max_pool_grad(const NodeView& n, int threads);
std::unique_ptr<Kernel> create_average_pool_grad(const NodeView& n, int threads);
std::unique_ptr<Kernel> create_lp_pool_grad(const NodeView& n, int threads);

}  // namespace eng::cpu
