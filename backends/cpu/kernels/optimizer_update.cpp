// Optimiser updates in one pass over the parameter, in place; the formulas stand in graph/ops/optimizer_update.cpp. Also
// GlobalNorm and ClipScale for clipping by norm, and ai.onnx.preview.training's Adam, Adagrad and Momentum.
#include <charconv>
#include <cmath>

#include "backends/cpu/reduction.h"

namespace eng::cpu {
namespace {

// Attributes are float32, but people mean decimals: 0.999f is 0.99900001287 and its complement wrong in the fifth digit.
// The shortest decimal that rounds to the float is what was meant.
double decimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double exact = value;
  std::from_chars(text, end, exact);
  return exact;
}
double attribute(const NodeView& n, const char* name, float fallback) { return decimal(static_cast<float>(n.attr_float(name, fallback))); }

// What all updates do to the gradient first.
template <class T>
struct Gradient {
  T scale, limit, l2;
  T operator()(T g, T w) const {
    T v = g * scale;
    v = v > limit ? limit : (v < -limit ? -limit : v);
    return v + l2 * w;
  }
};

template <class T>
class Update : public Kernel {
 public:
  Update(const NodeView& n, int states) : count_(n.in(0).count()), rate_(2 + states) {
    const int scale = n.op() == "AdamUpdate" ? 6 : 3 + states;  // last, where it is there
    scale_ = n.in(scale).present() ? scale : -1;
    limit_ = attribute(n, "clip_value", 0);
    l2_ = attribute(n, "l2", 0);
  }

 protected:
  Gradient<T> gradient(const RunContext& c) const {
    const T none = std::numeric_limits<T>::infinity();
    return {scale_ < 0 ? T(1) : static_cast<T>(*c.in<float>(scale_)), limit_ > 0 ? static_cast<T>(limit_) : none, static_cast<T>(l2_)};
  }
  double rate(const RunContext& c) const { return static_cast<double>(*c.in<float>(rate_)); }
  int64_t count_;

 private:
  int rate_, scale_;
  double limit_, l2_;
};

template <class T>
class Sgd : public Update<T> {
 public:
  explicit Sgd(const NodeView& n) : Update<T>(n, 0) {}
  void run(const RunContext& c) override {
    const auto gradient = this->gradient(c);
    const T lr = static_cast<T>(this->rate(c));
    const T *w = c.in<T>(0), *g = c.in<T>(1);
    T* to = c.out<T>(0);
    parallel_range(this->count_, 1, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) to[i] = w[i] - lr * gradient(g[i], w[i]);
    });
  }
};

template <class T>
class Momentum : public Update<T> {
 public:
  explicit Momentum(const NodeView& n)
      : Update<T>(n, 1), momentum_(static_cast<T>(attribute(n, "momentum", 0.9f))), nesterov_(n.attr_int("nesterov", 0) != 0) {}
  void run(const RunContext& c) override {
    const auto gradient = this->gradient(c);
    const T lr = static_cast<T>(this->rate(c)), m = momentum_;
    const bool nesterov = nesterov_;
    const T *w = c.in<T>(0), *g = c.in<T>(1), *v = c.in<T>(2);
    T *to = c.out<T>(0), *next = c.out<T>(1);
    parallel_range(this->count_, 2, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const T step = lr * gradient(g[i], w[i]), speed = m * v[i] - step;
        to[i] = w[i] + (nesterov ? m * speed - step : speed);
        next[i] = speed;
      }
    });
  }

 private:
  T momentum_;
  bool nesterov_;
};

template <class T>
class Rmsprop : public Update<T> {
 public:
  explicit Rmsprop(const NodeView& n) : Update<T>(n, 1), rho_(attribute(n, "rho", 0.9f)), epsilon_(attribute(n, "epsilon", 1e-7f)) {}
  void run(const RunContext& c) override {
    const auto gradient = this->gradient(c);
    const T lr = static_cast<T>(this->rate(c)), rho = static_cast<T>(rho_), rest = static_cast<T>(1 - rho_), epsilon = static_cast<T>(epsilon_);
    const T *w = c.in<T>(0), *g = c.in<T>(1), *a = c.in<T>(2);
    T *to = c.out<T>(0), *next = c.out<T>(1);
    parallel_range(this->count_, 4, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const T v = gradient(g[i], w[i]), mean = rho * a[i] + rest * v * v;
        to[i] = w[i] - lr * v / (std::sqrt(mean) + epsilon);
        next[i] = mean;
      }
    });
  }

 private:
  double rho_, epsilon_;
};

