// Reductions over axes of tensors in any layout: ReduceSum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp, and
// ReduceProdGrad, ArgMax, ArgMin.
//
// The kept axes and the reduced axes are two loops (elementwise.h). Where the input's elements lie side by side along a reduced
// axis, each result is folded by itself over rows (16 lanes); where they do along a kept axis, a tile of neighbouring results
// is folded together. Few results of many elements are cut into chunks whose partial results are combined in order, so that all
// threads have work; tiles and chunks follow from the shapes alone, which keeps results the same for any thread count.
// A reduction is an accumulator: what it holds, how an element enters, how two combine, what comes out. Sums are held in double.
#include <cmath>
#include <limits>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/reduction.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {
namespace {

// ---- accumulators ----

template <class T> using Wide = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;  // integers wrap

template <class T>
struct Sum {
  using A = Wide<T>;
  static A start() { return 0; }
  static void take(A& a, T x) { a += static_cast<A>(x); }
  static void join(A& a, A b) { a += b; }
  static T result(A a, int64_t) { return static_cast<T>(a); }
};
template <class T>
struct Mean : Sum<T> {
  static T result(Wide<T> a, int64_t n) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(a / static_cast<double>(n));
    else return n == 0 ? T(0) : static_cast<T>(static_cast<T>(a) / static_cast<T>(n));
  }
};
template <class T>
struct SumSquare : Sum<T> {
  static void take(Wide<T>& a, T x) { a += static_cast<Wide<T>>(x) * static_cast<Wide<T>>(x); }
};
template <class T>
struct L1 : Sum<T> {
  static void take(Wide<T>& a, T x) { a += static_cast<Wide<T>>(x < T(0) ? -x : x); }
};
template <class T>
struct L2 : SumSquare<T> {
  static T result(Wide<T> a, int64_t) { return static_cast<T>(std::sqrt(static_cast<double>(a))); }
};
template <class T>
struct LogSum : Sum<T> {
  static T result(Wide<T> a, int64_t) { return static_cast<T>(std::log(static_cast<double>(a))); }
};
template <class T>
struct Prod {
  using A = Wide<T>;
  static A start() { return 1; }
  static void take(A& a, T x) { a *= static_cast<A>(x); }
  static void join(A& a, A b) { a *= b; }
  static T result(A a, int64_t) { return static_cast<T>(a); }
};
template <class T>
struct Max {
  using A = T;
  static A start() { return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest(); }
  static void take(A& a, T x) { a = x > a || x != x ? x : a; }
  static void join(A& a, A b) { take(a, b); }
  static T result(A a, int64_t) { return a; }
};
template <class T>
struct Min {
  using A = T;
  static A start() { return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max(); }
  static void take(A& a, T x) { a = x < a || x != x ? x : a; }
  static void join(A& a, A b) { take(a, b); }
  static T result(A a, int64_t) { return a; }
};
// sum = sum of exp(x - most), rescaled when a larger element comes.
template <class T>
struct LogSumExp {
  struct A {
    double most, sum;
  };
  static A start() { return {-std::numeric_limits<double>::infinity(), 0}; }
  static void join(A& a, A b) {
    if (b.sum == 0) return;
    if (b.most == a.most) a.sum += b.sum;
    else if (b.most > a.most) a = {b.most, b.sum + a.sum * std::exp(a.most - b.most)};
    else a.sum += b.sum * std::exp(b.most - a.most);
  }
  static void take(A& a, T x) {
    if (static_cast<double>(x) == -std::numeric_limits<double>::infinity()) return;
    join(a, {static_cast<double>(x), 1});
  }
  static T result(A a, int64_t) { return static_cast<T>(a.most + std::log(a.sum)); }
};

// ---- the two loops ----

struct Plan {
  Loop kept;     // operands: output, input
  Loop reduced;  // operand: input
};

