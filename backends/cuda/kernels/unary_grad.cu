// Gradients of the functions of unary.cu, one pass each: dx = dy f'(x), with f' written by x or by y = f(x), whichever graph/ops/unary.cpp says
// is kept (v here). At a kink the derivative from the side that gives zero is taken (Relu at 0: 0), as PyTorch does.
#include <cmath>

#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

// X(operator, the formula of dy and v, attribute a, its default)
#define ENG_GRADIENTS(X) \
  X(Relu, v > T(0) ? dy : T(0), "", 0) \
  X(LeakyRelu, v < T(0) ? a * dy : dy, "alpha", 0.01f) \
  X(Sigmoid, dy * v * (T(1) - v), "", 0) \
  X(Tanh, dy * (T(1) - v * v), "", 0) \
  X(HardSigmoid, v > T(0) && v < T(1) ? a * dy : T(0), "alpha", 0.2f) \
  X(HardSwish, v <= T(-3) ? T(0) : (v >= T(3) ? dy : dy * (v * T(1.0 / 3.0) + T(0.5))), "", 0) \
  X(Exp, dy * v, "", 0) \
  X(Log, dy / v, "", 0) \
  X(Sqrt, dy / (v + v), "", 0) \
  X(Reciprocal, -dy * v * v, "", 0) \
  X(Abs, v > T(0) ? dy : (v < T(0) ? -dy : T(0)), "", 0) \
  X(Elu, v < T(0) ? dy * a * std::exp(v) : dy, "alpha", 1.0f) \
  X(Celu, v < T(0) ? dy * std::exp(v / a) : dy, "alpha", 1.0f) \
  X(ThresholdedRelu, v > a ? dy : T(0), "alpha", 1.0f) \
  X(Softplus, dy / (T(1) + std::exp(-v)), "", 0) \
  X(Softsign, dy / ((T(1) + std::fabs(v)) * (T(1) + std::fabs(v))), "", 0) \
  X(Erf, dy * T(1.1283791670955126) * std::exp(-v * v), "", 0)

namespace eng::cuda {
namespace {

enum class Function : int32_t {
#define ENG_NAME(NAME, ...) k##NAME,
  ENG_GRADIENTS(ENG_NAME)
#undef ENG_NAME
};

struct Row {
  const char* op;
  Function function;
  const char* a;
  float a_default;
};
#define ENG_ROW(NAME, FORMULA, A, A0) {#NAME "Grad", Function::k##NAME, A, A0},
constexpr Row kRows[] = {ENG_GRADIENTS(ENG_ROW)};
#undef ENG_ROW

template <class T>
struct UnaryGrad {
  Loop<3> loop;
  T* dx;
  const T *gradient, *kept;
  Function function;
  T a;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    loop.at(i, at);
    const T dy = gradient[at[1]], v = kept[at[2]];
    T result = T(0);
#define ENG_CASE(NAME, FORMULA, ...) \
  case Function::k##NAME: result = T(FORMULA); break;
    switch (function) { ENG_GRADIENTS(ENG_CASE) }
#undef ENG_CASE
    dx[at[0]] = result;
  }
};

template <class T>
class UnaryGradKernel : public Kernel {
 public:
  explicit UnaryGradKernel(const NodeView& n) : loop_(loop_over<3>({&n.out(0), &n.in(0), &n.in(1)})) {
    for (const Row& r : kRows)
      if (n.op() == r.op) row_ = &r;
    a_ = static_cast<T>(n.attr_float(row_->a, static_cast<double>(row_->a_default)));
  }
  void run(const RunContext& c) override { each(c.stream, loop_.count, UnaryGrad<T>{loop_, c.out<T>(0), c.in<T>(0), c.in<T>(1), row_->function, a_}); }

 private:
  Loop<3> loop_;
  const Row* row_ = nullptr;
  T a_;
};

// dy where min <= x <= max.
template <class T>
struct ClipGradElements {
  Loop<3> loop;
  T* dx;
  const T *dy, *x, *low, *high;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    loop.at(i, at);
    const T v = x[at[2]];
    dx[at[0]] = (low && !(v >= *low)) || (high && !(v <= *high)) ? T(0) : dy[at[1]];
  }
};

template <class T>
class ClipGrad : public Kernel {
 public:
  explicit ClipGrad(const NodeView& n) : loop_(loop_over<3>({&n.out(0), &n.in(0), &n.in(1)})) {}
  void run(const RunContext& c) override {
    each(c.stream, loop_.count, ClipGradElements<T>{loop_, c.out<T>(0), c.in<T>(0), c.in<T>(1), c.in<T>(2), c.in<T>(3)});
  }

 private:
  Loop<3> loop_;
};

}  // namespace

std::span<const KernelDef> unary_grad_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    auto add = [&](const char* op, decltype(KernelDef::create) create) {
      all.push_back({.domain = "ai.engine", .op = op, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}, {EB_ALIAS_IN_PLACE, 0, 1}}, .can_run = any_layout, .create = create});
    };
    for (const Row& r : kRows) add(r.op, create_float<UnaryGradKernel>);
    add("ClipGrad", create_float<ClipGrad>);
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