template <class T>
class Adam : public Update<T> {
 public:
  explicit Adam(const NodeView& n)
      : Update<T>(n, 2), beta1_(attribute(n, "beta1", 0.9f)), beta2_(attribute(n, "beta2", 0.999f)),
        epsilon_(attribute(n, "epsilon", 1e-7f)), decay_(attribute(n, "weight_decay", 0)) {}
  void run(const RunContext& c) override {
    const auto gradient = this->gradient(c);
    const double t = static_cast<double>(*c.in<int64_t>(5)) + 1, lr = this->rate(c);
    const T rate = static_cast<T>(lr * std::sqrt(1 - std::pow(beta2_, t)) / (1 - std::pow(beta1_, t)));
    const T b1 = static_cast<T>(beta1_), r1 = static_cast<T>(1 - beta1_), b2 = static_cast<T>(beta2_), r2 = static_cast<T>(1 - beta2_);
    const T epsilon = static_cast<T>(epsilon_), decay = static_cast<T>(lr * decay_);
    const T *w = c.in<T>(0), *g = c.in<T>(1), *m = c.in<T>(2), *v = c.in<T>(3);
    T *to = c.out<T>(0), *next_m = c.out<T>(1), *next_v = c.out<T>(2);
    parallel_range(this->count_, 4, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const T d = gradient(g[i], w[i]), first = b1 * m[i] + r1 * d, second = b2 * v[i] + r2 * d * d;
        to[i] = w[i] - rate * first / (std::sqrt(second) + epsilon) - decay * w[i];
        next_m[i] = first;
        next_v[i] = second;
      }
    });
  }

 private:
  double beta1_, beta2_, epsilon_, decay_;
};

class GlobalNorm : public Kernel {
 public:
  explicit GlobalNorm(const NodeView& n) : wide_(n.in(0).dtype == EB_FLOAT64) {
    for (int i = 0; i < n.input_count(); ++i) counts_.push_back(n.in(i).count());
  }
  size_t workspace() const override { return sum_workspace(*std::max_element(counts_.begin(), counts_.end())); }
  void run(const RunContext& c) override {
    double sum = 0;
    for (size_t k = 0; k < counts_.size(); ++k) {
      auto squares = [&](const auto* g) {
        return blocked_sum(counts_[k], static_cast<double*>(c.workspace), [g](int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); });
      };
      sum += wide_ ? squares(c.in<double>(static_cast<int>(k))) : squares(c.in<float>(static_cast<int>(k)));
    }
    *c.out<float>(0) = static_cast<float>(std::sqrt(sum));
  }

 private:
  std::vector<int64_t> counts_;
  bool wide_;
};

class ClipScale : public Kernel {
 public:
  explicit ClipScale(const NodeView& n) : max_norm_(static_cast<float>(n.attr_float("max_norm", 1))) {}
  void run(const RunContext& c) override {
    const float norm = *c.in<float>(0);
    *c.out<float>(0) = norm <= max_norm_ ? 1.0f : max_norm_ / norm;  // a NaN norm stays NaN
  }

 private:
  float max_norm_;
};

// ---- ai.onnx.preview.training: R, T, X_1.., G_1.., states ----