// The output seen with the input's rank: reduced axes have extent 1.
TensorView with_axes(const TensorView& y, const std::vector<bool>& reduced) {
  TensorView full;
  full.dtype = y.dtype;
  const bool kept = y.rank() == static_cast<int64_t>(reduced.size());
  size_t own = 0;
  for (bool r : reduced) {
    full.dims.push_back(r ? 1 : y.dims[own]);
    full.strides.push_back(r ? 0 : y.strides[own]);
    own += kept || !r;
  }
  return full;
}

Plan make_plan(const TensorView& x, const TensorView& y, const std::vector<bool>& reduced) {
  TensorView out = with_axes(y, reduced), kept = x, inner = x;
  for (size_t i = 0; i < reduced.size(); ++i) (reduced[i] ? kept : inner).dims[i] = 1;
  return {make_loop({&out, &kept}), make_loop({&inner})};
}

std::vector<bool> reduced_axes(const NodeView& n, int axes_input) {
  const TensorView& x = n.in(n.op() == "ReduceProdGrad" ? 1 : 0);
  std::vector<int64_t> axes = n.in(axes_input).present() ? n.host_ints(axes_input) : std::vector<int64_t>();
  std::vector<bool> reduced(x.dims.size(), axes.empty() && n.attr_int("noop_with_empty_axes", 0) == 0);
  for (int64_t a : axes) reduced[static_cast<size_t>(a < 0 ? a + x.rank() : a)] = true;
  return reduced;
}

constexpr int64_t kTile = 256, kLanes = 16, kChunkElements = 16384, kMaxChunks = 32;

template <template <class> class Op, class T>
class Reduce : public Kernel {
  using R = Op<T>;
  using A = typename R::A;

 public:
  explicit Reduce(const NodeView& n) : plan_(make_plan(n.in(0), n.out(0), reduced_axes(n, 1))) {
    const Loop &kept = plan_.kept, &reduced = plan_.reduced;
    tiled_ = kept.step(1) == 1 && kept.row() > 1 && !(reduced.step(0) == 1 && reduced.row() > 1);
    tile_ = tiled_ ? std::min(kTile, kept.row()) : 1;
    tiles_in_row_ = tiled_ ? (kept.row() + tile_ - 1) / tile_ : 1;
    items_ = tiled_ ? (kept.row() == 0 ? 0 : kept.total / kept.row() * tiles_in_row_) : kept.total;
    chunks_ = items_ >= kMaxChunks ? 1 : std::clamp<int64_t>(reduced.total * tile_ / kChunkElements, 1, kMaxChunks);
  }
  size_t workspace() const override { return chunks_ > 1 ? static_cast<size_t>(items_ * chunks_ * tile_) * sizeof(A) : 0; }
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    T* y = c.out<T>(0);
    auto* partial = static_cast<A*>(c.workspace);
    const int64_t weight = std::max<int64_t>(1, plan_.reduced.total / chunks_) * tile_;
    if (chunks_ == 1) {
      parallel_items(items_, weight, [&](int64_t item) {
        A acc[kTile];
        const Spot s = spot(item);
        fold(acc, x + s.x, s.count, 0, plan_.reduced.total);
        finish(y + s.y, acc, s.count);
      });
      return;
    }
    parallel_items(items_ * chunks_, weight, [&](int64_t work) {
      const int64_t item = work / chunks_, k = work % chunks_, total = plan_.reduced.total;
      const Spot s = spot(item);
      fold(partial + work * tile_, x + s.x, s.count, total * k / chunks_, total * (k + 1) / chunks_);
    });
    for (int64_t item = 0; item < items_; ++item) {
      const Spot s = spot(item);
      A* acc = partial + item * chunks_ * tile_;
      for (int64_t k = 1; k < chunks_; ++k)
        for (int64_t j = 0; j < s.count; ++j) R::join(acc[j], acc[k * tile_ + j]);
      finish(y + s.y, acc, s.count);
    }
  }

 private:
  struct Spot {
    int64_t x, y, count;
  };
  // Where an item's first result and first element lie.
  Spot spot(int64_t item) const {
    const Loop& l = plan_.kept;
    int64_t rest = tiled_ ? item / tiles_in_row_ : item;
    int d = l.rank - 1;
    Spot s{0, 0, 1};
    if (tiled_) {
      const int64_t first = item % tiles_in_row_ * tile_;
      s = {first * l.step(1), first * l.step(0), std::min(tile_, l.row() - first)};
      --d;
    }
    for (; d >= 0; --d) {
      const size_t u = static_cast<size_t>(d);
      const int64_t at = rest % l.extent[u];
      rest /= l.extent[u];
      s.y += at * l.stride[0][u];
      s.x += at * l.stride[1][u];
    }
    return s;
  }
  void finish(T* y, const A* acc, int64_t count) const {
    const int64_t step = tiled_ ? plan_.kept.step(0) : 0;
    for (int64_t j = 0; j < count; ++j) y[j * step] = R::result(acc[j], plan_.reduced.total);
  }
  // Reduced elements [from, to) of `count` neighbouring results.
  void fold(A* acc, const T* x, int64_t count, int64_t from, int64_t to) const {
    const int64_t step = plan_.reduced.step(0);
    for (int64_t j = 0; j < count; ++j) acc[j] = R::start();
    if (tiled_) {
      auto rows = [&](const Offsets& at, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const T* const row = x + at[0] + i * step;
          for (int64_t j = 0; j < count; ++j) R::take(acc[j], row[j]);
        }
      };
      walk_rows<1>(plan_.reduced, from, to, rows);
      return;
    }
    A lanes[kLanes];
    for (A& a : lanes) a = R::start();
    auto rows = [&](const Offsets& at, int64_t n) {
      const T* const row = x + at[0];
      int64_t i = 0;
      if (step == 1)
        for (; i + kLanes <= n; i += kLanes)
          for (int64_t k = 0; k < kLanes; ++k) R::take(lanes[k], row[i + k]);
      for (; i < n; ++i) R::take(acc[0], row[i * step]);
    };
    walk_rows<1>(plan_.reduced, from, to, rows);
    for (const A& a : lanes) R::join(acc[0], a);
  }

  Plan plan_;
  bool tiled_;
  int64_t tile_, tiles_in_row_, items_, chunks_;
};

