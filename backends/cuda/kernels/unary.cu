// Functions of one operand in any layout, and Clip. A row of a table is one operator: x is the element, a and b two attributes. The function
// is a branch of one kernel, taken by all threads alike; common functions are apart from those that need many registers.
// The gradients are unary_grad.cu's.
#include <cmath>

#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

// X(operator, its formula, attribute a, its default, attribute b, its default)
#define ENG_COMMON(X) \
  X(Relu, x > T(0) ? x : (x != x ? x : T(0)), "", 0, "", 0) \
  X(LeakyRelu, x < T(0) ? a * x : x, "alpha", 0.01f, "", 0) \
  X(Sigmoid, T(1) / (T(1) + std::exp(-x)), "", 0, "", 0) \
  X(Tanh, std::tanh(x), "", 0, "", 0) \
  X(HardSigmoid, unit(a * x + b), "alpha", 0.2f, "beta", 0.5f) \
  X(HardSwish, x * unit(x * T(1.0 / 6.0) + T(0.5)), "", 0, "", 0) \
  X(Exp, std::exp(x), "", 0, "", 0) \
  X(Log, std::log(x), "", 0, "", 0) \
  X(Sqrt, std::sqrt(x), "", 0, "", 0) \
  X(Reciprocal, T(1) / x, "", 0, "", 0) \
  X(Neg, -x, "", 0, "", 0) \
  X(Abs, std::fabs(x), "", 0, "", 0) \
  X(Sign, x > T(0) ? T(1) : (x < T(0) ? T(-1) : (x != x ? x : T(0))), "", 0, "", 0) \
  X(Floor, std::floor(x), "", 0, "", 0) \
  X(Ceil, std::ceil(x), "", 0, "", 0) \
  X(Round, std::rint(x), "", 0, "", 0)

#define ENG_RARE(X) \
  X(Elu, x < T(0) ? a * std::expm1(x) : x, "alpha", 1.0f, "", 0) \
  X(Selu, b * (x < T(0) ? a * std::expm1(x) : x), "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f) \
  X(Celu, x < T(0) ? a * std::expm1(x / a) : x, "alpha", 1.0f, "", 0) \
  X(ThresholdedRelu, x > a ? x : T(0), "alpha", 1.0f, "", 0) \
  X(Softplus, softplus(x), "", 0, "", 0) \
  X(Softsign, x / (T(1) + std::fabs(x)), "", 0, "", 0) \
  X(Mish, x * std::tanh(softplus(x)), "", 0, "", 0) \
  X(Erf, std::erf(x), "", 0, "", 0)

namespace eng::cuda {
namespace {

template <class T> __device__ T unit(T x) { return x < T(0) ? T(0) : (x > T(1) ? T(1) : x); }
template <class T> __device__ T softplus(T x) { return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::fabs(x))); }

enum class Function : int32_t {
#define ENG_NAME(NAME, ...) k##NAME,
  ENG_COMMON(ENG_NAME) ENG_RARE(ENG_NAME)
#undef ENG_NAME
};

struct Row {
  const char* op;
  Function function;
  bool rare;
  const char* a;
  float a_default;
  const char* b;
  float b_default;
};
#define ENG_ROW(NAME, FORMULA, A, A0, B, B0) {#NAME, Function::k##NAME, false, A, A0, B, B0},
#define ENG_RARE_ROW(NAME, FORMULA, A, A0, B, B0) {#NAME, Function::k##NAME, true, A, A0, B, B0},
constexpr Row kRows[] = {ENG_COMMON(ENG_ROW) ENG_RARE(ENG_RARE_ROW)};
#undef ENG_ROW
#undef ENG_RARE_ROW

template <class T, bool kRare>
struct Unary {
  Loop<2> loop;
  T* y;
  const T* operand;
  Function function;
  T a, b;
  __device__ T value(T x) const {
#define ENG_CASE(NAME, FORMULA, ...) \
  case Function::k##NAME: return T(FORMULA);
    if constexpr (kRare) {
      switch (function) {
        ENG_RARE(ENG_CASE)
        default: return x;
      }
    } else {
      switch (function) {
        ENG_COMMON(ENG_CASE)
        default: return x;
      }
    }
#undef ENG_CASE
  }
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    loop.at(i, at);
    y[at[0]] = value(operand[at[1]]);
  }
};

template <class T>
class UnaryKernel : public Kernel {
 public:
  explicit UnaryKernel(const NodeView& n) : loop_(loop_over<2>({&n.out(0), &n.in(0)})) {
    for (const Row& r : kRows)
      if (n.op() == r.op) row_ = &r;
    a_ = static_cast<T>(n.attr_float(row_->a, static_cast<double>(row_->a_default)));
    b_ = static_cast<T>(n.attr_float(row_->b, static_cast<double>(row_->b_default)));
  }
  void run(const RunContext& c) override {
    if (row_->rare) each(c.stream, loop_.count, Unary<T, true>{loop_, c.out<T>(0), c.in<T>(0), row_->function, a_, b_});
    else each(c.stream, loop_.count, Unary<T, false>{loop_, c.out<T>(0), c.in<T>(0), row_->function, a_, b_});
  }

 private:
  Loop<2> loop_;
  const Row* row_ = nullptr;
  T a_, b_;
};

// y = min(max(x, low), high) with bounds that may come with the step; they hold one element.
template <class T>
struct ClipElements {
  Loop<2> loop;
  T* y;
  const T *x, *low, *high;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    loop.at(i, at);
    T v = x[at[1]];
    if (low && v < *low) v = *low;
    if (high && v > *high) v = *high;
    y[at[0]] = v;
  }
};

template <class T>
class Clip : public Kernel {
 public:
  explicit Clip(const NodeView& n) : loop_(loop_over<2>({&n.out(0), &n.in(0)})) {}
  void run(const RunContext& c) override { each(c.stream, loop_.count, ClipElements<T>{loop_, c.out<T>(0), c.in<T>(0), c.in<T>(1), c.in<T>(2)}); }

 private:
  Loop<2> loop_;
};

}  // namespace

std::span<const KernelDef> unary_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    for (const Row& r : kRows) all.push_back({.op = r.op, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<UnaryKernel>});
    all.push_back({.op = "Clip", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<Clip>});
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
