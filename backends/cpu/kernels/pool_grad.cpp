// Gradients of the pools (pool_shape.h). Windows overlap, so a thread takes whole planes: one outer index and up to kWidth
// channels, clears them in dX and adds in the order of the outputs. No two threads touch one element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/pool_shape.h"

namespace eng::cpu {
namespace {

constexpr int64_t kWidth = 64;

// scatter(outer index, first channel, channels, dX of that outer index) after clearing.
template <class T, class F>
void each_plane(const PoolShape& s, T* dx, F&& scatter) {
  const int64_t blocks = (s.inner + kWidth - 1) / kWidth, tasks = s.outer * blocks;
#pragma omp parallel for schedule(static)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t o = task / blocks, first = task % blocks * kWidth, count = std::min(kWidth, s.inner - first);
    T* to = dx + o * s.in_size() * s.inner;
    for (int64_t p = 0; p < s.in_size(); ++p) std::fill_n(to + p * s.inner + first, count, T(0));
    for (int64_t a = 0; a < s.out[0]; ++a)
      for (int64_t b = 0; b < s.out[1]; ++b)
        for (int64_t c = 0; c < s.out[2]; ++c) scatter(o, first, count, to, a, b, c);
  }
}

template <class T>
class MaxPoolGrad : public Kernel {
 public:
  MaxPoolGrad(const NodeView& n, int) : s_(n, n.in(1), n.in(0)) {}
  void run(const RunContext& c) override {
    const T *dy = c.in<T>(0), *x = c.in<T>(1);
    each_plane(s_, c.out<T>(0), [&](int64_t o, int64_t first, int64_t count, T* dx, int64_t a, int64_t b, int64_t k) {
      const T* from = x + o * s_.in_size() * s_.inner + first;
      const T* g = dy + (o * s_.out_size() + (a * s_.out[1] + b) * s_.out[2] + k) * s_.inner + first;
      T best[kWidth];
      int32_t winner[kWidth];
      std::fill_n(best, count, -std::numeric_limits<T>::infinity());
      std::fill_n(winner, count, -1);
      s_.each_tap(a, b, k, [&](int64_t at, int64_t tap) {
        const T* p = from + at * s_.inner;
        const int32_t t = static_cast<int32_t>(tap);
        for (int64_t i = 0; i < count; ++i) {
          const bool beats = p[i] > best[i] || p[i] != p[i] || winner[i] < 0;
          best[i] = beats ? p[i] : best[i];
          winner[i] = beats ? t : winner[i];
        }
      });
      s_.each_tap(a, b, k, [&](int64_t at, int64_t tap) {
        T* q = dx + at * s_.inner + first;
        const int32_t t = static_cast<int32_t>(tap);
        for (int64_t i = 0; i < count; ++i) q[i] += winner[i] == t ? g[i] : T(0);
      });
    });
  }

 private:
  PoolShape s_;
};

template <class T>
class AveragePoolGrad : public Kernel {
 public:
  AveragePoolGrad(const NodeView& n, int) : s_(n, n.out(0), n.in(0)), with_pads_(n.attr_int("count_include_pad", 0) != 0) {}
  void run(const RunContext& c) override {
    const T* dy = c.in<T>(0);
    each_plane(s_, c.out<T>(0), [&](int64_t o, int64_t first, int64_t count, T* dx, int64_t a, int64_t b, int64_t k) {
      const T* g = dy + (o * s_.out_size() + (a * s_.out[1] + b) * s_.out[2] + k) * s_.inner + first;
      const T share = T(1) / static_cast<T>(with_pads_ ? s_.padded_taps(a, b, k) : s_.valid_taps(a, b, k));
      T part[kWidth];
      for (int64_t i = 0; i < count; ++i) part[i] = g[i] * share;
      s_.each_tap(a, b, k, [&](int64_t at, int64_t) {
        T* q = dx + at * s_.inner + first;
        for (int64_t i = 0; i < count; ++i) q[i] += part[i];
      });
    });
  }

 private:
  PoolShape s_;
  bool with_pads_;
};

template <class T>
class LpPoolGrad : public Kernel {
 public:
  LpPoolGrad(const NodeView& n, int) : s_(n, n.in(1), n.in(0)), p_(static_cast<T>(n.attr_int("p", 2))) {}
  void run(const RunContext& c) override {
    const T *dy = c.in<T>(0), *x = c.in<T>(1), *y = c.in<T>(2);
    each_plane(s_, c.out<T>(0), [&](int64_t o, int64_t first, int64_t count, T* dx, int64_t a, int64_t b, int64_t k) {
      const int64_t from = (o * s_.out_size() + (a * s_.out[1] + b) * s_.out[2] + k) * s_.inner + first;
      for (int64_t i = 0; i < count; ++i) {
        const T norm = y[from + i];
        if (norm == T(0)) continue;
        s_.each_tap(a, b, k, [&](int64_t at, int64_t) {
          const T v = x[(o * s_.in_size() + at) * s_.inner + first + i];
          if (v != T(0)) dx[at * s_.inner + first + i] += dy[from + i] * std::copysign(std::pow(std::fabs(v) / norm, p_ - T(1)), v);
        });
      }
    });
  }

 private:
  PoolShape s_;
  T p_;
};

template <template <class> class K>
std::unique_ptr<Kernel> make(const NodeView& n, int threads) {
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n, threads);
  return std::make_unique<K<float>>(n, threads);
}

}  // namespace

std::unique_ptr<Kernel> create_max_pool_grad(const NodeView& n, int threads) { return make<MaxPoolGrad>(n, threads); }
std::unique_ptr<Kernel> create_average_pool_grad(const NodeView& n, int threads) { return make<AveragePoolGrad>(n, threads); }
std::unique_ptr<Kernel> create_lp_pool_grad(const NodeView& n, int threads) { return make<LpPoolGrad>(n, threads); }

}  // namespace eng::cpu
