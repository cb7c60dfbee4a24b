// BatchNormalization, BatchNormTraining, BatchNormGrad: own kernels (cuDNN's running variance is another one). Formulas: graph/ops/batch_norm.cpp.
// A reduction over a channel's values gives what the channel needs, one pass over the elements applies it. Deviations are summed from the
// channel's first value on, in double, so that a mean far above the deviation costs no accuracy.
#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"
#include "backends/cuda/reduce.h"

namespace eng::cuda {
namespace {

// How X (and dY) lie: one channel's values, and all elements with their channel.
struct Channels {
  int64_t count = 1, values = 1;
  Loop<2> inside;     // X, dY: a channel's values
  int64_t step[2];    // X, dY: from channel to channel
  Loop<4> all;        // result, X, dY, channel
  bool side_by_side = false;
};

Channels channels_of(const TensorView& result, const TensorView& x, const TensorView& dy) {
  Channels c{};
  const size_t axis = 1;
  const bool has_axis = x.dims.size() > axis;
  c.count = has_axis ? x.dims[axis] : 1;
  Box inside = box_of({&x, &dy});
  if (has_axis) inside.dims[axis] = 1;
  c.inside = pack<2>(inside);
  c.values = c.inside.count;
  c.step[0] = has_axis ? x.strides[axis] : 0;
  c.step[1] = has_axis ? dy.strides[axis] : 0;
  Box all = box_of({&result, &x, &dy});
  all.strides.emplace_back(x.dims.size(), 0);
  if (has_axis) all.strides.back()[axis] = 1;
  c.all = pack<4>(all);
  c.side_by_side = c.step[0] == 1 && c.count > 1;
  return c;
}

bool has_relu(const NodeView& n) { return n.attr_string("activation", "") == "Relu"; }

template <class T>
struct Normalise {
  Loop<4> loop;
  T* y;
  const T *x, *mean, *factor, *shift;
  bool relu;
  __device__ void operator()(int64_t i) const {
    int64_t at[4];
    loop.at(i, at);
    const T v = (x[at[1]] - mean[at[3]]) * factor[at[3]] + shift[at[3]];
    y[at[0]] = relu && v < T(0) ? T(0) : v;
  }
};

template <class T>
struct InferenceFactor {
  T* factor;
  const T *scale, *variance;
  double epsilon;
  __device__ void operator()(int64_t c) const { factor[c] = static_cast<T>(static_cast<double>(scale[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon)); }
};

template <class T>
class Inference : public Kernel {
 public:
  explicit Inference(const NodeView& n) : c_(channels_of(n.out(0), n.in(0), n.in(0))), epsilon_(n.attr_float("epsilon", 1e-5)), relu_(has_relu(n)) {}
  size_t workspace() const override { return static_cast<size_t>(c_.count) * sizeof(T); }
  void run(const RunContext& c) override {
    T* factor = c.space<T>();
    each(c.stream, c_.count, InferenceFactor<T>{factor, c.in<T>(1), c.in<T>(4), epsilon_});
    each(c.stream, c_.all.count, Normalise<T>{c_.all, c.out<T>(0), c.in<T>(0), c.in<T>(3), factor, c.in<T>(2), relu_});
  }

 private:
  Channels c_;
  double epsilon_;
  bool relu_;
};

template <class T>
struct Statistics {
  struct A {
    double sum, squares;  // of x - first value
  };
  const T* x;
  Loop<2> inside;
  int64_t step;
  double epsilon, momentum;
  const T *scale, *old_mean, *old_variance;
  T *mean, *factor;                                               // for Normalise
  T *running_mean, *running_variance, *saved_mean, *saved_inverse;  // null where not wanted

  __device__ double first(int64_t c) const { return static_cast<double>(x[c * step]); }
  __device__ A start() const { return {0, 0}; }
  __device__ void take(A& a, int64_t c, int64_t i) const {
    int64_t at[2];
    inside.at(i, at);
    const double d = static_cast<double>(x[c * step + at[0]]) - first(c);
    a.sum += d;
    a.squares += d * d;
  }
  __device__ void join(A& a, const A& b) const {
    a.sum += b.sum;
    a.squares += b.squares;
  }
  __device__ void finish(const A& a, int64_t c) const {
    const double n = static_cast<double>(inside.count), away = n > 0 ? a.sum / n : 0;
    const double average = n > 0 ? first(c) + away : 0, keep = n > 0 ? momentum : 1;
    double variance = n > 0 ? a.squares / n - away * away : 0;
    if (variance < 0) variance = 0;
    const double inverse = 1 / std::sqrt(variance + epsilon);
    if (running_mean) running_mean[c] = static_cast<T>(static_cast<double>(old_mean[c]) * keep + average * (1 - keep));
    if (running_variance) running_variance[c] = static_cast<T>(static_cast<double>(old_variance[c]) * keep + variance * (1 - keep));
    if (saved_mean) saved_mean[c] = static_cast<T>(average);
    if (saved_inverse) saved_inverse[c] = static_cast<T>(inverse);
    mean[c] = static_cast<T>(average);
    factor[c] = scale[c] * static_cast<T>(inverse);
  }
};

template <class T>
class Training : public Kernel {
 public:
  explicit Training(const NodeView& n)
      : c_(channels_of(n.in(0), n.in(0), n.in(0))), plan_(plan_reduce(c_.count, c_.values, c_.side_by_side)), epsilon_(n.attr_float("epsilon", 1e-5)),
        momentum_(n.attr_float("momentum", 0.9)), relu_(has_relu(n)) {}
  size_t workspace() const override { return 2 * row() + plan_.workspace<Statistics<T>>(); }
  void run(const RunContext& c) override {
    T *mean = c.space<T>(), *factor = c.space<T>(row());
    reduce(c.stream, plan_,
           Statistics<T>{c.in<T>(0), c_.inside, c_.step[0], epsilon_, momentum_, c.in<T>(1), c.in<T>(3), c.in<T>(4), mean, factor, c.out<T>(1), c.out<T>(2), c.out<T>(3),
                         c.out<T>(4)},
           c.space(2 * row()));
    if (c.out(0)) each(c.stream, c_.all.count, Normalise<T>{c_.all, c.out<T>(0), c.in<T>(0), mean, factor, c.in<T>(2), relu_});
  }

