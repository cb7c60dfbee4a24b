// Softmax, LogSoftmax, Hardmax and the gradients, over any axis in any layout. The tensor is seen as lines along the axis.
// Lines whose elements touch are done one by one with vector code along the line; else up to kTile neighbouring lines go
// together, vector code across them.
#include <cmath>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {
namespace {

enum class Mode : uint8_t { kSoftmax, kLogSoftmax, kHardmax };

// One line with elements side by side.
template <class T>
void forward_line(Mode mode, T* y, const T* x, int64_t n) {
  T most = x[0];
  for (int64_t k = 1; k < n; ++k) most = x[k] > most ? x[k] : most;
  double sum = 0;
  if (mode == Mode::kSoftmax) {
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; ++k) {
      const T e = fast_exp(x[k] - most);
      y[k] = e;
      sum += static_cast<double>(e);
    }
    const T scale = static_cast<T>(1 / sum);
    for (int64_t k = 0; k < n; ++k) y[k] *= scale;
    return;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(fast_exp(x[k] - most));
  const T log_sum = static_cast<T>(std::log(sum));
  for (int64_t k = 0; k < n; ++k) y[k] = x[k] - most - log_sum;
}

template <class T>
void backward_line(Mode mode, T* dx, const T* dy, const T* y, int64_t n) {
  double sum = 0;
  if (mode == Mode::kSoftmax) {
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(dy[k]) * static_cast<double>(y[k]);
    const T s = static_cast<T>(sum);
    for (int64_t k = 0; k < n; ++k) dx[k] = y[k] * (dy[k] - s);
    return;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < n; ++k) sum += static_cast<double>(dy[k]);
  const T s = static_cast<T>(sum);
  for (int64_t k = 0; k < n; ++k) dx[k] = dy[k] - fast_exp(y[k]) * s;
}

constexpr int64_t kTile = 64;

// `lines` neighbouring lines; element k of line j at k * along + j * step. Steps per operand: output first.
template <class T>
void forward_tile(Mode mode, T* y, const T* x, int64_t n, int64_t ya, int64_t ys, int64_t xa, int64_t xs, int64_t lines) {
  T most[kTile];
  double sum[kTile];
  for (int64_t j = 0; j < lines; ++j) most[j] = x[j * xs], sum[j] = 0;
  for (int64_t k = 1; k < n; ++k)
    for (int64_t j = 0; j < lines; ++j) most[j] = x[k * xa + j * xs] > most[j] ? x[k * xa + j * xs] : most[j];
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < lines; ++j) sum[j] += static_cast<double>(fast_exp(x[k * xa + j * xs] - most[j]));
  T fix[kTile];
  for (int64_t j = 0; j < lines; ++j) fix[j] = static_cast<T>(mode == Mode::kSoftmax ? 1 / sum[j] : std::log(sum[j]));
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < lines; ++j) {
      const T d = x[k * xa + j * xs] - most[j];
      y[k * ya + j * ys] = mode == Mode::kSoftmax ? fast_exp(d) * fix[j] : d - fix[j];
    }
}

template <class T>
void hard_line(T* y, const T* x, int64_t n, int64_t ya, int64_t xa) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; ++k)
    if (x[k * xa] > x[best * xa]) best = k;
  for (int64_t k = 0; k < n; ++k) y[k * ya] = k == best ? T(1) : T(0);
}

template <class T>
void backward_tile(Mode mode, T* dx, const T* dy, const T* y, int64_t n, const int64_t* along, const int64_t* step, int64_t lines) {
  double sum[kTile] = {};
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < lines; ++j) {
      const double d = static_cast<double>(dy[k * along[1] + j * step[1]]);
      sum[j] += mode == Mode::kSoftmax ? d * static_cast<double>(y[k * along[2] + j * step[2]]) : d;
    }
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < lines; ++j) {
      const T d = dy[k * along[1] + j * step[1]], v = y[k * along[2] + j * step[2]], s = static_cast<T>(sum[j]);
      dx[k * along[0] + j * step[0]] = mode == Mode::kSoftmax ? v * (d - s) : d - fast_exp(v) * s;
    }
}

int64_t axis_of(const NodeView& n) {
  const int64_t axis = n.attr_int("axis", -1);
  return axis < 0 ? axis + n.in(0).rank() : axis;
}

template <class T>
class Softmax : public Kernel {
 public:
  Softmax(const NodeView& n, Mode mode) : mode_(mode), classes_(n.in(0).dim(axis_of(n))) {
    loop_ = make_loop_without_axis({&n.out(0), &n.in(0)}, axis_of(n), &along_);
  }
  void run(const RunContext& c) override {
    if (classes_ == 0) return;
    T* y = c.out<T>(0);
    const T* x = c.in<T>(0);
    const int64_t ys = loop_.step(0), xs = loop_.step(1), ya = along_[0], xa = along_[1];
    for_rows<2>(loop_, classes_ * 8, [&](const Offsets& at, int64_t lines) {
      T* const to = y + at[0];
      const T* const from = x + at[1];
      if (mode_ == Mode::kHardmax) {
        for (int64_t j = 0; j < lines; ++j) hard_line(to + j * ys, from + j * xs, classes_, ya, xa);
      } else if (ya == 1 && xa == 1) {
        for (int64_t j = 0; j < lines; ++j) forward_line(mode_, to + j * ys, from + j * xs, classes_);
      } else {
        for (int64_t j = 0; j < lines; j += kTile)
          forward_tile(mode_, to + j * ys, from + j * xs, classes_, ya, ys, xa, xs, std::min(kTile, lines - j));
      }
    });
  }

