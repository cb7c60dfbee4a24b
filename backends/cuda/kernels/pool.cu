// MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool and the gradients of the first two (which serve the global ones), any layout. A thread an
// element. A gradient is gathered: each element of dX adds, in the order of the outputs, what the windows over it hand back, so nothing
// is added by two threads. MaxPoolGrad finds the winners first, once a window, into the workspace.
#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"
#include "backends/cuda/reduce.h"
#include "backends/cuda/window.h"

namespace eng::cuda {
namespace {

// A walk over a tensor (N, C, spatial...): the tensor's offset, the other's offset by batch and channel, the three spatial indices and the
// number of the plane (batch, channel).
struct Walk {
  static constexpr int kOperands = 6;
  Loop<kOperands> loop;
};

Walk walk_over(const TensorView& own, const TensorView& other) {
  Box box = box_of({&own});
  std::vector<int64_t> plane(own.dims.size(), 0), number(own.dims.size(), 0);
  plane[0] = other.strides[0];
  plane[1] = other.strides[1];
  number[0] = own.dims[1];
  number[1] = 1;
  box.strides.push_back(plane);
  for (int axis = 2; axis < 5; ++axis) box.strides.push_back(index_along(own, axis).strides);
  box.strides.push_back(number);
  return {pack<Walk::kOperands>(box)};
}

bool is_global(const NodeView& n) { return n.op().substr(0, 6) == "Global"; }

Window pool_window(const NodeView& n, const TensorView& wide, const TensorView& narrow) {
  return read_window(n, wide, narrow, is_global(n) ? std::vector<int64_t>(wide.dims.begin() + 2, wide.dims.end()) : n.attr_ints("kernel_shape"));
}

// f(flat position in a plane, offset by strides) for the taps of output (a, b, c) that hit the input, in order.
template <class F>
__device__ void each_tap(const Window& w, const int64_t (&strides)[3], int64_t a, int64_t b, int64_t c, F&& f) {
  int64_t first[3], last[3];
  w.taps(0, a, &first[0], &last[0]);
  w.taps(1, b, &first[1], &last[1]);
  w.taps(2, c, &first[2], &last[2]);
  for (int64_t i = first[0]; i < last[0]; ++i)
    for (int64_t j = first[1]; j < last[1]; ++j)
      for (int64_t k = first[2]; k < last[2]; ++k) {
        const int64_t p = w.place(0, a, i), q = w.place(1, b, j), r = w.place(2, c, k);
        f((p * w.in[1] + q) * w.in[2] + r, p * strides[0] + q * strides[1] + r * strides[2]);
      }
}

// The largest element of a window and where it is; a NaN is the largest.
template <class T>
__device__ T largest(const Window& w, const Strides5& s, const T* plane, int64_t a, int64_t b, int64_t c, int64_t* where) {
  T best = -T(INFINITY);
  int64_t winner = -1;
  each_tap(w, s.space, a, b, c, [&](int64_t position, int64_t offset) {
    const T v = plane[offset];
    if (winner < 0 || v > best || v != v) best = v, winner = position;
  });
  *where = winner;
  return best;
}

template <class T>
struct MaxPoolElements {
  Loop<Walk::kOperands> loop;
  Window w;
  Strides5 s;
  T* y;
  const T* x;
  int64_t* index;
  bool column_major;
  __device__ void operator()(int64_t i) const {
    int64_t at[Walk::kOperands], where;
    loop.at(i, at);
    y[at[0]] = largest(w, s, x + at[1], at[2], at[3], at[4], &where);
    if (!index) return;
    if (column_major) {  // the last axis slowest
      const int64_t c = where % w.in[2], b = where / w.in[2] % w.in[1], a = where / w.in[2] / w.in[1];
      where = (c * w.in[1] + b) * w.in[0] + a;
    }
    index[at[0]] = at[5] * w.in_size() + where;
  }
};

template <class T>
class MaxPool : public Kernel {
 public:
  explicit MaxPool(const NodeView& n)
      : walk_(walk_over(n.out(0), n.in(0))), w_(pool_window(n, n.in(0), n.out(0))), s_(strides_of(n.in(0))), column_major_(n.attr_int("storage_order", 0) != 0) {}
  void run(const RunContext& c) override {
    each(c.stream, walk_.loop.count, MaxPoolElements<T>{walk_.loop, w_, s_, c.out<T>(0), c.in<T>(0), c.out<int64_t>(1), column_major_});
  }

