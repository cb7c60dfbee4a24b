// Losses and their gradients: SoftmaxCrossEntropy (and ONNX's SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss: one kernel
// with options), SigmoidBinaryCrossEntropy, MeanSquaredError, MeanAbsoluteError. Operands are row-major [positions before,
// classes, positions after]. Exponentials in the element type, sums in double, the mean over positions in a fixed order.
#include <cmath>

#include "backends/cpu/reduction.h"
#include "backends/cpu/vector_math.h"

namespace eng::cpu {
namespace {

struct Options {
  bool softmax = true;        // scores are logits; else log probabilities
  bool probabilities = false; // labels are a distribution, not a number
  bool wide_labels = true;    // int64, else int32
  bool weighted = false;
  bool has_ignored = false;
  int64_t ignored = 0;
  double smoothing = 0;
  enum { kMean, kSum, kNone } reduction = kMean;
  int64_t outer = 1, classes = 1, inner = 1;
  int64_t positions() const { return outer * inner; }
};

Options read_options(const NodeView& n, int scores, int labels, int weights) {
  Options o;
  o.softmax = n.op().find("NegativeLogLikelihood") == std::string_view::npos;
  o.probabilities = n.in(labels).dtype == n.in(scores).dtype;
  o.wide_labels = n.in(labels).dtype == EB_INT64;
  o.weighted = weights >= 0 && n.in(weights).present();
  o.has_ignored = n.has_attr("ignore_index");
  o.ignored = n.attr_int("ignore_index", 0);
  o.smoothing = n.attr_float("label_smoothing", 0);
  const std::string reduction = n.attr_string("reduction", "mean");
  o.reduction = reduction == "sum" ? Options::kSum : reduction == "none" ? Options::kNone : Options::kMean;
  const TensorView& s = n.in(scores);
  o.outer = s.dim(0);
  o.classes = s.dim(1);
  for (int64_t i = 2; i < s.rank(); ++i) o.inner *= s.dim(i);
  return o;
}

template <class T>
struct Operands {
  const Options& o;
  const T* scores;
  const void* labels;
  const T* weights;
  int64_t label(int64_t p) const { return o.wide_labels ? static_cast<const int64_t*>(labels)[p] : static_cast<const int32_t*>(labels)[p]; }
  int64_t start(int64_t p) const { return p / o.inner * o.classes * o.inner + p % o.inner; }
  // Weight of position p's loss; NaN where the label is out of range.
  double weight(int64_t p) const {
    if (o.probabilities) return 1;
    const int64_t l = label(p);
    if (o.has_ignored && l == o.ignored) return 0;
    if (l < 0 || l >= o.classes) return std::nan("");
    return weights ? static_cast<double>(weights[l]) : 1;
  }
};

// Largest score and log of the sum of exponentials over it.
template <class T>
void log_sum_exp(const T* x, int64_t classes, int64_t step, T* most, double* log_sum) {
  T m = x[0];
  for (int64_t k = 1; k < classes; ++k) m = x[k * step] > m ? x[k * step] : m;
  double sum = 0;
  if (step == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < classes; ++k) sum += static_cast<double>(fast_exp(x[k] - m));
  } else {
    for (int64_t k = 0; k < classes; ++k) sum += static_cast<double>(fast_exp(x[k * step] - m));
  }
  *most = m;
  *log_sum = std::log(sum);
}

template <class T>
class CrossEntropy : public Kernel {
 public:
  explicit CrossEntropy(const NodeView& n)
      : o_(read_options(n, 0, 1, 2)), own_(n.domain() == "ai.engine"), has_second_(n.output_count() > 1) {}
  // Loss and weight of each position.
  size_t workspace() const override { return 2 * static_cast<size_t>(o_.positions()) * sizeof(double); }
  void run(const RunContext& c) override {
    const Operands<T> in{o_, c.in<T>(0), c.inputs[1], o_.weighted ? c.in<T>(2) : nullptr};
    auto* losses = static_cast<double*>(c.workspace);
    double* weights = losses + o_.positions();
    T* log_probabilities = own_ ? nullptr : second(c);
    parallel_items(o_.positions(), o_.classes * 8, [&](int64_t p) {
      weights[p] = in.weight(p);
      losses[p] = weights[p] == 0 ? 0 : weights[p] * loss(in, p);
      if (weights[p] == 0 && !log_probabilities) return;
      if (log_probabilities) write_log_probabilities(in.scores + in.start(p), log_probabilities + in.start(p));
    });
    finish(c, losses, weights);
  }

