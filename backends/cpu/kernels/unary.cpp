// Functions of one operand in any layout. A functor each, built from the node's attributes, and a row in the table at the end;
// the loops are elementwise.h's and the vectorisable exp, log, tanh, sigmoid and erf vector_math.h's. The gradients are unary_grad.cpp's.
#include <cmath>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {
namespace {

float attribute(const NodeView& n, const char* name, float fallback) { return static_cast<float>(n.attr_float(name, fallback)); }

// Written with comparisons because std::fmin and std::fmax are calls, which keep a loop from being vectorised.
template <class T>
T clamp_to_unit(T x) { return x < T(0) ? T(0) : (x > T(1) ? T(1) : x); }

#define ENG_FUNCTION(NAME, FORMULA)                                        \
  struct NAME {                                                            \
    explicit NAME(const NodeView&) {}                                      \
    template <class T> T operator()(T x) const { return T(FORMULA); }      \
  }
ENG_FUNCTION(Relu, x > T(0) ? x : (x != x ? x : T(0)));
ENG_FUNCTION(Sigmoid, fast_sigmoid(x));
ENG_FUNCTION(Tanh, fast_tanh(x));
ENG_FUNCTION(HardSwish, x* clamp_to_unit(x * T(1.0 / 6.0) + T(0.5)));
ENG_FUNCTION(Softplus, softplus(x));
ENG_FUNCTION(Softsign, x / (T(1) + std::fabs(x)));
ENG_FUNCTION(Mish, x * fast_tanh(softplus(x)));
ENG_FUNCTION(Exp, fast_exp(x));
ENG_FUNCTION(Log, fast_log(x));
ENG_FUNCTION(Sqrt, std::sqrt(x));
ENG_FUNCTION(Reciprocal, T(1) / x);
ENG_FUNCTION(Floor, std::floor(x));
ENG_FUNCTION(Ceil, std::ceil(x));
ENG_FUNCTION(Round, std::nearbyint(x));  // halves to even
ENG_FUNCTION(Erf, fast_erf(x));
ENG_FUNCTION(Sin, std::sin(x));
ENG_FUNCTION(Cos, std::cos(x));
ENG_FUNCTION(Tan, std::tan(x));
ENG_FUNCTION(Asin, std::asin(x));
ENG_FUNCTION(Acos, std::acos(x));
ENG_FUNCTION(Atan, std::atan(x));
ENG_FUNCTION(Sinh, std::sinh(x));
ENG_FUNCTION(Cosh, std::cosh(x));
ENG_FUNCTION(Asinh, std::asinh(x));
ENG_FUNCTION(Acosh, std::acosh(x));
ENG_FUNCTION(Atanh, std::atanh(x));
#undef ENG_FUNCTION

struct LeakyRelu {
  float alpha;
  explicit LeakyRelu(const NodeView& n) : alpha(attribute(n, "alpha", 0.01f)) {}
  template <class T> T operator()(T x) const { return x < T(0) ? T(alpha) * x : x; }
};
struct HardSigmoid {
  float alpha, beta;
  explicit HardSigmoid(const NodeView& n) : alpha(attribute(n, "alpha", 0.2f)), beta(attribute(n, "beta", 0.5f)) {}
  template <class T> T operator()(T x) const {
    const T y = T(alpha) * x + T(beta);
    return y < T(0) ? T(0) : (y > T(1) ? T(1) : y);
  }
};
struct Elu {
  float alpha;
  explicit Elu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T x) const { return x < T(0) ? T(alpha) * (fast_exp(x) - T(1)) : x; }
};
struct Selu {
  float alpha, gamma;
  explicit Selu(const NodeView& n)
      : alpha(attribute(n, "alpha", 1.67326319217681884765625f)), gamma(attribute(n, "gamma", 1.05070102214813232421875f)) {}
  template <class T> T operator()(T x) const { return T(gamma) * (x < T(0) ? T(alpha) * (fast_exp(x) - T(1)) : x); }
};
struct Celu {
  float alpha;
  explicit Celu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T x) const { return x < T(0) ? T(alpha) * (fast_exp(x / T(alpha)) - T(1)) : x; }
};
struct ThresholdedRelu {
  float alpha;
  explicit ThresholdedRelu(const NodeView& n) : alpha(attribute(n, "alpha", 1.0f)) {}
  template <class T> T operator()(T x) const { return x > T(alpha) ? x : T(0); }
};
struct Gelu {
  bool by_tanh;
  explicit Gelu(const NodeView& n) : by_tanh(n.attr_string("approximate", "none") == "tanh") {}
  template <class T> T operator()(T x) const {
    if (by_tanh) return T(0.5) * x * (T(1) + fast_tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
    return T(0.5) * x * (T(1) + fast_erf(x * T(0.7071067811865476)));
  }
};
struct Shrink {
  float bias, lambd;
  explicit Shrink(const NodeView& n) : bias(attribute(n, "bias", 0.0f)), lambd(attribute(n, "lambd", 0.5f)) {}
  template <class T> T operator()(T x) const {
    return static_cast<T>(x < -lambd ? x + bias : (x > lambd ? x - bias : T(0)));
  }
};
struct Abs {
  explicit Abs(const NodeView&) {}
  template <class T> T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>) return x;
    else if constexpr (std::is_integral_v<T>) return x < 0 ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x)) : x;
    else return std::fabs(x);
  }
};
struct Neg {
  explicit Neg(const NodeView&) {}
  template <class T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
    else return -x;
  }
};
struct Sign {
  explicit Sign(const NodeView&) {}
  template <class T> T operator()(T x) const { return x > T(0) ? T(1) : (x < T(0) ? static_cast<T>(-1) : (x != x ? x : T(0))); }
};

