// Softmax, LogSoftmax and their gradients over one axis of tensors in any layout: a reduction along the axis into the workspace, then one
// pass over the elements. Sums are held in double.
#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/kernels/log_sum_exp.h"
#include "backends/cuda/loop.h"

namespace eng::cuda {
namespace {

// What lies along the axis, and the positions beside it, numbered as pack() walks them.
struct Axis {
  size_t at = 0;
  int64_t extent = 0;
  Loop<2> kept;                  // two operands without the axis
  std::vector<int64_t> numbers;  // strides whose offsets are the positions' numbers
};

Axis axis_of(const NodeView& n, const TensorView& first, const TensorView& second) {
  Axis a;
  const int64_t axis = n.attr_int("axis", -1);
  a.at = static_cast<size_t>(axis < 0 ? axis + first.rank() : axis);
  a.extent = first.dims[a.at];
  Box kept = box_of({&first, &second});
  kept.dims[a.at] = 1;
  a.kept = pack<2>(kept);
  std::vector<size_t> order;
  for (size_t i = 0; i < first.dims.size(); ++i)
    if (i != a.at) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) { return std::abs(kept.strides[0][p]) > std::abs(kept.strides[0][q]); });
  a.numbers.assign(first.dims.size(), 0);
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0; step *= first.dims[order[i]]) a.numbers[order[i]] = step;
  return a;
}

// y's walk with the operands and the position's number.
template <int N>
Loop<N> walk(const Axis& a, const std::vector<const TensorView*>& operands) {
  Box box = box_of(operands);
  box.strides.push_back(a.numbers);
  return pack<N>(box);
}

template <class T>
struct SoftmaxElements {
  Loop<3> loop;
  T* y;
  const T* x;
  const LogSum* sums;
  bool logarithm;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    loop.at(i, at);
    const LogSum& s = sums[at[2]];
    const T d = static_cast<T>(static_cast<double>(x[at[1]]) - s.most);
    y[at[0]] = logarithm ? static_cast<T>(static_cast<double>(d) - s.log_sum) : static_cast<T>(static_cast<double>(std::exp(d)) * s.inverse);
  }
};

template <class T>
class Softmax : public Kernel {
 public:
  explicit Softmax(const NodeView& n)
      : axis_(axis_of(n, n.in(0), n.in(0))), all_(walk<3>(axis_, {&n.out(0), &n.in(0)})), step_(n.in(0).strides[axis_.at]),
        plan_(plan_reduce(axis_.kept.count, axis_.extent, step_ != 1)), logarithm_(n.op() == "LogSoftmax") {}
  size_t workspace() const override { return sums_bytes() + plan_.workspace<LogSumExp<T>>(); }
  void run(const RunContext& c) override {
    if (all_.count == 0) return;
    auto* sums = c.space<LogSum>();
    reduce(c.stream, plan_, LogSumExp<T>{c.in<T>(0), axis_.kept, step_, sums}, c.space(sums_bytes()));
    each(c.stream, all_.count, SoftmaxElements<T>{all_, c.out<T>(0), c.in<T>(0), sums, logarithm_});
  }

 private:
  size_t sums_bytes() const { return aligned(static_cast<size_t>(axis_.kept.count) * sizeof(LogSum)); }
  Axis axis_;
  Loop<3> all_;
  int64_t step_;
  ReducePlan plan_;
  bool logarithm_;
};

// Softmax: sum of dy y; LogSoftmax: sum of dy.
template <class T>
struct Dot {
  using A = double;
  const T *dy, *y;
  Loop<2> kept;
  int64_t step_dy, step_y;
  bool logarithm;
  double* sums;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[2];
    kept.at(output, at);
    const double g = static_cast<double>(dy[at[0] + element * step_dy]);
    a += logarithm ? g : g * static_cast<double>(y[at[1] + element * step_y]);
  }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t output) const { sums[output] = a; }
};

template <class T>
struct SoftmaxGradElements {
  Loop<4> loop;  // dx, dy, y, number of the position
  T* dx;
  const T *dy, *y;
  const double* sums;
  bool logarithm;
  __device__ void operator()(int64_t i) const {
    int64_t at[4];
    loop.at(i, at);
    const double g = static_cast<double>(dy[at[1]]), s = sums[at[3]];
    const T v = y[at[2]];
    dx[at[0]] = static_cast<T>(logarithm ? g - static_cast<double>(std::exp(v)) * s : static_cast<double>(v) * (g - s));
  }
};

template <class T>
class SoftmaxGrad : public Kernel {
 public:
  explicit SoftmaxGrad(const NodeView& n)
      : axis_(axis_of(n, n.in(0), n.in(1))), all_(walk<4>(axis_, {&n.out(0), &n.in(0), &n.in(1)})), step_dy_(n.in(0).strides[axis_.at]),
        step_y_(n.in(1).strides[axis_.at]), plan_(plan_reduce(axis_.kept.count, axis_.extent, step_dy_ != 1)), logarithm_(n.op() == "LogSoftmaxGrad") {}
  size_t workspace() const override { return sums_bytes() + plan_.workspace<Dot<T>>(); }
  void run(const RunContext& c) override {
    if (all_.count == 0) return;
    auto* sums = c.space<double>();
    reduce(c.stream, plan_, Dot<T>{c.in<T>(0), c.in<T>(1), axis_.kept, step_dy_, step_y_, logarithm_, sums}, c.space(sums_bytes()));
    each(c.stream, all_.count, SoftmaxGradElements<T>{all_, c.out<T>(0), c.in<T>(0), c.in<T>(1), sums, logarithm_});
  }

 private:
  size_t sums_bytes() const { return aligned(static_cast<size_t>(axis_.kept.count) * sizeof(double)); }
  Axis axis_;
  Loop<4> all_;
  int64_t step_dy_, step_y_;
  ReducePlan plan_;
  bool logarithm_;
};

}  // namespace

std::span<const KernelDef> softmax_kernels() {
  static const KernelDef defs[] = {
      {.op = "Softmax", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<Softmax>},
      {.op = "LogSoftmax", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<Softmax>},
      {.domain = "ai.engine", .op = "SoftmaxGrad", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<SoftmaxGrad>},
      {.domain = "ai.engine", .op = "LogSoftmaxGrad", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout, .create = create_float<SoftmaxGrad>},
  };
  return defs;
}

}  // namespace eng::cuda