 private:
  T* second(const RunContext& c) const { return o_.softmax && has_second_ ? c.out<T>(1) : nullptr; }
  double loss(const Operands<T>& in, int64_t p) const {
    const T* x = in.scores + in.start(p);
    if (std::isnan(in.weight(p))) return 0;  // times NaN
    if (!o_.softmax) return -static_cast<double>(x[in.label(p) * o_.inner]);
    T most;
    double log_sum;
    log_sum_exp(x, o_.classes, o_.inner, &most, &log_sum);
    auto cost = [&](int64_t k) { return log_sum - static_cast<double>(x[k * o_.inner] - most); };
    if (!o_.probabilities && o_.smoothing == 0) return cost(in.label(p));
    const T* t = o_.probabilities ? static_cast<const T*>(in.labels) + in.start(p) : nullptr;
    double sum = 0;
    for (int64_t k = 0; k < o_.classes; ++k) {
      double target = t ? static_cast<double>(t[k * o_.inner]) : (k == in.label(p) ? 1.0 : 0.0);
      target = target * (1 - o_.smoothing) + o_.smoothing / static_cast<double>(o_.classes);
      if (target != 0) sum += target * cost(k);
    }
    return sum;
  }
  void write_log_probabilities(const T* x, T* y) const {
    T most;
    double log_sum;
    log_sum_exp(x, o_.classes, o_.inner, &most, &log_sum);
    for (int64_t k = 0; k < o_.classes; ++k) y[k * o_.inner] = static_cast<T>(static_cast<double>(x[k * o_.inner] - most) - log_sum);
  }
  void finish(const RunContext& c, const double* losses, const double* weights) const {
    const int64_t count = o_.positions();
    T* per_sample = own_ ? (has_second_ ? c.out<T>(1) : nullptr) : o_.reduction == Options::kNone ? c.out<T>(0) : nullptr;
    if (per_sample)
      for (int64_t p = 0; p < count; ++p) per_sample[p] = static_cast<T>(losses[p]);
    if (!own_ && o_.reduction == Options::kNone) return;
    double sum = 0, weight = 0;
    for (int64_t p = 0; p < count; ++p) sum += losses[p], weight += weights[p];
    if (o_.reduction == Options::kMean) sum /= weight;
    if (c.outputs[0]) *c.out<T>(0) = static_cast<T>(sum);
  }
  Options o_;
  bool own_, has_second_;
};

// inputs: dloss, scores, labels, and weights (ONNX's) or dper_sample (ours).
template <class T>
class CrossEntropyGrad : public Kernel {
 public:
  explicit CrossEntropyGrad(const NodeView& n) : own_(n.op() == "SoftmaxCrossEntropyGrad"), per_sample_(own_ && n.in(3).present()) {
    o_ = read_options(n, 1, 2, own_ ? -1 : 3);
  }
  void run(const RunContext& c) override {
    const Operands<T> in{o_, c.in<T>(1), c.inputs[2], o_.weighted ? c.in<T>(3) : nullptr};
    double divisor = 1;
    if (o_.reduction == Options::kMean) {
      divisor = 0;
      for (int64_t p = 0; p < o_.positions(); ++p) {
        const double w = in.weight(p);
        divisor += std::isnan(w) ? 0 : w;
      }
    }
    const T *dloss = c.in<T>(0), *dsample = per_sample_ ? c.in<T>(3) : nullptr;
    parallel_items(o_.positions(), o_.classes * 8, [&](int64_t p) {
      double scale = 0;
      if (dloss) scale = static_cast<double>(dloss[o_.reduction == Options::kNone ? p : 0]) / divisor;
      if (dsample) scale += static_cast<double>(dsample[p]);
      const double w = in.weight(p);
      one(in, p, std::isnan(w) || w == 0 ? 0 : w * scale, c.out<T>(0) + in.start(p));
    });
  }

