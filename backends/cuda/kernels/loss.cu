// Losses of domain ai.engine and their gradients: SoftmaxCrossEntropy, SigmoidBinaryCrossEntropy, MeanSquaredError, MeanAbsoluteError.
// Operands are row-major [positions before, classes, positions after]. Sums are held in double, the mean is taken in a fixed order.
#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/kernels/log_sum_exp.h"

namespace eng::cuda {
namespace {

// Scores, labels and the node's options, as device code needs them.
template <class T>
struct Scores {
  const T* scores;
  const void* labels;
  bool probabilities, wide_labels;
  double smoothing;
  int64_t outer, classes, inner;

  __host__ __device__ int64_t positions() const { return outer * inner; }
  __device__ int64_t start(int64_t p) const { return p / inner * classes * inner + p % inner; }
  __device__ int64_t label(int64_t p) const {
    return wide_labels ? static_cast<const int64_t*>(labels)[p] : static_cast<int64_t>(static_cast<const int32_t*>(labels)[p]);
  }
  __device__ bool valid(int64_t p) const { return probabilities || (label(p) >= 0 && label(p) < classes); }
  // t'_k: the target with smoothing.
  __device__ double target(int64_t p, int64_t k) const {
    const double t = probabilities ? static_cast<double>(static_cast<const T*>(labels)[start(p) + k * inner]) : (label(p) == k ? 1.0 : 0.0);
    return t * (1 - smoothing) + smoothing / static_cast<double>(classes);
  }
};

template <class T>
Scores<T> scores_of(const NodeView& n, int scores, int labels) {
  Scores<T> s{};
  s.probabilities = n.in(labels).dtype == n.in(scores).dtype;
  s.wide_labels = n.in(labels).dtype == EB_INT64;
  s.smoothing = n.attr_float("label_smoothing", 0);
  s.outer = n.in(scores).dim(0);
  s.classes = n.in(scores).dim(1);
  s.inner = 1;
  for (int64_t i = 2; i < n.in(scores).rank(); ++i) s.inner *= n.in(scores).dim(i);
  return s;
}

// log-sum-exp of every position into the workspace's beginning.
template <class T>
class Positions {
 public:
  explicit Positions(const Scores<T>& s)
      : kept_(pack<2>({{s.outer, s.inner}, {{s.classes * s.inner, 1}, {s.classes * s.inner, 1}}})), step_(s.inner),
        plan_(plan_reduce(s.positions(), s.classes, s.inner > 1)) {}
  size_t bytes() const { return aligned(static_cast<size_t>(kept_.count) * sizeof(LogSum)) + aligned(plan_.workspace<LogSumExp<T>>()); }
  LogSum* run(const RunContext& c, const T* scores) const {
    auto* sums = c.space<LogSum>();
    reduce(c.stream, plan_, LogSumExp<T>{scores, kept_, step_, sums}, c.space(aligned(static_cast<size_t>(kept_.count) * sizeof(LogSum))));
    return sums;
  }

 private:
  Loop<2> kept_;
  int64_t step_;
  ReducePlan plan_;
};

template <class T>
struct PositionLoss {
  Scores<T> s;
  const LogSum* sums;
  double* losses;
  T* per_sample;
  __device__ double cost(int64_t p, int64_t k) const { return sums[p].log_sum - (static_cast<double>(s.scores[s.start(p) + k * s.inner]) - sums[p].most); }
  __device__ void operator()(int64_t p) const {
    double loss = 0;
    if (!s.valid(p)) loss = static_cast<double>(NAN);
    else if (!s.probabilities && s.smoothing == 0) loss = cost(p, s.label(p));
    else
      for (int64_t k = 0; k < s.classes; ++k) {
        const double t = s.target(p, k);
        if (t != 0) loss += t * cost(p, k);
      }
    losses[p] = loss;
    if (per_sample) per_sample[p] = static_cast<T>(loss);
  }
};

template <class T>
struct MeanOf {
  using A = double;
  const double* values;
  T* mean;
  double count;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t, int64_t i) const { a += values[i]; }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t) const { *mean = static_cast<T>(a / count); }
};

template <class T>
class CrossEntropy : public Kernel {
 public:
  explicit CrossEntropy(const NodeView& n) : s_(scores_of<T>(n, 0, 1)), positions_(s_), mean_(plan_reduce(1, s_.positions(), false)) {}
  size_t workspace() const override { return positions_.bytes() + losses_bytes() + mean_.workspace<MeanOf<T>>(); }
  void run(const RunContext& c) override {
    Scores<T> s = s_;
    s.scores = c.in<T>(0);
    s.labels = c.in(1);
    const LogSum* sums = positions_.run(c, s.scores);
    auto* losses = c.space<double>(positions_.bytes());
    each(c.stream, s.positions(), PositionLoss<T>{s, sums, losses, c.out<T>(1)});
    if (c.out(0)) reduce(c.stream, mean_, MeanOf<T>{losses, c.out<T>(0), static_cast<double>(s.positions())}, c.space(positions_.bytes() + losses_bytes()));
  }

 private:
  size_t losses_bytes() const { return aligned(static_cast<size_t>(s_.positions()) * sizeof(double)); }
  Scores<T> s_;
  Positions<T> positions_;
  ReducePlan mean_;
};

