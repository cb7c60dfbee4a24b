// Reductions over axes of tensors in any layout: ReduceSum, ReduceMean, ReduceSumSquare, ReduceMax, ReduceMin. Sums are held in double,
// integers wrap. To add one: a case in take, join and finish, and a row.
#include "backends/cuda/reduce.h"

#include <cmath>

#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

namespace eng::cuda {
namespace {

enum class How : int32_t { kSum, kMean, kSumSquare, kMax, kMin };

template <class T>
struct Reduction {
  using A = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  T* y;
  const T* x;
  Loop<2> kept;     // y, x
  Loop<1> reduced;  // x
  How how;
  A first;  // what an empty reduction gives
  __device__ A start() const { return first; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[2], inner[1];
    kept.at(output, at);
    reduced.at(element, inner);
    const A v = static_cast<A>(x[at[1] + inner[0]]);
    join(a, how == How::kSumSquare ? v * v : v);
  }
  __device__ void join(A& a, const A& b) const {
    if (how == How::kMax) a = b > a || b != b ? b : a;
    else if (how == How::kMin) a = b < a || b != b ? b : a;
    else if constexpr (std::is_integral_v<A>) a = static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else a += b;
  }
  __device__ void finish(const A& a, int64_t output) const {
    int64_t at[2];
    kept.at(output, at);
    const A n = static_cast<A>(reduced.count);
    if (how != How::kMean) y[at[0]] = static_cast<T>(a);
    else if constexpr (std::is_integral_v<A>) y[at[0]] = n == 0 ? T(0) : static_cast<T>(a / n);
    else y[at[0]] = static_cast<T>(a / n);
  }
};

struct Row {
  const char* op;
  How how;
};
constexpr Row kRows[] = {{"ReduceSum", How::kSum}, {"ReduceMean", How::kMean}, {"ReduceSumSquare", How::kSumSquare}, {"ReduceMax", How::kMax}, {"ReduceMin", How::kMin}};

std::vector<bool> reduced_axes(const NodeView& n) {
  const TensorView& x = n.in(0);
  const std::vector<int64_t> axes = n.in(1).present() ? n.host_ints(1) : std::vector<int64_t>();
  std::vector<bool> reduced(x.dims.size(), axes.empty() && n.attr_int("noop_with_empty_axes", 0) == 0);
  for (int64_t a : axes) reduced[static_cast<size_t>(a < 0 ? a + x.rank() : a)] = true;
  return reduced;
}

template <class T>
class ReduceKernel : public Kernel {
  using R = Reduction<T>;

 public:
  explicit ReduceKernel(const NodeView& n) {
    const TensorView &x = n.in(0), &y = n.out(0);
    const std::vector<bool> reduced = reduced_axes(n);
    const bool full_rank = y.rank() == x.rank();
    Box kept{x.dims, {{}, x.strides}}, inner{x.dims, {x.strides}};
    size_t own = 0;
    for (size_t i = 0; i < reduced.size(); ++i) {
      kept.strides[0].push_back(reduced[i] ? 0 : y.strides[own]);
      own += full_rank || !reduced[i];
      (reduced[i] ? kept : inner).dims[i] = 1;
    }
    kept_ = pack<2>(kept);
    reduced_ = pack<1>(inner);
    for (const Row& r : kRows)
      if (n.op() == r.op) how_ = r.how;
    const bool inner_dense = reduced_.count > 1 && reduced_.stride[0][reduced_.rank - 1] == 1;
    plan_ = plan_reduce(kept_.count, reduced_.count, !inner_dense);
  }
  size_t workspace() const override { return plan_.workspace<R>(); }
  void run(const RunContext& c) override {
    typename R::A first = 0;
    if constexpr (std::is_floating_point_v<T>) {
      if (how_ == How::kMax) first = -INFINITY;
      if (how_ == How::kMin) first = INFINITY;
    } else {
      if (how_ == How::kMax) first = std::numeric_limits<T>::lowest();
      if (how_ == How::kMin) first = std::numeric_limits<T>::max();
    }
    reduce(c.stream, plan_, R{c.out<T>(0), c.in<T>(0), kept_, reduced_, how_, first}, c.workspace);
  }

 private:
  Loop<2> kept_{};
  Loop<1> reduced_{};
  How how_ = How::kSum;
  ReducePlan plan_;
};

std::unique_ptr<Kernel> create(const NodeView& n, eb_device*) {
  std::unique_ptr<Kernel> k;
  dispatch<float, double, int32_t, int64_t>(n.in(0).dtype, [&](auto t) { k = std::make_unique<ReduceKernel<decltype(t)>>(n); });
  return k;
}

}  // namespace

std::span<const KernelDef> reduce_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    for (const Row& r : kRows) all.push_back({.op = r.op, .name = "tree", .types = kFloats | kWideInts, .host_inputs = 2, .can_run = any_layout, .create = create});
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