// dx_i = dy * product of the other elements that were reduced with x_i.
template <class T>
class ReduceProdGrad : public Kernel {
 public:
  explicit ReduceProdGrad(const NodeView& n) : plan_(make_plan(n.in(1), n.in(0), reduced_axes(n, 2))) {}
  void run(const RunContext& c) override {
    const T *dy = c.in<T>(0), *x = c.in<T>(1);
    T* dx = c.out<T>(0);
    for_rows<2>(plan_.kept, plan_.reduced.total, [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) one(dy[at[0] + i * plan_.kept.step(0)], x + at[1] + i * plan_.kept.step(1), dx + at[1] + i * plan_.kept.step(1));
    });
  }

 private:
  void one(T dy, const T* x, T* dx) const {
    int64_t zeros = 0;
    double product = 1;  // of the elements that are not zero
    const int64_t step = plan_.reduced.step(0);
    auto scan = [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(x[at[0] + i * step]);
        if (v == 0) ++zeros;
        else product *= v;
      }
    };
    walk_rows<1>(plan_.reduced, 0, plan_.reduced.total, scan);
    auto write = [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(x[at[0] + i * step]);
        const double others = zeros == 0 ? product / v : zeros == 1 && v == 0 ? product : 0;
        dx[at[0] + i * step] = static_cast<T>(static_cast<double>(dy) * others);
      }
    };
    walk_rows<1>(plan_.reduced, 0, plan_.reduced.total, write);
  }
  Plan plan_;
};