// A position's factor and the mass of its targets, where they are a distribution.
template <class T>
struct PositionScale {
  Scores<T> s;
  const T *dloss, *dsample;
  double* scales;  // scale, mass
  __device__ void operator()(int64_t p) const {
    double scale = dloss ? static_cast<double>(*dloss) / static_cast<double>(s.positions()) : 0;
    if (dsample) scale += static_cast<double>(dsample[p]);
    double mass = 1;
    if (s.probabilities) {
      mass = 0;
      for (int64_t k = 0; k < s.classes; ++k) mass += s.target(p, k);
    }
    scales[2 * p] = s.valid(p) ? scale : 0;
    scales[2 * p + 1] = mass;
  }
};

template <class T>
struct CrossEntropySlope {
  Scores<T> s;
  const LogSum* sums;
  const double* scales;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / s.inner, p = row / s.classes * s.inner + i % s.inner, k = row % s.classes;
    const double scale = scales[2 * p];
    if (scale == 0) {
      dx[i] = T(0);
      return;
    }
    const T e = std::exp(static_cast<T>(static_cast<double>(s.scores[i]) - sums[p].most));
    dx[i] = static_cast<T>(scale * (scales[2 * p + 1] * static_cast<double>(e) * sums[p].inverse - s.target(p, k)));
  }
};

// inputs: dloss, scores, labels, dper_sample.
template <class T>
class CrossEntropyGrad : public Kernel {
 public:
  explicit CrossEntropyGrad(const NodeView& n) : s_(scores_of<T>(n, 1, 2)), positions_(s_) {}
  size_t workspace() const override { return positions_.bytes() + static_cast<size_t>(s_.positions()) * 2 * sizeof(double); }
  void run(const RunContext& c) override {
    Scores<T> s = s_;
    s.scores = c.in<T>(1);
    s.labels = c.in(2);
    const LogSum* sums = positions_.run(c, s.scores);
    auto* scales = c.space<double>(positions_.bytes());
    each(c.stream, s.positions(), PositionScale<T>{s, c.in<T>(0), c.in<T>(3), scales});
    each(c.stream, s.positions() * s.classes, CrossEntropySlope<T>{s, sums, scales, c.out<T>(0)});
  }

 private:
  Scores<T> s_;
  Positions<T> positions_;
};

// ---- mean over all elements of a function of (x, t) ----

enum class Of : int32_t { kBinary, kSquared, kAbsolute };
Of of(const NodeView& n) {
  return n.op().substr(0, 7) == "Sigmoid" ? Of::kBinary : n.op().substr(0, 11) == "MeanSquared" ? Of::kSquared : Of::kAbsolute;
}

template <class T>
struct MeanLossOf {
  using A = double;
  const T *x, *t;
  T* mean;
  Of of;
  double count;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t, int64_t i) const {
    const T u = x[i], v = t[i], d = u - v;
    T loss = std::fabs(d);
    if (of == Of::kSquared) loss = d * d;
    if (of == Of::kBinary) loss = std::log1p(std::exp(-std::fabs(u))) + (u > T(0) ? u : T(0)) - u * v;
    a += static_cast<double>(loss);
  }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t) const { *mean = static_cast<T>(a / count); }
};

template <class T>
class MeanLoss : public Kernel {
 public:
  explicit MeanLoss(const NodeView& n) : of_(of(n)), plan_(plan_reduce(1, n.in(0).count(), false)) {}
  size_t workspace() const override { return plan_.workspace<MeanLossOf<T>>(); }
  void run(const RunContext& c) override {
    reduce(c.stream, plan_, MeanLossOf<T>{c.in<T>(0), c.in<T>(1), c.out<T>(0), of_, static_cast<double>(plan_.elements)}, c.workspace);
  }

 private:
  Of of_;
  ReducePlan plan_;
};

template <class T>
struct MeanLossSlope {
  const T *dloss, *x, *t;
  T* dx;
  Of of;
  double count;
  __device__ void operator()(int64_t i) const {
    const T u = x[i], v = t[i], d = u - v;
    T slope = d > T(0) ? T(1) : (d < T(0) ? T(-1) : T(0));
    if (of == Of::kSquared) slope = T(2) * d;
    if (of == Of::kBinary) slope = T(1) / (T(1) + std::exp(-u)) - v;
    dx[i] = slope * static_cast<T>(static_cast<double>(*dloss) / count);
  }
};

template <class T>
class MeanLossGrad : public Kernel {
 public:
  explicit MeanLossGrad(const NodeView& n) : of_(of(n)), count_(n.in(1).count()) {}
  void run(const RunContext& c) override {
    each(c.stream, count_, MeanLossSlope<T>{c.in<T>(0), c.in<T>(1), c.in<T>(2), c.out<T>(0), of_, static_cast<double>(count_)});
  }

 private:
  Of of_;
  int64_t count_;
};

}  // namespace

std::span<const KernelDef> loss_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    auto add = [&](const char* op, decltype(KernelDef::create) create, std::vector<Alias> aliases = {}) {
      all.push_back({.domain = "ai.engine", .op = op, .aliases = std::move(aliases), .create = create});
    };
    add("SoftmaxCrossEntropy", create_float<CrossEntropy>);
    add("SoftmaxCrossEntropyGrad", create_float<CrossEntropyGrad>);
    for (const char* op : {"SigmoidBinaryCrossEntropy", "MeanSquaredError", "MeanAbsoluteError"}) add(op, create_float<MeanLoss>);
    for (const char* op : {"SigmoidBinaryCrossEntropyGrad", "MeanSquaredErrorGrad", "MeanAbsoluteErrorGrad"})
      add(op, create_float<MeanLossGrad>, {{EB_ALIAS_IN_PLACE, 0, 1}});
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
