// LayerNormalization, InstanceNormalization, GroupNormalization and NormGrad. Formulas: graph/ops/layer_norm.cpp.
// X is rows x length, row-major. Element j of row r has the scale of index j (a layer's), or of channel (r % groups) * channels +
// j / area. Threads take whole rows; dscale and dB are summed over rows in order, each by one thread.
#include <algorithm>
#include <cmath>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

struct Rows {
  int64_t rows = 1, length = 1;
  bool by_position = false;                 // a scale a position, else a scale a channel
  int64_t groups = 1, channels = 1, area = 1;  // a row holds `channels` channels of `area` values; a sample has `groups` rows
  double epsilon;

  Rows(const NodeView& n, const TensorView& x) : epsilon(n.attr_float("epsilon", 1e-5)) {
    const std::string form = n.domain().empty() ? std::string(n.op()) : n.attr_string("form", "");
    int64_t from = 2;
    by_position = form == "LayerNormalization";
    if (by_position) {
      from = n.attr_int("axis", -1);
      if (from < 0) from += x.rank();
      for (int64_t i = 0; i < x.rank(); ++i) (i < from ? rows : length) *= x.dim(i);
      return;
    }
    groups = form == "GroupNormalization" ? n.attr_int("num_groups", 1) : x.dim(1);
    channels = x.dim(1) / groups;
    for (int64_t i = 2; i < x.rank(); ++i) area *= x.dim(i);
    rows = x.dim(0) * groups;
    length = channels * area;
  }
  int64_t scales() const { return by_position ? length : groups * channels; }
};

template <class T>
struct Moments {
  T mean, inverse;
};
template <class T>
Moments<T> moments(const T* x, int64_t length, double epsilon) {
  double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += static_cast<double>(x[i]);
  const double mean = length ? sum / static_cast<double>(length) : 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < length; ++i) squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
  const double variance = length ? squares / static_cast<double>(length) : 0;
  return {static_cast<T>(mean), static_cast<T>(1 / std::sqrt(variance + epsilon))};
}

template <class T>
class Forward : public Kernel {
 public:
  explicit Forward(const NodeView& n) : r_(n, n.in(0)), bias_(n.in(2).present()), mean_(n.out(1).present()), inverse_(n.out(2).present()) {}
  void run(const RunContext& c) override {
    const T *x = c.in<T>(0), *scale = c.in<T>(1), *bias = bias_ ? c.in<T>(2) : nullptr;
    T* y = c.out<T>(0);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < r_.rows; ++row) {
      const T* from = x + row * r_.length;
      T* to = y + row * r_.length;
      const Moments<T> m = moments(from, r_.length, r_.epsilon);
      if (mean_) c.out<T>(1)[row] = m.mean;
      if (inverse_) c.out<T>(2)[row] = m.inverse;
      if (r_.by_position) {
        if (bias) for (int64_t i = 0; i < r_.length; ++i) to[i] = (from[i] - m.mean) * m.inverse * scale[i] + bias[i];
        else for (int64_t i = 0; i < r_.length; ++i) to[i] = (from[i] - m.mean) * m.inverse * scale[i];
        continue;
      }
      const int64_t first = row % r_.groups * r_.channels;
      for (int64_t ch = 0; ch < r_.channels; ++ch) {
        const T s = m.inverse * scale[first + ch], b = bias ? bias[first + ch] : T(0);
        for (int64_t i = ch * r_.area; i < (ch + 1) * r_.area; ++i) to[i] = (from[i] - m.mean) * s + b;
      }
    }
  }

 private:
  Rows r_;
  bool bias_, mean_, inverse_;
};

