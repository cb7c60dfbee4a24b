// What the LSTM, GRU and RNN kernels share. All of them work like this: one product gives the input's part of the gates for all
// steps at once; each step adds the state's part (a small product) and applies the gates; backward runs the steps the other way and
// ends with one product each for dX, dW and dR. Padding (steps from a sample's length on) keeps the state and gives zeros,
// so both directions walk plain time. Arrays are time-major; batch-major operands (layout 1) are copied around the kernel.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/gemm.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {

struct Activation {
  enum Kind { kRelu, kTanh, kSigmoid, kAffine, kLeakyRelu, kThresholdedRelu, kScaledTanh, kHardSigmoid, kElu, kSoftsign, kSoftplus };
  Kind kind = kTanh;
  float alpha = 0, beta = 0;
};

template <class T>
T activate(const Activation& f, T x) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  switch (f.kind) {
    case Activation::kRelu: return x > 0 ? x : T(0);
    case Activation::kTanh: return fast_tanh(x);
    case Activation::kSigmoid: return fast_sigmoid(x);
    case Activation::kAffine: return a * x + b;
    case Activation::kLeakyRelu: return x >= 0 ? x : a * x;
    case Activation::kThresholdedRelu: return x > a ? x : T(0);
    case Activation::kScaledTanh: return a * fast_tanh(b * x);
    case Activation::kHardSigmoid: return std::min(T(1), std::max(T(0), a * x + b));
    case Activation::kElu: return x >= 0 ? x : a * (fast_exp(x) - T(1));
    case Activation::kSoftsign: return x / (T(1) + std::fabs(x));
    default: return softplus(x);
  }
}

// f's slope where its result is y.
template <class T>
T slope(const Activation& f, T y) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  switch (f.kind) {
    case Activation::kRelu: return y > 0 ? T(1) : T(0);
    case Activation::kTanh: return T(1) - y * y;
    case Activation::kSigmoid: return y * (T(1) - y);
    case Activation::kAffine: return a;
    case Activation::kLeakyRelu: return y >= 0 ? T(1) : a;
    case Activation::kThresholdedRelu: return y != 0 ? T(1) : T(0);
    case Activation::kScaledTanh: return a == 0 ? T(0) : a * b * (T(1) - y / a * (y / a));
    case Activation::kHardSigmoid: return y > 0 && y < 1 ? a : T(0);
    case Activation::kElu: return y >= 0 ? T(1) : y + a;
    case Activation::kSoftsign: return (T(1) - std::fabs(y)) * (T(1) - std::fabs(y));
    default: return T(1) - fast_exp(-y);
  }
}

// An activation behind the node's clip.
template <class T>
struct Clipped {
  Activation f;
  T bound = 0, low = 0, high = 0;  // bound 0: no clip; low and high: results at -bound and bound
  Clipped() = default;
  Clipped(const Activation& activation, double clip) : f(activation), bound(static_cast<T>(clip)) {
    if (clip > 0) {
      low = activate<T>(f, -bound);
      high = activate<T>(f, bound);
    }
  }
  T operator()(T x) const { return activate<T>(f, bound > 0 ? std::min(bound, std::max(-bound, x)) : x); }
  T slope_at(T y) const { return bound > 0 && (y == low || y == high) ? T(0) : slope<T>(f, y); }
};

struct Recurrent {
  int64_t steps = 0, batch = 0, input = 0, hidden = 0, directions = 0, rows = 0;  // rows: gates * hidden
  bool first_reversed = false;
  double clip = 0;
  std::vector<Activation> activations;  // per direction
  size_t per_direction = 0;
  uint32_t inputs = 0, outputs = 0;       // bit i: operand i is there

  // X, W, R are inputs 0, 1, 2, time-major. `defaults`: the activations of one direction.
  Recurrent(const NodeView& n, const std::vector<Activation::Kind>& defaults);
  bool reversed(int64_t direction) const { return direction == 1 || first_reversed; }
  // The i-th step in the order of a direction.
  int64_t time(int64_t direction, int64_t i) const { return reversed(direction) ? steps - 1 - i : i; }
  template <class T>
  Clipped<T> activation(int64_t direction, size_t i) const { return Clipped<T>(activations[static_cast<size_t>(direction) * per_direction + i], clip); }
  // Operands left out at the end of a node have no pointer: ask here, not the context.
  bool has_in(int i) const { return inputs >> i & 1; }
  bool has_out(int i) const { return outputs >> i & 1; }
  template <class T>
  const T* in(const RunContext& c, int i) const { return has_in(i) ? c.in<T>(i) : nullptr; }
  template <class T>
  T* out(const RunContext& c, int i) const { return has_out(i) ? c.out<T>(i) : nullptr; }
  bool default_activations(const std::vector<Activation::Kind>& defaults) const;
  int64_t cells() const { return steps * batch; }
};

