// LRN and LRNGrad. A task is kLanes positions of one sample: their channels are gathered into [channel][lane] rows in the thread's
// part of the workspace, so that the loops over lanes vectorise in either layout. Formulas: graph/ops/lrn.cpp.
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

constexpr int64_t kLanes = 16;

template <class T>
class Lrn : public Kernel {
 public:
  Lrn(const NodeView& n, int threads, bool gradient)
      : gradient_(gradient), threads_(std::max(threads, 1)), size_(n.attr_int("size", 1)), bias_(static_cast<T>(n.attr_float("bias", 1))),
        beta_(static_cast<T>(n.attr_float("beta", 0.75))) {
    const TensorView& x = n.in(0);
    scale_ = static_cast<T>(n.attr_float("alpha", 1e-4) / static_cast<double>(size_));
    batch_ = x.dims[0];
    channels_ = x.dims[1];
    for (size_t i = 2; i < x.dims.size(); ++i) area_ *= x.dims[i];
    const bool last = x.channels_last();
    channel_stride_ = last ? 1 : area_;
    position_stride_ = last ? channels_ : 1;
  }
  size_t workspace() const override { return static_cast<size_t>(threads_) * slice(); }

  void run(const RunContext& c) override {
    const int64_t blocks = (area_ + kLanes - 1) / kLanes, tasks = batch_ * blocks;
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t first = task % blocks * kLanes, count = std::min(kLanes, area_ - first);
      const int64_t base = task / blocks * channels_ * area_ + first * position_stride_;
      T* space = reinterpret_cast<T*>(static_cast<char*>(c.workspace) + static_cast<size_t>(omp_get_thread_num()) * slice());
      if (gradient_) backward(c.in<T>(0), c.in<T>(1), c.out<T>(0), base, count, space);
      else forward(c.in<T>(0), c.out<T>(0), base, count, space);
    }
  }

 private:
  int64_t row() const { return channels_ * kLanes; }
  size_t slice() const { return (static_cast<size_t>(4 * row()) * sizeof(T) + 63) / 64 * 64; }
  int64_t low() const { return (size_ - 1) / 2; }            // channels before c in its window
  int64_t high() const { return size_ - 1 - (size_ - 1) / 2; }  // channels after it

  void gather(T* to, const T* from, int64_t base, int64_t count) const {
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < kLanes; ++i) to[c * kLanes + i] = i < count ? from[base + c * channel_stride_ + i * position_stride_] : T(0);
  }
  // to[c] = sum of from[c - before .. c + after]
  void window_sum(T* to, const T* from, int64_t before, int64_t after) const {
    for (int64_t c = 0; c < channels_; ++c) {
      T sum[kLanes] = {};
      for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels_ - 1, c + after); ++k)
        for (int64_t i = 0; i < kLanes; ++i) sum[i] += from[k * kLanes + i];
      std::copy_n(sum, kLanes, to + c * kLanes);
    }
  }
  // s from x: squares goes through `scratch`.
  void denominators(T* s, const T* x, T* scratch) const {
    for (int64_t i = 0; i < row(); ++i) scratch[i] = x[i] * x[i];
    window_sum(s, scratch, low(), high());
    for (int64_t i = 0; i < row(); ++i) s[i] = bias_ + scale_ * s[i];
  }
  T power(T s) const { return beta_ == T(0.75) ? T(1) / (std::sqrt(s) * std::sqrt(std::sqrt(s))) : std::pow(s, -beta_); }

  void forward(const T* x, T* y, int64_t base, int64_t count, T* space) const {
    T *xs = space, *s = space + row(), *scratch = s + row();
    gather(xs, x, base, count);
    denominators(s, xs, scratch);
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < count; ++i) y[base + c * channel_stride_ + i * position_stride_] = xs[c * kLanes + i] * power(s[c * kLanes + i]);
  }
  void backward(const T* dy, const T* x, T* dx, int64_t base, int64_t count, T* space) const {
    T *xs = space, *s = space + row(), *scratch = s + row(), *g = scratch + row();
    gather(xs, x, base, count);
    denominators(s, xs, scratch);
    gather(g, dy, base, count);
    for (int64_t i = 0; i < row(); ++i) {
      g[i] *= power(s[i]);
      scratch[i] = g[i] * xs[i] / s[i];
    }
    window_sum(s, scratch, high(), low());  // the windows that hold c are those of channels c - high .. c + low
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t k = c * kLanes + i;
        dx[base + c * channel_stride_ + i * position_stride_] = g[k] - 2 * scale_ * beta_ * xs[k] * s[k];
      }
  }

  bool gradient_;
  int threads_;
  int64_t size_, batch_ = 1, channels_ = 1, area_ = 1, channel_stride_ = 1, position_stride_ = 1;
  T bias_, beta_, scale_;
};

template <bool kGradient>
std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<Lrn<double>>(n, threads, kGradient);
  return std::make_unique<Lrn<float>>(n, threads, kGradient);
}

}  // namespace

std::span<const KernelDef> lrn_kernels() {
  static const KernelDef defs[] = {
      {.op = "LRN", .name = "lanes", .types = kFloats, .can_run = require_same_layout, .create = create<false>},
      {.domain = "ai.engine", .op = "LRNGrad", .name = "lanes", .types = kFloats, .can_run = require_same_layout, .create = create<true>},
  };
  return defs;
}

}  // namespace eng::cpu