 private:
  size_t row() const { return aligned(static_cast<size_t>(c_.count) * sizeof(T)); }
  Channels c_;
  ReducePlan plan_;
  double epsilon_, momentum_;
  bool relu_;
};

// dY where the ReLU was on, recomputed from X.
template <class T>
__device__ T passed(T dy, T deviation, T factor, T shift, bool relu) {
  return relu && !(deviation * factor + shift > T(0)) ? T(0) : dy;
}

// Sums of g and of g * (x - mean).
template <class T>
struct GradientSums {
  struct A {
    double g, product;
  };
  const T *x, *dy;
  Loop<2> inside;
  int64_t step_x, step_dy;
  const T *scale, *shift, *mean, *inverse;
  bool relu, frozen;
  T *dscale, *dshift;  // null where not wanted
  T *k1, *k2;          // for GradientElements

  __device__ A start() const { return {0, 0}; }
  __device__ void take(A& a, int64_t c, int64_t i) const {
    int64_t at[2];
    inside.at(i, at);
    const T d = x[c * step_x + at[0]] - mean[c];
    const double g = static_cast<double>(passed(dy[c * step_dy + at[1]], d, scale[c] * inverse[c], shift[c], relu));
    a.g += g;
    a.product += g * static_cast<double>(d);
  }
  __device__ void join(A& a, const A& b) const {
    a.g += b.g;
    a.product += b.product;
  }
  __device__ void finish(const A& a, int64_t c) const {
    const double n = inside.count > 0 ? static_cast<double>(inside.count) : 1, inv = static_cast<double>(inverse[c]);
    if (dscale) dscale[c] = static_cast<T>(a.product * inv);
    if (dshift) dshift[c] = static_cast<T>(a.g);
    k1[c] = frozen ? T(0) : static_cast<T>(a.g / n);
    k2[c] = frozen ? T(0) : static_cast<T>(a.product * inv * inv / n);
  }
};

// dX = factor * (g - k1 - (x - mean) * k2)
template <class T>
struct GradientElements {
  Loop<4> loop;
  T* dx;
  const T *x, *dy, *scale, *shift, *mean, *inverse, *k1, *k2;
  bool relu;
  __device__ void operator()(int64_t i) const {
    int64_t at[4];
    loop.at(i, at);
    const int64_t c = at[3];
    const T factor = scale[c] * inverse[c], d = x[at[1]] - mean[c];
    dx[at[0]] = factor * (passed(dy[at[2]], d, factor, shift[c], relu) - k1[c] - d * k2[c]);
  }
};

template <class T>
class Gradient : public Kernel {
 public:
  explicit Gradient(const NodeView& n)
      : c_(channels_of(n.out(0).present() ? n.out(0) : n.in(1), n.in(1), n.in(0))), plan_(plan_reduce(c_.count, c_.values, c_.side_by_side)), relu_(has_relu(n)),
        frozen_(n.attr_int("frozen", 0) != 0) {}
  size_t workspace() const override { return 2 * row() + plan_.workspace<GradientSums<T>>(); }
  void run(const RunContext& c) override {
    T *k1 = c.space<T>(), *k2 = c.space<T>(row());
    const T *dy = c.in<T>(0), *x = c.in<T>(1), *scale = c.in<T>(2), *shift = c.in<T>(3), *mean = c.in<T>(4), *inverse = c.in<T>(5);
    reduce(c.stream, plan_,
           GradientSums<T>{x, dy, c_.inside, c_.step[0], c_.step[1], scale, shift, mean, inverse, relu_, frozen_, c.out<T>(1), c.out<T>(2), k1, k2}, c.space(2 * row()));
    if (c.out(0)) each(c.stream, c_.all.count, GradientElements<T>{c_.all, c.out<T>(0), x, dy, scale, shift, mean, inverse, k1, k2, relu_});
  }

 private:
  size_t row() const { return aligned(static_cast<size_t>(c_.count) * sizeof(T)); }
  Channels c_;
  ReducePlan plan_;
  bool relu_, frozen_;
};

std::string inference_form(const NodeView& n) { return n.attr_int("training_mode", 0) == 0 ? "" : "training_mode is 1; a training step has BatchNormTraining instead"; }

}  // namespace

std::span<const KernelDef> batch_norm_kernels() {
  static const KernelDef defs[] = {
      {.op = "BatchNormalization", .name = "channels", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = inference_form, .create = create_float<Inference>},
      {.domain = "ai.engine", .op = "BatchNormTraining", .name = "channels", .can_run = any_layout, .create = create_float<Training>},
      {.domain = "ai.engine", .op = "BatchNormGrad", .name = "channels", .can_run = any_layout, .create = create_float<Gradient>},
  };
  return defs;
}

}  // namespace eng::cuda
