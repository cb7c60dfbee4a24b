// Optimiser updates in one pass over the parameter, in place; the formulas stand in graph/ops/optimizer_update.cpp. Also GlobalNorm and
// ClipScale for clipping by norm. The learning rate, step count and scale come with the step: they are read on the device.
#include <charconv>
#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/reduce.h"

namespace eng::cuda {
namespace {

// Attributes are float32, but people mean decimals: the shortest decimal that rounds to the float is what was meant (0.999).
double decimal(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double exact = static_cast<double>(value);
  std::from_chars(text, end, exact);
  return exact;
}
double attribute(const NodeView& n, const char* name, float fallback) { return decimal(static_cast<float>(n.attr_float(name, static_cast<double>(fallback)))); }

// What all updates do to the gradient first.
template <class T>
struct Gradient {
  const float* scale;  // null: 1
  T limit, l2;
  __device__ T operator()(T g, T w) const {
    T v = scale ? g * static_cast<T>(*scale) : g;
    v = v > limit ? limit : (v < -limit ? -limit : v);
    return v + l2 * w;
  }
};

template <class T>
struct SgdStep {
  Gradient<T> gradient;
  T* to;
  const T *w, *g;
  const float* rate;
  __device__ void operator()(int64_t i) const { to[i] = w[i] - static_cast<T>(*rate) * gradient(g[i], w[i]); }
};

template <class T>
struct MomentumStep {
  Gradient<T> gradient;
  T *to, *next;
  const T *w, *g, *v;
  const float* rate;
  T momentum;
  bool nesterov;
  __device__ void operator()(int64_t i) const {
    const T step = static_cast<T>(*rate) * gradient(g[i], w[i]), speed = momentum * v[i] - step;
    to[i] = w[i] + (nesterov ? momentum * speed - step : speed);
    next[i] = speed;
  }
};

template <class T>
struct RmspropStep {
  Gradient<T> gradient;
  T *to, *next;
  const T *w, *g, *a;
  const float* rate;
  T rho, rest, epsilon;
  __device__ void operator()(int64_t i) const {
    const T v = gradient(g[i], w[i]), mean = rho * a[i] + rest * v * v;
    to[i] = w[i] - static_cast<T>(*rate) * v / (std::sqrt(mean) + epsilon);
    next[i] = mean;
  }
};

// The two rates of a step of Adam: of the moments, with both corrections, and of the weight decay.
struct AdamRates {
  double* rates;
  const float* lr;
  const int64_t* step;
  double beta1, beta2, decay;
  __device__ void operator()() const {
    const double t = static_cast<double>(*step) + 1, rate = static_cast<double>(*lr);
    rates[0] = rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    rates[1] = rate * decay;
  }
};

template <class T>
struct AdamStep {
  Gradient<T> gradient;
  T *to, *next_m, *next_v;
  const T *w, *g, *m, *v;
  const double* rates;
  T b1, r1, b2, r2, epsilon;
  __device__ void operator()(int64_t i) const {
    const T d = gradient(g[i], w[i]), first = b1 * m[i] + r1 * d, second = b2 * v[i] + r2 * d * d;
    to[i] = w[i] - static_cast<T>(rates[0]) * first / (std::sqrt(second) + epsilon) - static_cast<T>(rates[1]) * w[i];
    next_m[i] = first;
    next_v[i] = second;
  }
};

template <class T>
class Update : public Kernel {
 public:
  Update(const NodeView& n, int states, int rate_input) : count_(n.in(0).count()), rate_(rate_input), scale_(rate_input + (states == 2 ? 2 : 1)) {
    limit_ = attribute(n, "clip_value", 0);
    l2_ = attribute(n, "l2", 0);
  }

 protected:
  Gradient<T> gradient(const RunContext& c) const { return {c.in<float>(scale_), limit_ > 0 ? static_cast<T>(limit_) : T(INFINITY), static_cast<T>(l2_)}; }
  const float* rate(const RunContext& c) const { return c.in<float>(rate_); }
  int64_t count_;

 private:
  int rate_, scale_;
  double limit_, l2_;
};

template <class T>
class Sgd : public Update<T> {
 public:
  explicit Sgd(const NodeView& n) : Update<T>(n, 0, 2) {}
  void run(const RunContext& c) override {
    each(c.stream, this->count_, SgdStep<T>{this->gradient(c), c.out<T>(0), c.in<T>(0), c.in<T>(1), this->rate(c)});
  }
};

template <class T>
class Momentum : public Update<T> {
 public:
  explicit Momentum(const NodeView& n) : Update<T>(n, 1, 3), momentum_(static_cast<T>(attribute(n, "momentum", 0.9f))), nesterov_(n.attr_int("nesterov", 0) != 0) {}
  void run(const RunContext& c) override {
    each(c.stream, this->count_, MomentumStep<T>{this->gradient(c), c.out<T>(0), c.out<T>(1), c.in<T>(0), c.in<T>(1), c.in<T>(2), this->rate(c), momentum_, nesterov_});
  }

