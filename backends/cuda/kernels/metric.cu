// Counts of right answers: CorrectCount, BinaryCorrectCount.
#include "backends/cuda/kernel.h"
#include "backends/cuda/reduce.h"

namespace eng::cuda {
namespace {

struct Count {
  using A = int64_t;
  int64_t* result;
  __device__ A start() const { return 0; }
  __device__ void join(A& a, const A& b) const { a += b; }
  __device__ void finish(const A& a, int64_t) const { *result = a; }
};

template <class T>
struct Correct : Count {
  const T* scores;
  const void* labels;
  int32_t label_type;
  int64_t classes;
  __device__ int64_t highest(const T* x) const {  // -1 where there is a NaN
    int64_t best = -1;
    for (int64_t k = 0; k < classes; ++k) {
      if (x[k] != x[k]) return -1;
      if (best < 0 || x[k] > x[best]) best = k;
    }
    return best;
  }
  __device__ void take(A& a, int64_t, int64_t i) const {
    const int64_t best = highest(scores + i * classes);
    const int64_t wanted = label_type == EB_INT64   ? static_cast<const int64_t*>(labels)[i]
                           : label_type == EB_INT32 ? static_cast<const int32_t*>(labels)[i] : highest(static_cast<const T*>(labels) + i * classes);
    a += best >= 0 && best == wanted;
  }
};

template <class T>
class CorrectCount : public Kernel {
 public:
  explicit CorrectCount(const NodeView& n) : plan_(plan_reduce(1, n.in(0).dim(0), false)), label_type_(n.in(1).dtype), classes_(n.in(0).dim(1)) {}
  size_t workspace() const override { return plan_.workspace<Correct<T>>(); }
  void run(const RunContext& c) override {
    reduce(c.stream, plan_, Correct<T>{{c.out<int64_t>(0)}, c.in<T>(0), c.in(1), label_type_, classes_}, c.workspace);
  }

 private:
  ReducePlan plan_;
  int32_t label_type_;
  int64_t classes_;
};

template <class T>
struct BinaryCorrect : Count {
  const T *scores, *targets;
  T threshold;
  __device__ void take(A& a, int64_t, int64_t i) const { a += scores[i] == scores[i] && (scores[i] > threshold) == (targets[i] > T(0.5)); }
};

template <class T>
class BinaryCorrectCount : public Kernel {
 public:
  explicit BinaryCorrectCount(const NodeView& n) : plan_(plan_reduce(1, n.in(0).count(), false)), threshold_(static_cast<T>(n.attr_float("threshold", 0.5))) {}
  size_t workspace() const override { return plan_.workspace<BinaryCorrect<T>>(); }
  void run(const RunContext& c) override {
    reduce(c.stream, plan_, BinaryCorrect<T>{{c.out<int64_t>(0)}, c.in<T>(0), c.in<T>(1), threshold_}, c.workspace);
  }

 private:
  ReducePlan plan_;
  T threshold_;
};

}  // namespace

std::span<const KernelDef> metric_kernels() {
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "CorrectCount", .create = create_float<CorrectCount>},
      {.domain = "ai.engine", .op = "BinaryCorrectCount", .create = create_float<BinaryCorrectCount>},
  };
  return defs;
}

}  // namespace eng::cuda