template <class T>
class ArgExtremum : public Kernel {
 public:
  explicit ArgExtremum(const NodeView& n) : highest_(n.op() == "ArgMax"), last_(n.attr_int("select_last_index", 0) != 0) {
    const int64_t axis = n.attr_int("axis", 0), at = axis < 0 ? axis + n.in(0).rank() : axis;
    std::vector<bool> reduced(n.in(0).dims.size(), false);
    reduced[static_cast<size_t>(at)] = true;
    plan_ = make_plan(n.in(0), n.out(0), reduced);
    extent_ = n.in(0).dim(at);
    step_ = n.in(0).strides[static_cast<size_t>(at)];
  }
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    int64_t* y = c.out<int64_t>(0);
    for_rows<2>(plan_.kept, extent_, [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) y[at[0] + i * plan_.kept.step(0)] = one(x + at[1] + i * plan_.kept.step(1));
    });
  }

 private:
  int64_t one(const T* x) const {
    int64_t best = 0;
    for (int64_t k = 1; k < extent_; ++k) {
      const T v = x[k * step_], b = x[best * step_];
      if ((highest_ ? v > b : v < b) || (last_ && v == b)) best = k;
    }
    return best;
  }
  bool highest_, last_;
  Plan plan_;
  int64_t extent_, step_;
};

template <template <class> class Op>
std::unique_ptr<Kernel> create_reduce(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_reduce<Op>);
  std::unique_ptr<Kernel> k;
  auto make = [&](auto t) { k = std::make_unique<Reduce<Op, decltype(t)>>(n); };
  if (!dispatch<float, double, int32_t, int64_t, uint32_t, uint64_t>(n.in(0).dtype, make)) {
    if constexpr (std::is_same_v<Op<int>, Max<int>> || std::is_same_v<Op<int>, Min<int>>)
      dispatch<int8_t, uint8_t, int16_t, uint16_t, bool>(n.in(0).dtype, make);
  }
  return k;
}

std::unique_ptr<Kernel> create_prod_gradient(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_prod_gradient);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<ReduceProdGrad<decltype(t)>>(n); });
  return k;
}

std::unique_ptr<Kernel> create_arg(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_arg);
  std::unique_ptr<Kernel> k;
  dispatch_numbers(n.in(0).dtype, [&](auto t) { k = std::make_unique<ArgExtremum<decltype(t)>>(n); });
  return k;
}

KernelDef reduction(const char* op, CreateFn create, uint64_t more = 0) {
  const uint64_t types = kFloats | kHalves | type_bit(EB_INT32) | type_bit(EB_INT64) | type_bit(EB_UINT32) | type_bit(EB_UINT64);
  return {.op = op, .types = types | more, .host_inputs = 2, .can_run = any_layout, .create = create};
}

}  // namespace

std::span<const KernelDef> reduce_kernels() {
  constexpr uint64_t small = kInts | type_bit(EB_BOOL);
  static const std::vector<KernelDef> defs = {
      reduction("ReduceSum", create_reduce<Sum>),
      reduction("ReduceMean", create_reduce<Mean>),
      reduction("ReduceSumSquare", create_reduce<SumSquare>),
      reduction("ReduceL1", create_reduce<L1>),
      reduction("ReduceL2", create_reduce<L2>),
      reduction("ReduceLogSum", create_reduce<LogSum>),
      reduction("ReduceLogSumExp", create_reduce<LogSumExp>),
      reduction("ReduceProd", create_reduce<Prod>),
      reduction("ReduceMax", create_reduce<Max>, small),
      reduction("ReduceMin", create_reduce<Min>, small),
      {.domain = "ai.engine", .op = "ReduceProdGrad", .types = kFloats | kHalves, .host_inputs = 4, .can_run = any_layout, .create = create_prod_gradient},
      {.op = "ArgMax", .types = kFloats | kHalves | kInts, .can_run = any_layout, .create = create_arg},
      {.op = "ArgMin", .types = kFloats | kHalves | kInts, .can_run = any_layout, .create = create_arg},
  };
  return defs;
}

}  // namespace eng::cpu