 private:
  T momentum_;
  bool nesterov_;
};

template <class T>
class Rmsprop : public Update<T> {
 public:
  explicit Rmsprop(const NodeView& n) : Update<T>(n, 1, 3), rho_(attribute(n, "rho", 0.9f)), epsilon_(attribute(n, "epsilon", 1e-7f)) {}
  void run(const RunContext& c) override {
    each(c.stream, this->count_, RmspropStep<T>{this->gradient(c), c.out<T>(0), c.out<T>(1), c.in<T>(0), c.in<T>(1), c.in<T>(2), this->rate(c), static_cast<T>(rho_),
                                                static_cast<T>(1 - rho_), static_cast<T>(epsilon_)});
  }

 private:
  double rho_, epsilon_;
};

template <class T>
class Adam : public Update<T> {
 public:
  explicit Adam(const NodeView& n)
      : Update<T>(n, 2, 4), beta1_(attribute(n, "beta1", 0.9f)), beta2_(attribute(n, "beta2", 0.999f)), epsilon_(attribute(n, "epsilon", 1e-7f)),
        decay_(attribute(n, "weight_decay", 0)) {}
  size_t workspace() const override { return 2 * sizeof(double); }
  void run(const RunContext& c) override {
    auto* rates = c.space<double>();
    once(c.stream, AdamRates{rates, this->rate(c), c.in<int64_t>(5), beta1_, beta2_, decay_});
    each(c.stream, this->count_, AdamStep<T>{this->gradient(c), c.out<T>(0), c.out<T>(1), c.out<T>(2), c.in<T>(0), c.in<T>(1), c.in<T>(2), c.in<T>(3), rates,
                                             static_cast<T>(beta1_), static_cast<T>(1 - beta1_), static_cast<T>(beta2_), static_cast<T>(1 - beta2_), static_cast<T>(epsilon_)});
  }

 private:
  double beta1_, beta2_, epsilon_, decay_;
};

template <class T>
struct Squares {
  using A = double;
  const T* g;
  double* sum;
  __device__ A start() const { return 0; }
  __device__ void take(A& a, int64_t, int64_t i) const { a += static_cast<double>(g[i]) * static_cast<double>(g[i]); }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t) const { *sum = a; }
};

struct RootOfSum {
  float* norm;
  const double* sums;
  int64_t count;
  __device__ void operator()() const {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += sums[i];
    *norm = static_cast<float>(std::sqrt(total));
  }
};

template <class T>
class GlobalNorm : public Kernel {
 public:
  explicit GlobalNorm(const NodeView& n) {
    for (int i = 0; i < n.input_count(); ++i) plans_.push_back(plan_reduce(1, n.in(i).count(), false));
  }
  size_t workspace() const override {
    size_t most = 0;
    for (const ReducePlan& p : plans_) most = std::max(most, p.workspace<Squares<T>>());
    return sums_bytes() + most;
  }
  void run(const RunContext& c) override {
    auto* sums = c.space<double>();
    for (size_t i = 0; i < plans_.size(); ++i) reduce(c.stream, plans_[i], Squares<T>{c.in<T>(static_cast<int>(i)), sums + i}, c.space(sums_bytes()));
    once(c.stream, RootOfSum{c.out<float>(0), sums, static_cast<int64_t>(plans_.size())});
  }

 private:
  size_t sums_bytes() const { return aligned(plans_.size() * sizeof(double)); }
  std::vector<ReducePlan> plans_;
};

struct Scale {
  float* to;
  const float* norm;
  float most;
  __device__ void operator()() const { *to = *norm <= most ? 1.0f : most / *norm; }  // a NaN norm stays NaN
};

class ClipScale : public Kernel {
 public:
  explicit ClipScale(const NodeView& n) : most_(static_cast<float>(n.attr_float("max_norm", 1))) {}
  void run(const RunContext& c) override { once(c.stream, Scale{c.out<float>(0), c.in<float>(0), most_}); }

 private:
  float most_;
};

}  // namespace

std::span<const KernelDef> optimizer_update_kernels() {
  constexpr int in_place = EB_ALIAS_IN_PLACE;
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "SgdUpdate", .aliases = {{in_place, 0, 0}}, .create = create_float<Sgd>},
      {.domain = "ai.engine", .op = "MomentumUpdate", .aliases = {{in_place, 0, 0}, {in_place, 1, 2}}, .create = create_float<Momentum>},
      {.domain = "ai.engine", .op = "RmspropUpdate", .aliases = {{in_place, 0, 0}, {in_place, 1, 2}}, .create = create_float<Rmsprop>},
      {.domain = "ai.engine", .op = "AdamUpdate", .aliases = {{in_place, 0, 0}, {in_place, 1, 2}, {in_place, 2, 3}}, .create = create_float<Adam>},
      {.domain = "ai.engine", .op = "GlobalNorm", .create = create_float<GlobalNorm>},
      {.domain = "ai.engine", .op = "ClipScale", .types = type_bit(EB_FLOAT32),
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<ClipScale>(n); }},
  };
  return defs;
}

}  // namespace eng::cuda
