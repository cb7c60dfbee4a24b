// The loop engine of all elementwise kernels: operands of broadcastable shapes with any strides (row-major, channels-last,
// mixed, parts of larger tensors).
//
// make_loop() orders the axes by the output's strides, drops those of extent 1 and merges neighbours that every operand
// walks evenly, so that most nodes become one row. for_rows() gives each thread an equal run of elements and calls
// f(offsets, count) for each stretch of a row: element k of operand i lies at offsets[i] + k * loop.step(i). Operand 0 is
// the output. The split depends on the sizes and the thread count only. Row functions below have fast paths for steps of 1 and 0;
// `omp simd` holds for operands that share the output's memory, because then equal elements meet.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernel.h"

namespace eng::cpu {

inline constexpr int kMaxOperands = 16;

struct Loop {
  int operands = 0;
  int rank = 1;                                                     // the last axis is the row
  std::array<int64_t, EB_MAX_RANK> extent{};                        // outermost first
  std::array<std::array<int64_t, EB_MAX_RANK>, kMaxOperands> stride{};  // per operand, 0 where broadcast
  int64_t total = 0;
  int64_t row() const { return extent[static_cast<size_t>(rank - 1)]; }
  int64_t step(int operand) const { return stride[static_cast<size_t>(operand)][static_cast<size_t>(rank - 1)]; }
};

// operands[0] is the output and has the full shape; the others broadcast to it.
Loop make_loop(const std::vector<const TensorView*>& operands);
// The same with an axis taken out: what is left are the starts of the lines along it (reductions, softmax, cumulative sums).
// lines[i] receives operand i's stride along the axis. All operands must have the full rank.
Loop make_loop_without_axis(const std::vector<const TensorView*>& operands, int64_t axis, std::vector<int64_t>* axis_strides);

using Offsets = std::array<int64_t, kMaxOperands>;

inline constexpr int64_t kParallelElements = 32768;  // fewer are not worth waking the team for

inline int team_size(int64_t elements) {
  if (elements < kParallelElements) return 1;
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), elements / (kParallelElements / 2)));
}

// Elements [begin, end) in loop order.
template <int N, class F>
void walk_rows(const Loop& l, int64_t begin, int64_t end, F& f) {
  if (begin >= end) return;
  const int outer = l.rank - 1, n = N > 0 ? N : l.operands;
  const int64_t row = l.row();
  std::array<int64_t, EB_MAX_RANK> at{};
  Offsets base{}, now;
  int64_t rest = begin / row, column = begin % row;
  for (int d = outer - 1; d >= 0; --d) {
    at[static_cast<size_t>(d)] = rest % l.extent[static_cast<size_t>(d)];
    rest /= l.extent[static_cast<size_t>(d)];
    for (int i = 0; i < n; ++i) base[static_cast<size_t>(i)] += at[static_cast<size_t>(d)] * l.stride[static_cast<size_t>(i)][static_cast<size_t>(d)];
  }
  for (int64_t left = end - begin; left > 0;) {
    const int64_t count = std::min(left, row - column);
    for (int i = 0; i < n; ++i) now[static_cast<size_t>(i)] = base[static_cast<size_t>(i)] + column * l.step(i);
    f(now, count);
    left -= count;
    column = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const size_t u = static_cast<size_t>(d);
      for (int i = 0; i < n; ++i) base[static_cast<size_t>(i)] += l.stride[static_cast<size_t>(i)][u];
      if (++at[u] < l.extent[u]) break;
      at[u] = 0;
      for (int i = 0; i < n; ++i) base[static_cast<size_t>(i)] -= l.stride[static_cast<size_t>(i)][u] * l.extent[u];
    }
  }
}

// weight: how many simple operations an element costs; dear functions are worth threads sooner.
template <int N, class F>
void for_rows(const Loop& l, int64_t weight, F&& f) {
  const int team = team_size(l.total * weight);
  if (team <= 1) {
    walk_rows<N>(l, 0, l.total, f);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int64_t t = omp_get_thread_num(), of = omp_get_num_threads();
    const int64_t blocks = (l.total + 63) / 64;  // whole cache lines for each thread
    const int64_t begin = blocks * t / of * 64, end = std::min(l.total, blocks * (t + 1) / of * 64);
    auto mine = f;
    walk_rows<N>(l, begin, end, mine);
  }
}

// ---- rows ----