template <class T>
class Preview : public Kernel {
 public:
  explicit Preview(const NodeView& n)
      : adam_(n.op() == "Adam"), adagrad_(n.op() == "Adagrad"), nesterov_(n.attr_string("mode", "") == "nesterov"),
        wide_rate_(n.in(0).dtype == EB_FLOAT64), groups_((n.input_count() - 2) / (adam_ ? 4 : 3)) {
    for (int i = 0; i < groups_; ++i) counts_.push_back(n.in(2 + i).count());
    alpha_ = attribute(n, "alpha", 0.9f);
    beta_ = attribute(n, "beta", adam_ ? 0.999f : 0);
    epsilon_ = attribute(n, "epsilon", 1e-6f);
    norm_ = attribute(n, "norm_coefficient", 0);
    norm_post_ = attribute(n, "norm_coefficient_post", 0);
    decay_ = attribute(n, "decay_factor", 0);
  }
  void run(const RunContext& c) override {
    const double rate = wide_rate_ ? *c.in<double>(0) : static_cast<double>(*c.in<float>(0)), t = static_cast<double>(*c.in<int64_t>(1));
    for (int k = 0; k < groups_; ++k) {
      const T *x = c.in<T>(2 + k), *g = c.in<T>(2 + groups_ + k), *s = c.in<T>(2 + 2 * groups_ + k);
      const T* h = adam_ ? c.in<T>(2 + 3 * groups_ + k) : nullptr;
      T *to = c.out<T>(k), *next = c.out<T>(groups_ + k), *next_h = adam_ ? c.out<T>(2 * groups_ + k) : nullptr;
      for (int64_t i = 0; i < counts_[static_cast<size_t>(k)]; ++i) {
        const double w = static_cast<double>(x[i]), d = norm_ * w + static_cast<double>(g[i]), old = static_cast<double>(s[i]);
        if (adam_) {
          const double v = alpha_ * old + (1 - alpha_) * d, q = beta_ * static_cast<double>(h[i]) + (1 - beta_) * d * d;
          const double r = t > 0 ? rate * std::sqrt(1 - std::pow(beta_, t)) / (1 - std::pow(alpha_, t)) : rate;
          to[i] = static_cast<T>((1 - norm_post_) * (w - r * v / (std::sqrt(q) + epsilon_)));
          next[i] = static_cast<T>(v);
          next_h[i] = static_cast<T>(q);
        } else if (adagrad_) {
          const double q = old + d * d;
          to[i] = static_cast<T>(w - rate / (1 + t * decay_) * d / (std::sqrt(q) + epsilon_));
          next[i] = static_cast<T>(q);
        } else {
          const double v = alpha_ * old + (t > 0 ? beta_ : 1) * d;
          to[i] = static_cast<T>(w - rate * (nesterov_ ? d + alpha_ * v : v));
          next[i] = static_cast<T>(v);
        }
      }
    }
  }

 private:
  bool adam_, adagrad_, nesterov_, wide_rate_;
  int groups_;
  std::vector<int64_t> counts_;
  double alpha_, beta_, epsilon_, norm_, norm_post_, decay_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create(const NodeView& n, int) {
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(n.domain() == "ai.engine" ? 0 : 2).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n); });
  return k;
}

KernelDef update(const char* op, std::vector<Alias> aliases, std::unique_ptr<Kernel> (*create)(const NodeView&, int)) {
  return {.domain = "ai.engine", .op = op, .types = kFloats, .aliases = std::move(aliases), .create = create};
}

}  // namespace

std::span<const KernelDef> optimizer_update_kernels() {
  constexpr int in_place = EB_ALIAS_IN_PLACE;
  static const std::vector<KernelDef> defs = {
      update("SgdUpdate", {{in_place, 0, 0}}, create<Sgd>),
      update("MomentumUpdate", {{in_place, 0, 0}, {in_place, 1, 2}}, create<Momentum>),
      update("RmspropUpdate", {{in_place, 0, 0}, {in_place, 1, 2}}, create<Rmsprop>),
      update("AdamUpdate", {{in_place, 0, 0}, {in_place, 1, 2}, {in_place, 2, 3}}, create<Adam>),
      {.domain = "ai.engine", .op = "GlobalNorm", .types = kFloats,
       .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<GlobalNorm>(n); }},
      {.domain = "ai.engine", .op = "ClipScale",
       .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<ClipScale>(n); }},
      {.domain = "ai.onnx.preview.training", .op = "Adam", .types = kFloats, .create = create<Preview>},
      {.domain = "ai.onnx.preview.training", .op = "Adagrad", .types = kFloats, .create = create<Preview>},
      {.domain = "ai.onnx.preview.training", .op = "Momentum", .types = kFloats, .create = create<Preview>},
  };
  return defs;
}

}  // namespace eng::cpu