inline bool is_valid(const int32_t* lens, int64_t sample, int64_t time) { return !lens || time < lens[sample]; }

// Bytes of a workspace handed out in 64-byte steps.
class WorkspacePlan {
 public:
  template <class T>
  size_t add(int64_t count) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};
template <class T>
T* part(void* workspace, size_t at) { return reinterpret_cast<T*>(static_cast<char*>(workspace) + at); }

// The batch cut into one run of samples a thread: a thread takes its samples through all steps on its own, so threads meet once a
// direction, not once a step.
struct SampleRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
std::vector<SampleRange> cut_batch(int64_t batch, int threads);

// The product of a step for each range; spec(m): for m samples.
template <class T>
class StepProducts {
 public:
  StepProducts() = default;
  template <class F>
  StepProducts(const std::vector<SampleRange>& ranges, F spec) {
    for (const SampleRange& r : ranges) each_.push_back(Gemm<T>::create(spec(r.size()), 1));
  }
  size_t workspace() const {
    size_t most = 0;
    for (const auto& g : each_) most = std::max(most, g->workspace());
    return (most + 63) / 64 * 64;
  }
  Gemm<T>& operator[](size_t i) const { return *each_[i]; }

 private:
  std::vector<std::unique_ptr<Gemm<T>>> each_;
};

// C [m, n] (rows ldc apart) = op(A) op(B), accumulated where asked.
GemmSpec product(int64_t m, int64_t n, int64_t k, MatrixStrides a, MatrixStrides b, int64_t ldc, bool accumulate = false, bool bias = false);

// to [columns, rows] = from [rows, columns] transposed.
template <class T>
void transpose(const T* from, T* to, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

// The state before each step of a direction, [steps, batch, hidden], from Y [steps, directions, batch, hidden] and the initial
// state (may be null); zeros in padding.
template <class T>
void previous_states(const Recurrent& s, int64_t direction, const T* y, const T* initial, const int32_t* lens, T* to) {
  const int64_t h = s.hidden;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < s.cells(); ++row) {
    const int64_t t = row / s.batch, b = row % s.batch, before = s.reversed(direction) ? t + 1 : t - 1;
    T* out = to + row * h;
    const bool inside = before >= 0 && before < s.steps && is_valid(lens, b, before);
    if (!is_valid(lens, b, t)) std::fill(out, out + h, T(0));
    else if (inside) std::copy_n(y + ((before * s.directions + direction) * s.batch + b) * h, h, out);
    else if (initial) std::copy_n(initial + (direction * s.batch + b) * h, h, out);
    else std::fill(out, out + h, T(0));
  }
}

// to[j] = sum of column j of m [rows, columns], rows ld apart, in runs of 64 rows added up in double.
template <class T>
void column_sums(const T* m, int64_t rows, int64_t columns, int64_t ld, T* to) {
  constexpr int64_t kBlock = 64, kRun = 64;
#pragma omp parallel for schedule(static)
  for (int64_t j0 = 0; j0 < columns; j0 += kBlock) {
    const int64_t width = std::min(kBlock, columns - j0);
    double sum[kBlock] = {};
    for (int64_t i0 = 0; i0 < rows; i0 += kRun) {
      T run[kBlock] = {};
      for (int64_t i = i0, end = std::min(rows, i0 + kRun); i < end; ++i)
        for (int64_t j = 0; j < width; ++j) run[j] += m[i * ld + j0 + j];
      for (int64_t j = 0; j < width; ++j) sum[j] += static_cast<double>(run[j]);
    }
    for (int64_t j = 0; j < width; ++j) to[j0 + j] = static_cast<T>(sum[j]);
  }
}

// A kernel for layout 1 around one for layout 0: the listed operands are copied to and from time-major order. `pairs`: X and states,
// whose first two axes change places; `y`: [batch, steps, directions, hidden]. create makes the inner kernel from the time-major node.
using CreateKernel = std::unique_ptr<Kernel> (*)(const NodeView&, int threads);
struct BatchMajorOperands {
  std::vector<int> pair_inputs, y_inputs, pair_outputs, y_outputs;
};
std::unique_ptr<Kernel> create_batch_major(const NodeView& n, int threads, const BatchMajorOperands& which, CreateKernel create);

}  // namespace eng::cpu
