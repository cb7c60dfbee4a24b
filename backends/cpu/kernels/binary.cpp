// Arithmetic of broadcast operands of any layout: Add, Sub, Mul, Div, Mod, Pow, the variadic Min, Max, Sum, Mean, and the
// gradients PowGradBase, PowGradExponent, ExtremumGrad. A functor each; the loops are elementwise.h's.
// Integer division by zero gives 0 and the one overflowing quotient wraps: neither may end the process.
#include <cmath>
#include <limits>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"

namespace eng::cpu {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;

// Integers wrap; small ones are promoted and cut back.
struct Add {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else return a + b;
  }
};
struct Sub {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    else return a - b;
  }
};
struct Mul {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
  }
};
struct Div {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Mod {
  bool as_c = false;  // the sign of a (C's fmod); else that of b (Python's %)
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return 0;
      const T r = static_cast<T>(a % b);
      if constexpr (std::is_signed_v<T>)
        if (!as_c && r != 0 && (r < 0) != (b < 0)) return static_cast<T>(r + b);
      return r;
    } else {
      const T r = std::fmod(a, b);
      return !as_c && r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
  }
};
// NaN wins, as in NumPy.
struct Max {
  template <class T> T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};
struct Min {
  template <class T> T operator()(T a, T b) const { return a < b || a != a ? a : b; }
};
struct Power {
  template <class A, class B> A operator()(A a, B b) const {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
      if constexpr (std::is_signed_v<B>)
        if (b < 0) return a == 1 ? A(1) : (a == A(-1) ? (b % 2 ? a : A(1)) : A(0));
      uint64_t result = 1, base = static_cast<uint64_t>(a);
      for (auto e = static_cast<uint64_t>(b); e; e >>= 1, base *= base)
        if (e & 1) result *= base;
      return static_cast<A>(result);
    } else if constexpr (std::is_integral_v<A>) {
      const double r = std::pow(static_cast<double>(a), static_cast<double>(b));
      return r != r ? A(0)
             : r >= static_cast<double>(std::numeric_limits<A>::max()) ? std::numeric_limits<A>::max()
             : r <= static_cast<double>(std::numeric_limits<A>::min()) ? std::numeric_limits<A>::min() : static_cast<A>(r);
    } else if constexpr (std::is_same_v<A, float> && std::is_same_v<B, float>) {
      return std::pow(a, b);
    } else {
      return static_cast<A>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    }
  }
};
struct Square { template <class T> T operator()(T x) const { return x * x; } };
struct Root { template <class T> T operator()(T x) const { return std::sqrt(x); } };

struct PowGradBase {
  template <class T> T operator()(T dy, T a, T b) const { return b == T(0) ? T(0) : dy * b * std::pow(a, b - T(1)); }
};
struct PowGradExponent {
  template <class T> T operator()(T dy, T a, T y) const { return a > T(0) ? dy * y * std::log(a) : T(0); }
};

// y = op(op(x_0, x_1), x_2)...; more operands than the loop holds are added in further rounds.
template <class Op, class T>
class FoldKernel : public Kernel {
 public:
  FoldKernel(const NodeView& n, Op op, T scale) : op_(op), scale_(scale) {
    const int count = n.input_count();
    for (int from = 0; from < count || from == 0;) {
      const int here = std::min(count - from, kMaxOperands - 1);
      std::vector<const TensorView*> operands{&n.out(0)};
      for (int i = 0; i < here; ++i) operands.push_back(&n.in(from + i));
      rounds_.push_back({make_loop(operands), from});
      from += here;
    }
  }
  void run(const RunContext& c) override {
    for (const Round& r : rounds_)
      for_rows<0>(r.loop, r.loop.operands - 1, [&](const Offsets& at, int64_t n) {
        for (int64_t done = 0; done < n; done += kStretch) stretch(c, r, at, done, std::min(kStretch, n - done), &r == &rounds_.back());
      });
  }

 private:
  static constexpr int64_t kStretch = 4096;  // of a row, so that it stays in the first cache from operand to operand
  struct Round {
    Loop loop;
    int from;
  };
  void stretch(const RunContext& c, const Round& r, const Offsets& at, int64_t done, int64_t n, bool last) {
    const int64_t sy = r.loop.step(0);
    T* const y = c.out<T>(0) + at[0] + done * sy;
    auto operand = [&](int i) { return c.in<T>(r.from + i) + at[static_cast<size_t>(i + 1)] + done * r.loop.step(i + 1); };
    const int count = r.loop.operands - 1;
    int i = 0;
    if (r.from > 0) {
      binary_row(op_, y, sy, y, sy, operand(0), r.loop.step(1), n);
      i = 1;
    } else if (count == 1) {
      unary_row([](T v) { return v; }, y, sy, operand(0), r.loop.step(1), n);
      i = 1;
    } else {
      binary_row(op_, y, sy, operand(0), r.loop.step(1), operand(1), r.loop.step(2), n);
      i = 2;
    }
    for (; i < count; ++i) binary_row(op_, y, sy, y, sy, operand(i), r.loop.step(i + 1), n);
    if (last && scale_ != T(1)) {
      const T s = scale_;
      unary_row([s](T v) { return static_cast<T>(v * s); }, y, sy, y, sy, n);
    }
  }

