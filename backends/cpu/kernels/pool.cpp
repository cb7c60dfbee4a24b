// MaxPool, AveragePool, LpPool and their global forms. Operands as in pool_shape.h: the inner loop runs over channels where
// the layout is channels-last. Output rows are spread over the threads; nothing is summed across threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/pool_shape.h"

namespace eng::cpu {

PoolShape::PoolShape(const NodeView& n, const TensorView& wide, const TensorView& narrow) {
  const size_t axes = wide.dims.size() - 2, lead = 3 - axes;
  const bool global = n.op().substr(0, 6) == "Global";
  std::vector<int64_t> size = global ? std::vector<int64_t>(wide.dims.begin() + 2, wide.dims.end()) : n.attr_ints("kernel_shape");
  const Window w = read_window(n, wide, narrow, size);
  for (auto& r : ranges) r.assign(1, TapRange{0, 1, 0, 1});
  for (size_t i = 0; i < axes; ++i) {
    in[lead + i] = wide.dims[i + 2];
    out[lead + i] = narrow.dims[i + 2];
    kernel[lead + i] = w.kernel[i];
    dilation[lead + i] = w.dilations[i];
    auto& list = ranges[lead + i];
    list.assign(static_cast<size_t>(narrow.dims[i + 2]), TapRange{});
    for (int64_t o = 0; o < narrow.dims[i + 2]; ++o) {
      TapRange& r = list[static_cast<size_t>(o)];
      const int64_t start = o * w.strides[i] - w.begin[i];
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        const int64_t at = start + k * w.dilations[i];
        if (at < wide.dims[i + 2] + w.end[i]) ++r.padded_count;
        if (at < 0 || at >= wide.dims[i + 2]) continue;
        if (r.count++ == 0) r.first = k, r.at = at;
      }
    }
  }
  batch = wide.dims[0];
  channels = wide.dims[1];
  const bool last = wide.channels_last() && narrow.channels_last();
  outer = last ? batch : batch * channels;
  inner = last ? channels : 1;
}

std::string pool_can_run(const NodeView& n) {
  bool row = true, last = true;
  for (int i = 0; i < n.input_count(); ++i) row &= n.in(i).row_major(), last &= n.in(i).channels_last();
  for (int i = 0; i < n.output_count(); ++i)
    if (n.out(i).present()) row &= n.out(i).row_major(), last &= n.out(i).channels_last();
  return row || last ? "" : "operands are neither all row-major nor all channels-last";
}

namespace {

constexpr int64_t kWidth = 64;  // channels that a block of the inner loop holds in local arrays

// f(outer index, a, b, c) for every output position, spread over the threads.
template <class F>
void each_output(const PoolShape& s, F&& f) {
  const int64_t rows = s.outer * s.out[0] * s.out[1];
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t b = r % s.out[1], a = r / s.out[1] % s.out[0], o = r / s.out[1] / s.out[0];
    for (int64_t c = 0; c < s.out[2]; ++c) f(o, a, b, c);
  }
}
int64_t flat(const PoolShape& s, int64_t a, int64_t b, int64_t c) { return (a * s.out[1] + b) * s.out[2] + c; }

template <class T>
T lowest() { return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest(); }

// A NaN in the window is the maximum.
template <class T>
bool beats(T v, T best) { return v > best || v != v; }

template <class T>
class MaxPool : public Kernel {
 public:
  MaxPool(const NodeView& n, int) : s_(n, n.in(0), n.out(0)), indices_(n.out(1).present()), column_major_(n.attr_int("storage_order", 0) != 0) {}
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    T* y = c.out<T>(0);
    if (indices_) return run_with_indices(x, y, c.out<int64_t>(1));
    const int64_t width = s_.inner;
    each_output(s_, [&](int64_t o, int64_t a, int64_t b, int64_t k) {
      T* to = y + (o * s_.out_size() + flat(s_, a, b, k)) * width;
      const T* from = x + o * s_.in_size() * width;
      for (int64_t i = 0; i < width; ++i) to[i] = lowest<T>();
      s_.each_tap(a, b, k, [&](int64_t at, int64_t) {
        const T* p = from + at * width;
        for (int64_t i = 0; i < width; ++i) to[i] = beats(p[i], to[i]) ? p[i] : to[i];
      });
    });
  }

 private:
  void run_with_indices(const T* x, T* y, int64_t* index) {
    each_output(s_, [&](int64_t o, int64_t a, int64_t b, int64_t k) {
      const int64_t to = (o * s_.out_size() + flat(s_, a, b, k)) * s_.inner;
      for (int64_t i = 0; i < s_.inner; ++i) {
        T best = lowest<T>();
        int64_t where = -1;
        s_.each_tap(a, b, k, [&](int64_t at, int64_t) {
          const T v = x[(o * s_.in_size() + at) * s_.inner + i];
          if (where < 0 || beats(v, best)) best = v, where = at;
        });
        y[to + i] = best;
        index[to + i] = (s_.inner == 1 ? o : o * s_.channels + i) * s_.in_size() + ordered(where);
      }
    });
  }
  // The flat position within a channel; storage_order 1 counts the last axis slowest.
  int64_t ordered(int64_t at) const {
    if (!column_major_) return at;
    const int64_t c = at % s_.in[2], b = at / s_.in[2] % s_.in[1], a = at / s_.in[2] / s_.in[1];
    return (c * s_.in[1] + b) * s_.in[0] + a;
  }

  PoolShape s_;
  bool indices_, column_major_;
};