// y = min(max(x, low), high) with bounds that may come with the step; they hold one element.
template <class T>
class Clip : public Kernel {
 public:
  explicit Clip(const NodeView& n) : loop_(make_loop({&n.out(0), &n.in(0)})), low_(n.in(1).present()), high_(n.in(2).present()) {}
  void run(const RunContext& c) override {
    const T low = low_ ? *c.in<T>(1) : lowest(), high = high_ ? *c.in<T>(2) : highest();
    const auto op = [low, high](T x) {
      const T up = x < low ? low : x;
      return up > high ? high : up;
    };
    T* y = c.out<T>(0);
    const T* x = c.in<T>(0);
    for_rows<2>(loop_, 1, [&](const Offsets& at, int64_t n) { unary_row(op, y + at[0], loop_.step(0), x + at[1], loop_.step(1), n); });
  }

 private:
  static T lowest() { return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min(); }
  static T highest() { return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max(); }
  Loop loop_;
  bool low_, high_;
};

struct PRelu { template <class T> T operator()(T x, T slope) const { return x < T(0) ? static_cast<T>(x * slope) : x; } };

template <class Op>
std::unique_ptr<Kernel> create_float(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_float<Op>);
  constexpr bool cheap = std::is_same_v<Op, Relu> || std::is_same_v<Op, LeakyRelu> || std::is_same_v<Op, HardSigmoid> || std::is_same_v<Op, HardSwish>;
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<UnaryKernel<Op, decltype(t)>>(n, Op(n), cheap ? 1 : 8); });
  return k;
}

template <class Op>
std::unique_ptr<Kernel> create_number(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_number<Op>);
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<UnaryKernel<Op, decltype(t)>>(n, Op(n), 1); });
  return k;
}

std::unique_ptr<Kernel> create_clip(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_clip);
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<Clip<decltype(t)>>(n); });
  return k;
}

std::unique_ptr<Kernel> create_prelu(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_prelu);
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<PRelu, decltype(t)>>(n, PRelu{}); });
  return k;
}

KernelDef def(const char* op, uint64_t types, CreateFn create) {
  return {.op = op, .types = types, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create};
}

}  // namespace

std::span<const KernelDef> unary_kernels() {
  constexpr uint64_t floats = kFloats | kHalves, numbers = floats | kInts;
#define ENG_ROW(NAME) def(#NAME, floats, create_float<NAME>)
  static const std::vector<KernelDef> defs = {
      def("Relu", numbers, create_number<Relu>), ENG_ROW(LeakyRelu), ENG_ROW(Sigmoid), ENG_ROW(Tanh), ENG_ROW(HardSigmoid),
      ENG_ROW(HardSwish), ENG_ROW(Elu), ENG_ROW(Selu), ENG_ROW(Celu), ENG_ROW(ThresholdedRelu), ENG_ROW(Softplus), ENG_ROW(Softsign),
      ENG_ROW(Mish), ENG_ROW(Gelu), ENG_ROW(Exp), ENG_ROW(Log), ENG_ROW(Sqrt), ENG_ROW(Reciprocal), ENG_ROW(Floor),
      ENG_ROW(Ceil), ENG_ROW(Round), ENG_ROW(Erf), ENG_ROW(Sin), ENG_ROW(Cos), ENG_ROW(Tan), ENG_ROW(Asin), ENG_ROW(Acos), ENG_ROW(Atan),
      ENG_ROW(Sinh), ENG_ROW(Cosh), ENG_ROW(Asinh), ENG_ROW(Acosh), ENG_ROW(Atanh),
      def("Shrink", numbers, create_number<Shrink>),
      def("Abs", numbers, create_number<Abs>),
      def("Neg", numbers, create_number<Neg>),
      def("Sign", numbers, create_number<Sign>),
      def("Clip", numbers, create_clip),
      def("PRelu", numbers, create_prelu),
  };
#undef ENG_ROW
  return defs;
}

}  // namespace eng::cpu
