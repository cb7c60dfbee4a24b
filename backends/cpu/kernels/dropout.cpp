// Dropout (inference, or with training_mode as ONNX's reference evaluator draws: NumPy's RandomState, which is std::mt19937 with
// 53-bit uniforms), RandomDropout, DropoutGrad, AdvanceRandom.
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/random.h"

namespace eng::cpu {
namespace {

template <class T>
class Dropout : public Kernel {
 public:
  explicit Dropout(const NodeView& n)
      : count_(n.in(0).count()), ratio_type_(n.in(1).dtype), has_training_(n.in(2).present()), has_mask_(n.out(1).present()), seed_(static_cast<uint32_t>(n.attr_int("seed", 0))) {}
  void run(const RunContext& c) override {
    const T* x = c.in<T>(0);
    T* y = c.out<T>(0);
    bool* mask = has_mask_ ? c.out<bool>(1) : nullptr;  // an omitted last output has no pointer at all
    const double ratio = ratio_type_ == EB_UNDEFINED ? 0.5 : ratio_type_ == EB_FLOAT64 ? *c.in<double>(1) : static_cast<double>(*c.in<float>(1));
    if (!has_training_ || !*c.in<bool>(2) || ratio == 0) {
      if (y != x) std::memmove(y, x, static_cast<size_t>(count_) * sizeof(T));
      if (mask) std::memset(mask, 1, static_cast<size_t>(count_));
      return;
    }
    std::mt19937 random(seed_);
    const T scale = static_cast<T>(1 / (1 - ratio));
    for (int64_t i = 0; i < count_; ++i) {
      const uint32_t high = static_cast<uint32_t>(random()) >> 5, low = static_cast<uint32_t>(random()) >> 6;
      const bool keep = (high * 67108864.0 + low) / 9007199254740992.0 >= ratio;
      y[i] = keep ? x[i] * scale : T(0);
      if (mask) mask[i] = keep;
    }
  }

 private:
  int64_t count_;
  int32_t ratio_type_;
  bool has_training_, has_mask_;
  uint32_t seed_;
};

// The logical index of an element is one more operand of the loop: a tensor with row-major strides whose offsets are the index.
template <class T>
class RandomDropout : public Kernel {
 public:
  explicit RandomDropout(const NodeView& n) : stream_(static_cast<uint64_t>(n.attr_int("stream", 0))), ratio_(n.attr_float("ratio", 0.5)) {
    TensorView index = n.in(0), mask = n.out(1).present() ? n.out(1) : n.out(0);
    int64_t step = 1;
    for (size_t i = index.dims.size(); i-- > 0; step *= index.dims[i]) index.strides[i] = step;
    loop_ = make_loop({&n.out(0), &mask, &n.in(0), &index});
  }
  void run(const RunContext& c) override {
    const auto* rng = c.in<int64_t>(1);
    const uint64_t key = random_key(static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(rng[1]), stream_);
    const auto limit = static_cast<uint32_t>(std::min(ratio_ * 4294967296.0, 4294967295.0));
    const T scale = static_cast<T>(1 / (1 - ratio_));
    T* y = c.out<T>(0);
    const T* x = c.in<T>(0);
    bool* mask = c.out<bool>(1);
    const int64_t sy = loop_.step(0), sm = loop_.step(1), sx = loop_.step(2), si = loop_.step(3);
    for_rows<4>(loop_, 8, [&](const Offsets& at, int64_t n) {
      T* const to = y + at[0];
      const T* const from = x + at[2];
      if (mask) {
        bool* const m = mask + at[1];
        for (int64_t i = 0; i < n; ++i) m[i * sm] = random_bits(key, static_cast<uint64_t>(at[3] + i * si)) >= limit;
        for (int64_t i = 0; i < n; ++i) to[i * sy] = m[i * sm] ? from[i * sx] * scale : T(0);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i * sy] = random_bits(key, static_cast<uint64_t>(at[3] + i * si)) >= limit ? from[i * sx] * scale : T(0);
      }
    });
  }

 private:
  Loop loop_;
  uint64_t stream_;
  double ratio_;
};

struct Masked {
  double scale;
  template <class T> T operator()(T dy, bool keep) const { return keep ? dy * static_cast<T>(scale) : T(0); }
};

class AdvanceRandom : public Kernel {
 public:
  void run(const RunContext& c) override {
    const int64_t seed = c.in<int64_t>(0)[0], counter = c.in<int64_t>(0)[1];
    c.out<int64_t>(0)[0] = seed;
    c.out<int64_t>(0)[1] = static_cast<int64_t>(static_cast<uint64_t>(counter) + 1);
  }
};

template <template <class> class K>
std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create<K>);
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n); });
  return k;
}

// The ratio may have any rank, so require_same_layout does not fit.
std::string same_order(const NodeView& n) {
  const TensorView &x = n.in(0), &mask = n.out(1);
  const bool same = (x.row_major() || x.channels_last()) && x.same_layout(n.out(0)) && (!mask.present() || mask.same_layout(x));
  return same ? "" : "operands lie in different orders";
}

std::unique_ptr<Kernel> create_gradient(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_gradient);
  const Masked op{1 / (1 - n.attr_float("ratio", 0.5))};
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<Masked, decltype(t), bool>>(n, op); });
  return k;
}

}  // namespace

std::span<const KernelDef> dropout_kernels() {
  static const KernelDef defs[] = {
      {.op = "Dropout", .types = kFloats | kHalves, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}},
       .can_run = [](const NodeView& n) { return n.in(2).present() ? require_row_major(n) : same_order(n); }, .create = create<Dropout>},
      {.domain = "ai.engine", .op = "RandomDropout", .types = kFloats | kHalves, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout,
       .create = create<RandomDropout>},
      {.domain = "ai.engine", .op = "DropoutGrad", .types = kFloats | kHalves, .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = any_layout,
       .create = create_gradient},
      {.domain = "ai.engine", .op = "AdvanceRandom", .types = type_bit(EB_INT64),
       .create = [](const NodeView&, int) -> std::unique_ptr<Kernel> { return std::make_unique<AdvanceRandom>(); }},
  };
  return defs;
}

}  // namespace eng::cpu
