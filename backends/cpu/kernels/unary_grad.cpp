// Gradients of the functions of unary.cpp, one pass each: dx = dy f'(x), with f' written by x or by y = f(x), whichever
// graph/ops/unary.cpp says is kept. A functor (dy, v) each and a row in the table at the end. At a kink the derivative from
// the side that gives zero is taken (Relu at 0: 0), as PyTorch does.
#include <cmath>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {
namespace {

float attribute(const NodeView& n, const char* name, float fallback) { return static_cast<float>(n.attr_float(name, fallback)); }

// Without attributes; y or x is the second operand.
#define ENG_GRADIENT(NAME, V, FORMULA)                                            \
  struct NAME {                                                                   \
    explicit NAME(const NodeView&) {}                                             \
    template <class T> T operator()(T dy, T V) const { return T(FORMULA); }       \
  }
ENG_GRADIENT(Relu, y, y > T(0) ? dy : T(0));
ENG_GRADIENT(Sigmoid, y, dy* y*(T(1) - y));
ENG_GRADIENT(Tanh, y, dy*(T(1) - y * y));
ENG_GRADIENT(HardSwish, x, x <= T(-3) ? T(0) : (x >= T(3) ? dy : dy * (x * T(1.0 / 3.0) + T(0.5))));
ENG_GRADIENT(Softplus, x, dy* fast_sigmoid(x));
ENG_GRADIENT(Softsign, x, dy / ((T(1) + std::fabs(x)) * (T(1) + std::fabs(x))));
ENG_GRADIENT(Exp, y, dy* y);
ENG_GRADIENT(Log, x, dy / x);
ENG_GRADIENT(Sqrt, y, dy / (y + y));
ENG_GRADIENT(Reciprocal, y, -dy * y * y);
ENG_GRADIENT(Abs, x, x > T(0) ? dy : (x < T(0) ? -dy : T(0)));
ENG_GRADIENT(Erf, x, dy* T(1.1283791670955126) * fast_exp(-x * x));
ENG_GRADIENT(Sin, x, dy* std::cos(x));
ENG_GRADIENT(Cos, x, -dy * std::sin(x));
ENG_GRADIENT(Tan, y, dy*(T(1) + y * y));
ENG_GRADIENT(Asin, x, dy / std::sqrt((T(1) - x) * (T(1) + x)));
ENG_GRADIENT(Acos, x, -dy / std::sqrt((T(1) - x) * (T(1) + x)));
ENG_GRADIENT(Atan, x, dy / (T(1) + x * x));
ENG_GRADIENT(Sinh, x, dy* std::cosh(x));
ENG_GRADIENT(Cosh, x, dy* std::sinh(x));
ENG_GRADIENT(Asinh, x, dy / std::sqrt(T(1) + x * x));
ENG_GRADIENT(Acosh, x, dy / std::sqrt((x - T(1)) * (x + T(1))));
ENG_GRADIENT(Atanh, x, dy / ((T(1) - x) * (T(1) + x)));
#undef ENG_GRADIENT

struct Mish {  // t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x))
  explicit Mish(const NodeView&) {}
  template <class T> T operator()(T dy, T x) const {
    const T t = fast_tanh(softplus(x));
    return dy * (t + x * (T(1) - t * t) * fast_sigmoid(x));
  }
};
struct LeakyRelu {
  float alpha;
  explicit LeakyRelu(const NodeView& n) : alpha(attribute(n, "alpha", 0.01f)) {}
  template <class T> T operator()(T dy, T x) const { return x < T(0) ? T(alpha) * dy : dy; }
};
struct HardSigmoid {
  float alpha;
  explicit HardSigmoid(const NodeView& n) : alpha(attribute(n, "alpha", 0.2f)) {}
  template <class T> T operator()(T dy, T y) const { return y > T(0) && y < T(1) ? T(alpha) * dy : T(0); }
};
struct Elu {
  float alpha;
  explicit Elu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T dy, T x) const { return x < T(0) ? dy * T(alpha) * fast_exp(x) : dy; }
};
struct Selu {
  float alpha, gamma;
  explicit Selu(const NodeView& n)
      : alpha(attribute(n, "alpha", 1.67326319217681884765625f)), gamma(attribute(n, "gamma", 1.05070102214813232421875f)) {}
  template <class T> T operator()(T dy, T x) const { return dy * T(gamma) * (x < T(0) ? T(alpha) * fast_exp(x) : T(1)); }
};
struct Celu {
  float alpha;
  explicit Celu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T dy, T x) const { return x < T(0) ? dy * fast_exp(x / T(alpha)) : dy; }
};
struct ThresholdedRelu {
  float alpha;
  explicit ThresholdedRelu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T dy, T x) const { return x > T(alpha) ? dy : T(0); }
};
struct Gelu {
  bool by_tanh;
  explicit Gelu(const NodeView& n) : by_tanh(n.attr_string("approximate", "none") == "tanh") {}
  template <class T> T operator()(T dy, T x) const {
    if (by_tanh) {
      const T c = T(0.7978845608028654), t = fast_tanh(c * (x + T(0.044715) * x * x * x));
      return dy * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * c * (T(1) + T(3 * 0.044715) * x * x));
    }
    return dy * (T(0.5) * (T(1) + fast_erf(x * T(0.7071067811865476))) + x * T(0.3989422804014327) * fast_exp(T(-0.5) * x * x));
  }
};
struct Shrink {
  float lambd;
  explicit Shrink(const NodeView& n) : lambd(attribute(n, "lambd", 0.5f)) {}
  template <class T> T operator()(T dy, T x) const { return x < T(-lambd) || x > T(lambd) ? dy : T(0); }
};