  Op op_;
  T scale_;
  std::vector<Round> rounds_;
};

// dx_i = dy where x_i is the first operand that equals y.
template <class T>
class ExtremumGrad : public Kernel {
 public:
  explicit ExtremumGrad(const NodeView& n) {
    std::vector<const TensorView*> operands{&n.out(0)};
    for (int i = 0; i < n.input_count(); ++i) operands.push_back(&n.in(i));
    loop_ = make_loop(operands);
  }
  void run(const RunContext& c) override {
    const int count = loop_.operands - 1;
    for_rows<0>(loop_, count, [&](const Offsets& at, int64_t n) {
      T* const dx = c.out<T>(0) + at[0];
      for (int64_t k = 0; k < n; ++k) {
        auto value = [&](int i) { return c.in<T>(i)[at[static_cast<size_t>(i + 1)] + k * loop_.step(i + 1)]; };
        const T y = value(1);
        bool mine = value(count - 1) == y;
        for (int i = 2; i < count - 1; ++i) mine = mine && value(i) != y;
        dx[k * loop_.step(0)] = mine ? value(0) : T(0);
      }
    });
  }

 private:
  Loop loop_;
};

template <class Op>
std::unique_ptr<Kernel> create_fold(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_fold<Op>);
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<FoldKernel<Op, decltype(t)>>(n, Op{}, decltype(t)(1)); });
  return k;
}

std::unique_ptr<Kernel> create_mean(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_mean);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) {
    using T = decltype(t);
    k = std::make_unique<FoldKernel<Add, T>>(n, Add{}, static_cast<T>(1.0 / n.input_count()));
  });
  return k;
}

template <class Op>
std::unique_ptr<Kernel> create_binary(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_binary<Op>);
  Op op{};
  int64_t weight = 1;
  if constexpr (std::is_same_v<Op, Mod>) {
    op.as_c = n.attr_int("fmod", 0) != 0;
    weight = 8;
  }
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<Op, decltype(t)>>(n, op, weight); });
  return k;
}

// A constant exponent of 2, 1/2 or 1 needs no pow().
std::unique_ptr<Kernel> simple_power(const NodeView& n) {
  if (!n.host(1) || n.in(1).count() != 1 || n.in(1).dtype != EB_FLOAT32 || n.in(0).dtype != EB_FLOAT32) return nullptr;
  if (n.in(0).dims != n.out(0).dims) return nullptr;
  const float e = *static_cast<const float*>(n.host(1));
  if (e == 2.0f) return std::make_unique<UnaryKernel<Square, float>>(n, Square{}, 1);
  if (e == 0.5f) return std::make_unique<UnaryKernel<Root, float>>(n, Root{}, 1);
  return nullptr;
}

std::unique_ptr<Kernel> create_power(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_power);
  if (auto simple = simple_power(n)) return simple;
  std::unique_ptr<Kernel> k;
  dispatch<float, double, int32_t, int64_t>(n.in(0).dtype, [&](auto a) {
    dispatch_numbers(n.in(1).dtype, [&](auto b) {
      k = std::make_unique<BinaryKernel<Power, decltype(a), decltype(b), decltype(a)>>(n, Power{}, 16);
    });
  });
  return k;
}

template <class Op>
std::unique_ptr<Kernel> create_ternary(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_ternary<Op>);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<TernaryKernel<Op, decltype(t)>>(n, Op{}, 16); });
  return k;
}

std::unique_ptr<Kernel> create_extremum_gradient(const NodeView& n, int threads) {
  if (n.input_count() >= kMaxOperands) return nullptr;
  if (has_half(n)) return create_widened(n, threads, create_extremum_gradient);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<ExtremumGrad<decltype(t)>>(n); });
  return k;
}

KernelDef def(const char* domain, const char* op, uint64_t types, CreateFn create) {
  return {.domain = domain, .op = op, .types = types, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}, {EB_ALIAS_IN_PLACE, 0, 1}},
          .can_run = any_layout, .create = create};
}

}  // namespace

std::span<const KernelDef> binary_kernels() {
  constexpr uint64_t numbers = kFloats | kInts | kHalves, floats = kFloats | kHalves;
  static const std::vector<KernelDef> defs = {
      def("", "Add", numbers, create_fold<Add>),
      def("", "Sum", numbers, create_fold<Add>),
      def("", "Mul", numbers, create_fold<Mul>),
      def("", "Max", numbers, create_fold<Max>),
      def("", "Min", numbers, create_fold<Min>),
      def("", "Mean", floats, create_mean),
      def("", "Sub", numbers, create_binary<Sub>),
      def("", "Div", numbers, create_binary<Div>),
      def("", "Mod", numbers, create_binary<Mod>),
      def("", "Pow", floats | type_bit(EB_INT32) | type_bit(EB_INT64), create_power),
      def("ai.engine", "PowGradBase", floats, create_ternary<PowGradBase>),
      def("ai.engine", "PowGradExponent", floats, create_ternary<PowGradExponent>),
      def("ai.engine", "ExtremumGrad", floats, create_extremum_gradient),
  };
  return defs;
}

}  // namespace eng::cpu
