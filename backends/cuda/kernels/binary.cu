// Add, Sub, Mul, Div, Pow and the variadic Sum, Max, Min of broadcast operands in any layout. A row in the table; the function is a branch of one
// kernel, taken by all threads alike, so that another function costs no other kernel. More than two operands are taken one after another.
#include <cmath>

#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

namespace eng::cuda {
namespace {

enum class Function : int32_t { kAdd, kSub, kMul, kDiv, kPow, kMax, kMin };

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
      case Function::kMax: result = v > u || v != v ? v : u; break;
      case Function::kMin: result = v < u || v != v ? v : u; break;
    }
    y[at[0]] = result;
  }
};

struct Row {
  const char* op;
  Function function;
  bool variadic = false;
};
constexpr Row kRows[] = {{"Add", Function::kAdd}, {"Sub", Function::kSub}, {"Mul", Function::kMul}, {"Div", Function::kDiv}, {"Pow", Function::kPow},
                         {"Sum", Function::kAdd, true}, {"Max", Function::kMax, true}, {"Min", Function::kMin, true}};

// y = in0 op in1 op in2 ...; of a single operand a copy.
template <class T>
class BinaryKernel : public Kernel {
 public:
  explicit BinaryKernel(const NodeView& n) : bytes_(static_cast<size_t>(n.out(0).bytes())) {
    for (const Row& r : kRows)
      if (n.op() == r.op) function_ = r.function;
    for (int i = 1; i < n.input_count(); ++i) loops_.push_back(loop_over<3>({&n.out(0), i == 1 ? &n.in(0) : &n.out(0), &n.in(i)}));
  }
  void run(const RunContext& c) override {
    T* y = c.out<T>(0);
    if (loops_.empty() && bytes_ && y != c.in<T>(0)) check(cudaMemcpyAsync(y, c.in(0), bytes_, cudaMemcpyDeviceToDevice, c.stream), "copying");
    for (size_t i = 0; i < loops_.size(); ++i)
      each(c.stream, loops_[i].count, Binary<T>{loops_[i], y, i == 0 ? c.in<T>(0) : y, c.in<T>(static_cast<int>(i) + 1), function_});
  }

 private:
  size_t bytes_;
  std::vector<Loop<3>> loops_;
  Function function_ = Function::kAdd;
};

std::unique_ptr<Kernel> create(const NodeView& n, eb_device*) {
  std::unique_ptr<Kernel> k;
  dispatch<float, double, int32_t, int64_t>(n.in(0).dtype, [&](auto t) { k = std::make_unique<BinaryKernel<decltype(t)>>(n); });
  return k;
}

std::string one_type(const NodeView& n) {
  for (int i = 1; i < n.input_count(); ++i)
    if (n.in(i).dtype != n.in(0).dtype) return "operands of different types";
  return n.input_count() == 1 && !n.in(0).same_layout(n.out(0)) ? "the operand lies otherwise than the result" : "";
}

}  // namespace

std::span<const KernelDef> binary_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    for (const Row& r : kRows) {
      std::vector<Alias> aliases{{EB_ALIAS_IN_PLACE, 0, 0}};
      if (!r.variadic) aliases.push_back({EB_ALIAS_IN_PLACE, 0, 1});
      all.push_back({.op = r.op, .types = r.function == Function::kPow ? kFloats : kFloats | kWideInts, .aliases = aliases, .can_run = one_type, .create = create});
    }
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