// dy where min <= x <= max.
template <class T>
class ClipGrad : public Kernel {
 public:
  explicit ClipGrad(const NodeView& n) : loop_(make_loop({&n.out(0), &n.in(0), &n.in(1)})), low_(n.in(2).present()), high_(n.in(3).present()) {}
  void run(const RunContext& c) override {
    const T inf = std::numeric_limits<T>::infinity();
    const T low = low_ ? *c.in<T>(2) : -inf, high = high_ ? *c.in<T>(3) : inf;
    const auto op = [low, high](T dy, T x) { return x >= low && x <= high ? dy : T(0); };
    T* dx = c.out<T>(0);
    const T *dy = c.in<T>(0), *x = c.in<T>(1);
    for_rows<3>(loop_, 1, [&](const Offsets& at, int64_t n) {
      binary_row(op, dx + at[0], loop_.step(0), dy + at[1], loop_.step(1), x + at[2], loop_.step(2), n);
    });
  }

 private:
  Loop loop_;
  bool low_, high_;
};

struct PReluGradData { template <class T> T operator()(T dy, T x, T slope) const { return x < T(0) ? dy * slope : dy; } };
struct PReluGradSlope { template <class T> T operator()(T dy, T x) const { return x < T(0) ? dy * x : T(0); } };

template <class Op>
std::unique_ptr<Kernel> create_gradient(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_gradient<Op>);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<Op, decltype(t)>>(n, Op(n), 2); });
  return k;
}

std::unique_ptr<Kernel> create_clip(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_clip);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<ClipGrad<decltype(t)>>(n); });
  return k;
}

std::unique_ptr<Kernel> create_prelu_data(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_prelu_data);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<TernaryKernel<PReluGradData, decltype(t)>>(n, PReluGradData{}); });
  return k;
}

std::unique_ptr<Kernel> create_prelu_slope(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_prelu_slope);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<PReluGradSlope, decltype(t)>>(n, PReluGradSlope{}); });
  return k;
}

KernelDef def(const char* op, CreateFn create) {
  return {.domain = "ai.engine", .op = op, .types = kFloats | kHalves, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}, {EB_ALIAS_IN_PLACE, 0, 1}},
          .can_run = any_layout, .create = create};
}

}  // namespace

std::span<const KernelDef> unary_grad_kernels() {
#define ENG_ROW(NAME) def(#NAME "Grad", create_gradient<NAME>)
  static const std::vector<KernelDef> defs = {
      ENG_ROW(Relu), ENG_ROW(LeakyRelu), ENG_ROW(Sigmoid), ENG_ROW(Tanh), ENG_ROW(HardSigmoid), ENG_ROW(HardSwish), ENG_ROW(Elu),
      ENG_ROW(Selu), ENG_ROW(Celu), ENG_ROW(ThresholdedRelu), ENG_ROW(Softplus), ENG_ROW(Softsign), ENG_ROW(Mish), ENG_ROW(Gelu),
      ENG_ROW(Shrink), ENG_ROW(Exp), ENG_ROW(Log), ENG_ROW(Sqrt), ENG_ROW(Reciprocal), ENG_ROW(Abs), ENG_ROW(Erf),
      ENG_ROW(Sin), ENG_ROW(Cos), ENG_ROW(Tan), ENG_ROW(Asin), ENG_ROW(Acos), ENG_ROW(Atan), ENG_ROW(Sinh), ENG_ROW(Cosh),
      ENG_ROW(Asinh), ENG_ROW(Acosh), ENG_ROW(Atanh),
      def("ClipGrad", create_clip),
      def("PReluGradData", create_prelu_data),
      def("PReluGradSlope", create_prelu_slope),
  };
#undef ENG_ROW
  return defs;
}

}  // namespace eng::cpu