template <class T>
class Gradient : public Kernel {
 public:
  explicit Gradient(const NodeView& n) : r_(n, n.in(1)), dx_(n.out(0).present()), dscale_(n.out(1).present()), dbias_(n.out(2).present()) {}
  size_t workspace() const override { return (sizeof(Moments<T>) * static_cast<size_t>(r_.rows) + 63) / 64 * 64; }
  void run(const RunContext& c) override {
    const T *dy = c.in<T>(0), *x = c.in<T>(1), *scale = c.in<T>(2);
    auto* m = static_cast<Moments<T>*>(c.workspace);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < r_.rows; ++row) {
      m[row] = moments(x + row * r_.length, r_.length, r_.epsilon);
      if (dx_) row_gradient(dy + row * r_.length, x + row * r_.length, scale, row, m[row], c.out<T>(0) + row * r_.length);
    }
    if (dscale_ || dbias_) sums(dy, x, m, dscale_ ? c.out<T>(1) : nullptr, dbias_ ? c.out<T>(2) : nullptr);
  }

 private:
  void row_gradient(const T* dy, const T* x, const T* scale, int64_t row, Moments<T> m, T* dx) const {
    const T* s = r_.by_position ? scale : scale + row % r_.groups * r_.channels;
    const int64_t runs = r_.by_position ? 1 : r_.channels, run = r_.by_position ? r_.length : r_.area;
    const int64_t step = r_.by_position ? 1 : 0;  // of the scale within a run
    double sum = 0, product = 0;
    for (int64_t k = 0; k < runs; ++k)
#pragma omp simd reduction(+ : sum, product)
      for (int64_t i = 0; i < run; ++i) {
        const T g = dy[k * run + i] * s[k + i * step], h = (x[k * run + i] - m.mean) * m.inverse;
        sum += static_cast<double>(g);
        product += static_cast<double>(g) * static_cast<double>(h);
      }
    const T mean_g = static_cast<T>(sum / static_cast<double>(r_.length)), mean_gh = static_cast<T>(product / static_cast<double>(r_.length));
    for (int64_t k = 0; k < runs; ++k)
      for (int64_t i = 0; i < run; ++i) {
        const T g = dy[k * run + i] * s[k + i * step], h = (x[k * run + i] - m.mean) * m.inverse;
        dx[k * run + i] = m.inverse * (g - mean_g - h * mean_gh);
      }
  }
  // dscale = sum of dY h, dB = sum of dY, over what shares a scale.
  void sums(const T* dy, const T* x, const Moments<T>* m, T* dscale, T* dbias) const {
    if (r_.by_position) {
      constexpr int64_t kWidth = 64;
#pragma omp parallel for schedule(static)
      for (int64_t first = 0; first < r_.length; first += kWidth) {
        const int64_t count = std::min(kWidth, r_.length - first);
        double a[kWidth] = {}, b[kWidth] = {};
        for (int64_t row = 0; row < r_.rows; ++row) {
          const T *g = dy + row * r_.length + first, *v = x + row * r_.length + first;
          for (int64_t i = 0; i < count; ++i) {
            a[i] += static_cast<double>(g[i] * ((v[i] - m[row].mean) * m[row].inverse));
            b[i] += static_cast<double>(g[i]);
          }
        }
        for (int64_t i = 0; i < count; ++i) {
          if (dscale) dscale[first + i] = static_cast<T>(a[i]);
          if (dbias) dbias[first + i] = static_cast<T>(b[i]);
        }
      }
      return;
    }
    const int64_t scales = r_.scales(), samples = r_.rows / std::max<int64_t>(r_.groups, 1);
#pragma omp parallel for schedule(static)
    for (int64_t ch = 0; ch < scales; ++ch) {
      double a = 0, b = 0;
      for (int64_t n = 0; n < samples; ++n) {
        const Moments<T> mo = m[n * r_.groups + ch / r_.channels];
        const T *g = dy + (n * scales + ch) * r_.area, *v = x + (n * scales + ch) * r_.area;
#pragma omp simd reduction(+ : a, b)
        for (int64_t i = 0; i < r_.area; ++i) {
          a += static_cast<double>(g[i] * ((v[i] - mo.mean) * mo.inverse));
          b += static_cast<double>(g[i]);
        }
      }
      if (dscale) dscale[ch] = static_cast<T>(a);
      if (dbias) dbias[ch] = static_cast<T>(b);
    }
  }

  Rows r_;
  bool dx_, dscale_, dbias_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create<K>);
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<K<double>>(n);
  return std::make_unique<K<float>>(n);
}

}  // namespace

std::span<const KernelDef> layer_norm_kernels() {
  static const KernelDef defs[] = {
      {.op = "LayerNormalization", .name = "rows", .types = kFloats | kHalves, .create = create<Forward>},
      {.op = "InstanceNormalization", .name = "rows", .types = kFloats | kHalves, .create = create<Forward>},
      {.op = "GroupNormalization", .name = "rows", .types = kFloats | kHalves, .create = create<Forward>},
      {.domain = "ai.engine", .op = "NormGrad", .name = "rows", .types = kFloats | kHalves, .create = create<Gradient>},
  };
  return defs;
}

}  // namespace eng::cpu
