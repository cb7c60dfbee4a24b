// Counts of right answers: CorrectCount, BinaryCorrectCount. One thread: the operands are small beside a step.
#include "backends/cpu/elementwise.h"

namespace eng::cpu {
namespace {

template <class T>
class CorrectCount : public Kernel {
 public:
  explicit CorrectCount(const NodeView& n) : samples_(n.in(0).dim(0)), classes_(n.in(0).dim(1)), label_type_(n.in(1).dtype) {}
  void run(const RunContext& c) override {
    const T* scores = c.in<T>(0);
    int64_t count = 0;
    for (int64_t i = 0; i < samples_; ++i) {
      const int64_t best = highest(scores + i * classes_);
      const int64_t wanted = label_type_ == EB_INT64   ? c.in<int64_t>(1)[i]
                             : label_type_ == EB_INT32 ? c.in<int32_t>(1)[i] : highest(c.in<T>(1) + i * classes_);
      count += best >= 0 && best == wanted;
    }
    *c.out<int64_t>(0) = count;
  }

 private:
  int64_t highest(const T* x) const {  // -1 where there is a NaN
    int64_t best = -1;
    for (int64_t k = 0; k < classes_; ++k) {
      if (x[k] != x[k]) return -1;
      if (best < 0 || x[k] > x[best]) best = k;
    }
    return best;
  }
  int64_t samples_, classes_;
  int32_t label_type_;
};

template <class T>
class BinaryCorrectCount : public Kernel {
 public:
  explicit BinaryCorrectCount(const NodeView& n) : count_(n.in(0).count()), threshold_(static_cast<T>(n.attr_float("threshold", 0.5))) {}
  void run(const RunContext& c) override {
    const T *x = c.in<T>(0), *t = c.in<T>(1);
    int64_t count = 0;
    for (int64_t i = 0; i < count_; ++i) count += x[i] == x[i] && (x[i] > threshold_) == (t[i] > T(0.5));
    *c.out<int64_t>(0) = count;
  }

 private:
  int64_t count_;
  T threshold_;
};

template <template <class> class K>
std::unique_ptr<Kernel> create(const NodeView& n, int) {
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(0).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n); });
  return k;
}

}  // namespace

std::span<const KernelDef> metric_kernels() {
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "CorrectCount", .types = kFloats, .create = create<CorrectCount>},
      {.domain = "ai.engine", .op = "BinaryCorrectCount", .types = kFloats, .create = create<BinaryCorrectCount>},
  };
  return defs;
}

}  // namespace eng::cpu