 private:
  Walk walk_;
  Window w_;
  Strides5 s_;
  bool column_major_;
};

__device__ inline int64_t share_of(const Window& w, bool with_pads, int64_t a, int64_t b, int64_t c) {
  if (with_pads) return w.padded(0, a) * w.padded(1, b) * w.padded(2, c);
  int64_t count = 1;
  const int64_t o[3] = {a, b, c};
  for (int axis = 0; axis < 3; ++axis) {
    int64_t first, last;
    w.taps(axis, o[axis], &first, &last);
    count *= last - first;
  }
  return count;
}

template <class T>
struct AveragePoolElements {
  Loop<Walk::kOperands> loop;
  Window w;
  Strides5 s;
  T* y;
  const T* x;
  bool with_pads;
  __device__ void operator()(int64_t i) const {
    int64_t at[Walk::kOperands];
    loop.at(i, at);
    const T* plane = x + at[1];
    T sum = T(0);
    each_tap(w, s.space, at[2], at[3], at[4], [&](int64_t, int64_t offset) { sum += plane[offset]; });
    y[at[0]] = sum / static_cast<T>(share_of(w, with_pads, at[2], at[3], at[4]));
  }
};

template <class T>
class AveragePool : public Kernel {
 public:
  explicit AveragePool(const NodeView& n)
      : walk_(walk_over(n.out(0), n.in(0))), w_(pool_window(n, n.in(0), n.out(0))), s_(strides_of(n.in(0))), with_pads_(n.attr_int("count_include_pad", 0) != 0) {}
  void run(const RunContext& c) override {
    each(c.stream, walk_.loop.count, AveragePoolElements<T>{walk_.loop, w_, s_, c.out<T>(0), c.in<T>(0), with_pads_});
  }

 private:
  Walk walk_;
  Window w_;
  Strides5 s_;
  bool with_pads_;
};

// A plane's mean.
template <class T>
struct PlaneMean {
  using A = double;
  T* y;
  const T* x;
  Loop<2> planes;  // y, x
  Loop<1> inside;  // x
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[2], in[1];
    planes.at(output, at);
    inside.at(element, in);
    a += static_cast<double>(x[at[1] + in[0]]);
  }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t output) const {
    int64_t at[2];
    planes.at(output, at);
    y[at[0]] = static_cast<T>(a / static_cast<double>(inside.count));
  }
};

template <class T>
class GlobalAveragePool : public Kernel {
 public:
  explicit GlobalAveragePool(const NodeView& n) {
    const TensorView &x = n.in(0), &y = n.out(0);
    const std::vector<int64_t> planes(x.dims.begin(), x.dims.begin() + 2), space(x.dims.begin() + 2, x.dims.end());
    planes_ = pack<2>({planes, {{y.strides[0], y.strides[1]}, {x.strides[0], x.strides[1]}}});
    inside_ = pack<1>({space, {std::vector<int64_t>(x.strides.begin() + 2, x.strides.end())}});
    plan_ = plan_reduce(planes_.count, inside_.count, x.strides[1] == 1 && x.dims[1] > 1);
  }
  size_t workspace() const override { return plan_.workspace<PlaneMean<T>>(); }
  void run(const RunContext& c) override { reduce(c.stream, plan_, PlaneMean<T>{c.out<T>(0), c.in<T>(0), planes_, inside_}, c.workspace); }

 private:
  Loop<2> planes_{};
  Loop<1> inside_{};
  ReducePlan plan_;
};

// ---- gradients ----

// f(offset in dY's plane, a, b, c) for the outputs whose window may cover input (p, q, r), in order.
template <class F>
__device__ void each_window(const Window& w, const int64_t (&strides)[3], int64_t p, int64_t q, int64_t r, F&& f) {
  int64_t first[3], last[3];
  w.covering(0, p, &first[0], &last[0]);
  w.covering(1, q, &first[1], &last[1]);
  w.covering(2, r, &first[2], &last[2]);
  for (int64_t a = first[0]; a < last[0]; ++a)
    for (int64_t b = first[1]; b < last[1]; ++b)
      for (int64_t c = first[2]; c < last[2]; ++c) f(a * strides[0] + b * strides[1] + c * strides[2], a, b, c);
}

template <class T>
struct Winners {
  Loop<Walk::kOperands> loop;  // over dY, X's planes
  Window w;
  Strides5 s;
  const T* x;
  int32_t* winner;  // at dY's offset
  __device__ void operator()(int64_t i) const {
    int64_t at[Walk::kOperands], where;
    loop.at(i, at);
    (void)largest(w, s, x + at[1], at[2], at[3], at[4], &where);
    winner[at[0]] = static_cast<int32_t>(where);
  }
};