template <class T>
class AveragePool : public Kernel {
 public:
  AveragePool(const NodeView& n, int) : s_(n, n.in(0), n.out(0)), with_pads_(n.attr_int("count_include_pad", 0) != 0) {}
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    T* y = c.out<T>(0);
    const int64_t width = s_.inner;
    each_output(s_, [&](int64_t o, int64_t a, int64_t b, int64_t k) {
      T* to = y + (o * s_.out_size() + flat(s_, a, b, k)) * width;
      const T* from = x + o * s_.in_size() * width;
      const T share = T(1) / static_cast<T>(with_pads_ ? s_.padded_taps(a, b, k) : s_.valid_taps(a, b, k));
      for (int64_t first = 0; first < width; first += kWidth) {
        const int64_t count = std::min(kWidth, width - first);
        T sum[kWidth] = {};
        s_.each_tap(a, b, k, [&](int64_t at, int64_t) {
          const T* p = from + at * width + first;
          for (int64_t i = 0; i < count; ++i) sum[i] += p[i];
        });
        for (int64_t i = 0; i < count; ++i) to[first + i] = sum[i] * share;
      }
    });
  }

 private:
  PoolShape s_;
  bool with_pads_;
};

template <class T>
class LpPool : public Kernel {
 public:
  LpPool(const NodeView& n, int) : s_(n, n.in(0), n.out(0)), p_(static_cast<T>(n.attr_int("p", 2))) {}
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    T* y = c.out<T>(0);
    each_output(s_, [&](int64_t o, int64_t a, int64_t b, int64_t k) {
      for (int64_t i = 0; i < s_.inner; ++i) {
        T sum = 0;
        s_.each_tap(a, b, k, [&](int64_t at, int64_t) { sum += std::pow(std::fabs(x[(o * s_.in_size() + at) * s_.inner + i]), p_); });
        y[(o * s_.out_size() + flat(s_, a, b, k)) * s_.inner + i] = std::pow(sum, T(1) / p_);
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
std::unique_ptr<Kernel> make_max(const NodeView& n, int threads) {
  if (n.in(0).dtype == EB_INT8) return std::make_unique<MaxPool<int8_t>>(n, threads);
  if (n.in(0).dtype == EB_UINT8) return std::make_unique<MaxPool<uint8_t>>(n, threads);
  return make<MaxPool>(n, threads);
}

}  // namespace

std::span<const KernelDef> pool_kernels() {
  constexpr uint64_t kMaxTypes = kFloats | type_bit(EB_INT8) | type_bit(EB_UINT8);
  static const KernelDef defs[] = {
      {.op = "MaxPool", .name = "taps", .types = kMaxTypes, .can_run = pool_can_run, .create = make_max},
      {.op = "GlobalMaxPool", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = make<MaxPool>},
      {.op = "AveragePool", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = make<AveragePool>},
      {.op = "GlobalAveragePool", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = make<AveragePool>},
      {.op = "LpPool", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = make<LpPool>},
      {.op = "GlobalLpPool", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = make<LpPool>},
      {.domain = "ai.engine", .op = "MaxPoolGrad", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = create_max_pool_grad},
      {.domain = "ai.engine", .op = "AveragePoolGrad", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = create_average_pool_grad},
      {.domain = "ai.engine", .op = "LpPoolGrad", .name = "taps", .types = kFloats, .can_run = pool_can_run, .create = create_lp_pool_grad},
  };
  return defs;
}

}  // namespace eng::cpu