 private:
  Mode mode_;
  int64_t classes_;
  Loop loop_;
  std::vector<int64_t> along_;
};

template <class T>
class SoftmaxGrad : public Kernel {
 public:
  SoftmaxGrad(const NodeView& n, Mode mode) : mode_(mode), classes_(n.in(0).dim(axis_of(n))) {
    loop_ = make_loop_without_axis({&n.out(0), &n.in(0), &n.in(1)}, axis_of(n), &along_);
  }
  void run(const RunContext& c) override {
    T* dx = c.out<T>(0);
    const T *dy = c.in<T>(0), *y = c.in<T>(1);
    const int64_t step[] = {loop_.step(0), loop_.step(1), loop_.step(2)};
    const bool side_by_side = along_[0] == 1 && along_[1] == 1 && along_[2] == 1;
    for_rows<3>(loop_, classes_ * 4, [&](const Offsets& at, int64_t lines) {
      for (int64_t j = 0; j < lines; j += side_by_side ? 1 : kTile) {
        T* const to = dx + at[0] + j * step[0];
        const T *const d = dy + at[1] + j * step[1], *const v = y + at[2] + j * step[2];
        if (side_by_side) backward_line(mode_, to, d, v, classes_);
        else backward_tile(mode_, to, d, v, classes_, along_.data(), step, std::min(kTile, lines - j));
      }
    });
  }

 private:
  Mode mode_;
  int64_t classes_;
  Loop loop_;
  std::vector<int64_t> along_;
};

// Softmax in 16 bits is ONNX's function body (Sub, Exp, ReduceSum, Div), each of whose results is rounded, in bfloat16 as NumPy does
// each addition of the sum too; row-major.
class HalfSoftmax : public Kernel {
 public:
  explicit HalfSoftmax(const NodeView& n) : type_(n.in(0).dtype) {
    const TensorView& x = n.in(0);
    int64_t axis = n.attr_int("axis", -1);
    if (axis < 0) axis += x.rank();
    for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? outer_ : d > axis ? inner_ : extent_) *= x.dim(d);
  }
  void run(const RunContext& c) override {
#pragma omp parallel for schedule(static) if (outer_ * inner_ * extent_ > 32768)
    for (int64_t line = 0; line < outer_ * inner_; ++line) {
      const int64_t start = line / inner_ * extent_ * inner_ + line % inner_;
      one_line(c.in<uint16_t>(0) + start, c.out<uint16_t>(0) + start);
    }
  }

 private:
  float value(uint16_t bits) const {
    float f;
    widen(&f, &bits, 1, type_);
    return f;
  }
  uint16_t rounded(float f) const {
    uint16_t bits;
    narrow(&bits, &f, 1, type_);
    return bits;
  }
  void one_line(const uint16_t* x, uint16_t* y) const {
    float most = value(x[0]), sum = 0;
    for (int64_t k = 1; k < extent_; ++k) most = std::max(most, value(x[k * inner_]));
    for (int64_t k = 0; k < extent_; ++k) {
      y[k * inner_] = rounded(fast_exp(value(rounded(value(x[k * inner_]) - most))));
      sum += value(y[k * inner_]);
      if (type_ == EB_BFLOAT16) sum = value(rounded(sum));
    }
    sum = value(rounded(sum));
    for (int64_t k = 0; k < extent_; ++k) y[k * inner_] = rounded(value(y[k * inner_]) / sum);
  }
  int32_t type_;
  int64_t outer_ = 1, extent_ = 1, inner_ = 1;
};

template <template <class> class K, Mode mode>
std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  if (mode == Mode::kSoftmax && n.op() == "Softmax" && is_half(n.in(0).dtype) && n.in(0).row_major() && n.out(0).row_major())
    return std::make_unique<HalfSoftmax>(n);
  if (has_half(n)) return create_widened(n, threads, create<K, mode>);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n, mode); });
  return k;
}

}  // namespace

std::span<const KernelDef> softmax_kernels() {
  constexpr uint64_t floats = kFloats | kHalves;
  static const KernelDef defs[] = {
      {.op = "Softmax", .types = floats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create<Softmax, Mode::kSoftmax>},
      {.op = "LogSoftmax", .types = floats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create<Softmax, Mode::kLogSoftmax>},
      {.op = "Hardmax", .types = floats, .can_run = any_layout, .create = create<Softmax, Mode::kHardmax>},
      {.domain = "ai.engine", .op = "SoftmaxGrad", .types = floats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout,
       .create = create<SoftmaxGrad, Mode::kSoftmax>},
      {.domain = "ai.engine", .op = "LogSoftmaxGrad", .types = floats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout,
       .create = create<SoftmaxGrad, Mode::kLogSoftmax>},
  };
  return defs;
}

}  // namespace eng::cpu