template <class T>
struct MaxPoolGradElements {
  Loop<Walk::kOperands> loop;  // over dX, dY's planes
  Window w;
  Strides5 s;  // dY's
  T* dx;
  const T* dy;
  const int32_t* winner;
  __device__ void operator()(int64_t i) const {
    int64_t at[Walk::kOperands];
    loop.at(i, at);
    const int64_t here = (at[2] * w.in[1] + at[3]) * w.in[2] + at[4];
    T sum = T(0);
    each_window(w, s.space, at[2], at[3], at[4], [&](int64_t offset, int64_t, int64_t, int64_t) {
      if (winner[at[1] + offset] == here) sum += dy[at[1] + offset];
    });
    dx[at[0]] = sum;
  }
};

template <class T>
class MaxPoolGrad : public Kernel {
 public:
  explicit MaxPoolGrad(const NodeView& n)
      : outputs_(walk_over(n.in(0), n.in(1))), inputs_(walk_over(n.out(0), n.in(0))), w_(pool_window(n, n.in(1), n.in(0))), x_(strides_of(n.in(1))),
        dy_(strides_of(n.in(0))) {}
  size_t workspace() const override { return static_cast<size_t>(outputs_.loop.count) * sizeof(int32_t); }
  void run(const RunContext& c) override {
    auto* winner = c.space<int32_t>();
    each(c.stream, outputs_.loop.count, Winners<T>{outputs_.loop, w_, x_, c.in<T>(1), winner});
    each(c.stream, inputs_.loop.count, MaxPoolGradElements<T>{inputs_.loop, w_, dy_, c.out<T>(0), c.in<T>(0), winner});
  }

 private:
  Walk outputs_, inputs_;
  Window w_;
  Strides5 x_, dy_;
};

template <class T>
struct AveragePoolGradElements {
  Loop<Walk::kOperands> loop;  // over dX, dY's planes
  Window w;
  Strides5 s;  // dY's
  T* dx;
  const T* dy;
  bool with_pads;
  __device__ void operator()(int64_t i) const {
    int64_t at[Walk::kOperands];
    loop.at(i, at);
    T sum = T(0);
    each_window(w, s.space, at[2], at[3], at[4], [&](int64_t offset, int64_t a, int64_t b, int64_t c) {
      if (w.tap(0, at[2], a) < 0 || w.tap(1, at[3], b) < 0 || w.tap(2, at[4], c) < 0) return;
      sum += dy[at[1] + offset] / static_cast<T>(share_of(w, with_pads, a, b, c));
    });
    dx[at[0]] = sum;
  }
};

template <class T>
class AveragePoolGrad : public Kernel {
 public:
  explicit AveragePoolGrad(const NodeView& n)
      : walk_(walk_over(n.out(0), n.in(0))), w_(pool_window(n, n.out(0), n.in(0))), s_(strides_of(n.in(0))), with_pads_(n.attr_int("count_include_pad", 0) != 0) {}
  void run(const RunContext& c) override {
    each(c.stream, walk_.loop.count, AveragePoolGradElements<T>{walk_.loop, w_, s_, c.out<T>(0), c.in<T>(0), with_pads_});
  }

 private:
  Walk walk_;
  Window w_;
  Strides5 s_;
  bool with_pads_;
};

bool dense(const TensorView& t) { return !t.present() || t.row_major() || t.channels_last(); }
// Indices lie as Y does, and dY is dense: its offsets are places in the workspace.
std::string same_order(const NodeView& n) {
  if (n.out(1).present() && !n.out(1).same_layout(n.out(0))) return "Indices lie otherwise than Y";
  return dense(n.in(0)) ? "" : "input 0 has gaps";
}

}  // namespace

std::span<const KernelDef> pool_kernels() {
  static const KernelDef defs[] = {
      {.op = "MaxPool", .name = "taps", .can_run = same_order, .create = create_float<MaxPool>},
      {.op = "GlobalMaxPool", .name = "taps", .can_run = same_order, .create = create_float<MaxPool>},
      {.op = "AveragePool", .name = "taps", .can_run = any_layout, .create = create_float<AveragePool>},
      {.op = "GlobalAveragePool", .name = "tree", .can_run = any_layout, .create = create_float<GlobalAveragePool>},
      {.domain = "ai.engine", .op = "MaxPoolGrad", .name = "gather", .can_run = same_order, .create = create_float<MaxPoolGrad>},
      {.domain = "ai.engine", .op = "AveragePoolGrad", .name = "gather", .can_run = any_layout, .create = create_float<AveragePoolGrad>},
  };
  return defs;
}

}  // namespace eng::cuda