template <class Op, class X, class Y>
void unary_row(const Op& op, Y* y, int64_t sy, const X* x, int64_t sx, int64_t n) {
  if constexpr (std::is_floating_point_v<X>) {
    if (sy == 1 && sx == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = op(x[i]);
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i * sy] = op(x[i * sx]);
}

template <class Op, class A, class B, class Y>
void binary_row(const Op& op, Y* y, int64_t sy, const A* a, int64_t sa, const B* b, int64_t sb, int64_t n) {
  if constexpr (std::is_floating_point_v<A>) {
    if (sy == 1 && sa == 1 && sb == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = op(a[i], b[i]);
      return;
    }
    if (sy == 1 && sa == 1 && sb == 0) {
      const B v = *b;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = op(a[i], v);
      return;
    }
    if (sy == 1 && sa == 0 && sb == 1) {
      const A v = *a;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = op(v, b[i]);
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i * sy] = op(a[i * sa], b[i * sb]);
}

// ---- kernels from a functor ----

// y = op(x). Op is a small copyable functor, called with X.
template <class Op, class X, class Y = X>
class UnaryKernel : public Kernel {
 public:
  UnaryKernel(const NodeView& n, Op op, int64_t weight) : loop_(make_loop({&n.out(0), &n.in(0)})), op_(op), weight_(weight) {}
  void run(const RunContext& c) override {
    Y* y = c.out<Y>(0);
    const X* x = c.in<X>(0);
    const int64_t sy = loop_.step(0), sx = loop_.step(1);
    for_rows<2>(loop_, weight_, [&](const Offsets& at, int64_t n) { unary_row(op_, y + at[0], sy, x + at[1], sx, n); });
  }

 private:
  Loop loop_;
  Op op_;
  int64_t weight_;
};

// y = op(a, b).
template <class Op, class A, class B = A, class Y = A>
class BinaryKernel : public Kernel {
 public:
  BinaryKernel(const NodeView& n, Op op, int64_t weight = 1)
      : loop_(make_loop({&n.out(0), &n.in(0), &n.in(1)})), op_(op), weight_(weight) {}
  void run(const RunContext& c) override {
    Y* y = c.out<Y>(0);
    const A* a = c.in<A>(0);
    const B* b = c.in<B>(1);
    const int64_t sy = loop_.step(0), sa = loop_.step(1), sb = loop_.step(2);
    for_rows<3>(loop_, weight_, [&](const Offsets& at, int64_t n) { binary_row(op_, y + at[0], sy, a + at[1], sa, b + at[2], sb, n); });
  }

 private:
  Loop loop_;
  Op op_;
  int64_t weight_;
};

// y = op(a, b, c).
template <class Op, class A, class B = A, class C = A, class Y = A>
class TernaryKernel : public Kernel {
 public:
  TernaryKernel(const NodeView& n, Op op, int64_t weight = 1)
      : loop_(make_loop({&n.out(0), &n.in(0), &n.in(1), &n.in(2)})), op_(op), weight_(weight) {}
  void run(const RunContext& ctx) override {
    Y* y = ctx.out<Y>(0);
    const A* a = ctx.in<A>(0);
    const B* b = ctx.in<B>(1);
    const C* c = ctx.in<C>(2);
    const int64_t sy = loop_.step(0), sa = loop_.step(1), sb = loop_.step(2), sc = loop_.step(3);
    const bool dense = sy == 1 && sa == 1 && sb == 1 && sc == 1;
    for_rows<4>(loop_, weight_, [&](const Offsets& at, int64_t n) {
      Y* const yr = y + at[0];
      const A* const ar = a + at[1];
      const B* const br = b + at[2];
      const C* const cr = c + at[3];
      if (dense) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) yr[i] = op_(ar[i], br[i], cr[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) yr[i * sy] = op_(ar[i * sa], br[i * sb], cr[i * sc]);
      }
    });
  }

 private:
  Loop loop_;
  Op op_;
  int64_t weight_;
};

// Why an elementwise node is refused; empty: any strides will do.
inline std::string any_layout(const NodeView&) { return ""; }

// Calls f(T{}) with the C++ type of an element type among Ts; false where it is none of them.
template <class... Ts, class F>
bool dispatch(int32_t dtype, F&& f);

template <class T> inline constexpr int32_t kTypeOf = EB_UNDEFINED;
template <> inline constexpr int32_t kTypeOf<float> = EB_FLOAT32;
template <> inline constexpr int32_t kTypeOf<double> = EB_FLOAT64;
template <> inline constexpr int32_t kTypeOf<int8_t> = EB_INT8;
template <> inline constexpr int32_t kTypeOf<int16_t> = EB_INT16;
template <> inline constexpr int32_t kTypeOf<int32_t> = EB_INT32;
template <> inline constexpr int32_t kTypeOf<int64_t> = EB_INT64;
template <> inline constexpr int32_t kTypeOf<uint8_t> = EB_UINT8;
template <> inline constexpr int32_t kTypeOf<uint16_t> = EB_UINT16;
template <> inline constexpr int32_t kTypeOf<uint32_t> = EB_UINT32;
template <> inline constexpr int32_t kTypeOf<uint64_t> = EB_UINT64;
template <> inline constexpr int32_t kTypeOf<bool> = EB_BOOL;

template <class... Ts, class F>
bool dispatch(int32_t dtype, F&& f) {
  return ((dtype == kTypeOf<Ts> ? (f(Ts{}), true) : false) || ...);
}
template <class F> bool dispatch_floats(int32_t dtype, F&& f) { return dispatch<float, double>(dtype, f); }
template <class F> bool dispatch_ints(int32_t dtype, F&& f) {
  return dispatch<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>(dtype, f);
}
template <class F> bool dispatch_numbers(int32_t dtype, F&& f) { return dispatch_floats(dtype, f) || dispatch_ints(dtype, f); }

}  // namespace eng::cpu