 private:
  void one(const Operands<T>& in, int64_t p, double scale, T* dx) const {
    const int64_t step = o_.inner;
    const T* x = in.scores + in.start(p);
    if (scale == 0 || !o_.softmax) {
      for (int64_t k = 0; k < o_.classes; ++k) dx[k * step] = T(0);
      if (scale != 0) dx[in.label(p) * step] = static_cast<T>(-scale);
      return;
    }
    T most;
    double log_sum;
    log_sum_exp(x, o_.classes, step, &most, &log_sum);
    const T* t = o_.probabilities ? static_cast<const T*>(in.labels) + in.start(p) : nullptr;
    double mass = 1;
    if (t) {
      mass = 0;
      for (int64_t k = 0; k < o_.classes; ++k) mass += static_cast<double>(t[k * step]);
      mass = mass * (1 - o_.smoothing) + o_.smoothing;
    }
    const T keep = static_cast<T>(scale * (1 - o_.smoothing)), even = static_cast<T>(scale * o_.smoothing / static_cast<double>(o_.classes));
    const T factor = static_cast<T>(scale * mass * std::exp(-log_sum));
    for (int64_t k = 0; k < o_.classes; ++k) dx[k * step] = factor * fast_exp(x[k * step] - most) - even - (t ? keep * t[k * step] : T(0));
    if (!t) dx[in.label(p) * step] -= keep;
  }
  bool own_, per_sample_;
  Options o_;
};

// ---- mean over all elements of a function of (x, t) ----

struct Binary {
  template <class T> static T loss(T x, T t) { return softplus(x > T(0) ? -x : x) + (x > T(0) ? x : T(0)) - x * t; }
  template <class T> static T slope(T x, T t) { return fast_sigmoid(x) - t; }
};
struct Squared {
  template <class T> static T loss(T x, T t) { return (x - t) * (x - t); }
  template <class T> static T slope(T x, T t) { return T(2) * (x - t); }
};
struct Absolute {
  template <class T> static T loss(T x, T t) { return std::fabs(x - t); }
  template <class T> static T slope(T x, T t) { return x > t ? T(1) : (x < t ? T(-1) : T(0)); }
};

template <class F, class T>
class MeanLoss : public Kernel {
 public:
  explicit MeanLoss(const NodeView& n) : count_(n.in(0).count()) {}
  size_t workspace() const override { return sum_workspace(count_); }
  void run(const RunContext& c) override {
    const T *x = c.in<T>(0), *t = c.in<T>(1);
    const double sum = blocked_sum(count_, static_cast<double*>(c.workspace), [=](int64_t i) { return F::loss(x[i], t[i]); });
    *c.out<T>(0) = static_cast<T>(sum / static_cast<double>(count_));
  }

 private:
  int64_t count_;
};

template <class F, class T>
class MeanLossGrad : public Kernel {
 public:
  explicit MeanLossGrad(const NodeView& n) : count_(n.in(1).count()) {}
  void run(const RunContext& c) override {
    const T *x = c.in<T>(1), *t = c.in<T>(2);
    T* dx = c.out<T>(0);
    const T scale = static_cast<T>(static_cast<double>(*c.in<T>(0)) / static_cast<double>(count_));
    parallel_range(count_, 4, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) dx[i] = F::slope(x[i], t[i]) * scale;
    });
  }

 private:
  int64_t count_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create(const NodeView& n, int) {
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(n.in(0).present() ? 0 : 1).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n); });
  return k;
}
template <template <class, class> class K, class F>
std::unique_ptr<Kernel> create_mean(const NodeView& n, int) {
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<K<F, decltype(t)>>(n); });
  return k;
}

}  // namespace

std::span<const KernelDef> loss_kernels() {
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "SoftmaxCrossEntropy", .types = kFloats, .create = create<CrossEntropy>},
      {.domain = "ai.engine", .op = "SoftmaxCrossEntropyGrad", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 1}}, .create = create<CrossEntropyGrad>},
      {.op = "SoftmaxCrossEntropyLoss", .types = kFloats, .create = create<CrossEntropy>},
      {.op = "NegativeLogLikelihoodLoss", .types = kFloats, .create = create<CrossEntropy>},
      {.domain = "ai.engine", .op = "SoftmaxCrossEntropyLossGrad", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 1}}, .create = create<CrossEntropyGrad>},
      {.domain = "ai.engine", .op = "NegativeLogLikelihoodLossGrad", .types = kFloats, .create = create<CrossEntropyGrad>},
      {.domain = "ai.engine", .op = "SigmoidBinaryCrossEntropy", .types = kFloats, .create = create_mean<MeanLoss, Binary>},
      {.domain = "ai.engine", .op = "MeanSquaredError", .types = kFloats, .create = create_mean<MeanLoss, Squared>},
      {.domain = "ai.engine", .op = "MeanAbsoluteError", .types = kFloats, .create = create_mean<MeanLoss, Absolute>},
      {.domain = "ai.engine", .op = "SigmoidBinaryCrossEntropyGrad", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 1}},
       .create = create_mean<MeanLossGrad, Binary>},
      {.domain = "ai.engine", .op = "MeanSquaredErrorGrad", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 1}},
       .create = create_mean<MeanLossGrad, Squared>},
      {.domain = "ai.engine", .op = "MeanAbsoluteErrorGrad", .types = kFloats, .aliases = {{EB_ALIAS_IN_PLACE, 0, 1}},
       .create = create_mean<MeanLossGrad, Absolute>},
  };
  return defs;
}

}  // namespace eng::cpu
