// Add, Sub, Mul, Div, Pow of broadcast operands in any layout. A row in the table; the function is a branch of one kernel, taken by all
// threads alike, so that another function costs no other kernel.
#include <cmath>

#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

namespace eng::cuda {
namespace {

enum class Function : int32_t { kAdd, kSub, kMul, kDiv, kPow };

template <class T>
__device__ T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // never traps
    if (b == T(0)) return T(0);
    if (b == T(-1)) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  }
  return static_cast<T>(a / b);
}

template <class T>
struct Binary {
  Loop<3> loop;
  T* y;
  const T *a, *b;
  Function function;
  __device__ void operator()(int64_t i) const {
    int64_t at[3];
    loop.at(i, at);
    const T u = a[at[1]], v = b[at[2]];
    T result = T(0);
    switch (function) {
      case Function::kAdd: result = static_cast<T>(u + v); break;
      case Function::kSub: result = static_cast<T>(u - v); break;
      case Function::kMul: result = static_cast<T>(u * v); break;
      case Function::kDiv: result = divide(u, v); break;
      case Function::kPow:
        if constexpr (std::is_floating_point_v<T>) result = std::pow(u, v);
        break;
    }
    y[at[0]] = result;
  }
};

struct Row {
  const char* op;
  Function function;
};
constexpr Row kRows[] = {{"Add", Function::kAdd}, {"Sub", Function::kSub}, {"Mul", Function::kMul}, {"Div", Function::kDiv}, {"Pow", Function::kPow}};

template <class T>
class BinaryKernel : public Kernel {
 public:
  explicit BinaryKernel(const NodeView& n) : loop_(loop_over<3>({&n.out(0), &n.in(0), &n.in(1)})) {
    for (const Row& r : kRows)
      if (n.op() == r.op) function_ = r.function;
  }
  void run(const RunContext& c) override { each(c.stream, loop_.count, Binary<T>{loop_, c.out<T>(0), c.in<T>(0), c.in<T>(1), function_}); }

 private:
  Loop<3> loop_;
  Function function_ = Function::kAdd;
};

std::unique_ptr<Kernel> create(const NodeView& n, eb_device*) {
  std::unique_ptr<Kernel> k;
  dispatch<float, double, int32_t, int64_t>(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<decltype(t)>>(n); });
  return k;
}

std::string one_type(const NodeView& n) { return n.in(1).dtype == n.in(0).dtype ? "" : "operands of different types"; }

}  // namespace

std::span<const KernelDef> binary_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    for (const Row& r : kRows)
      all.push_back({.op = r.op, .types = r.function == Function::kPow ? kFloats : kFloats | kWideInts,
                     .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}, {EB_ALIAS_IN_PLACE, 0, 1}}, .can_run = one_type, .create = create});
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
