// What a CPU kernel file writes against. A kernel is a class with run(); a KernelDef describes it; a file
// backends/cpu/kernels/<stem>.cpp (the stem of graph/ops/<stem>.cpp) defines `std::span<const KernelDef> <stem>_kernels()`
// and is named once in backends/cpu/kernel_list.cpp.
//
// create() decides: shapes, strides, algorithm, loop order, oneDNN primitives, workspace. run() is called on the stream's
// thread with raw pointers and neither allocates nor locks; it may use OpenMP (`#pragma omp parallel for`), whose team is
// the device's threads. Sums over elements must not depend on timing: split work statically, combine in a fixed order.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/abi/backend.hpp"

namespace eng::cpu {

using eb::NodeView;
using eb::TensorView;

struct RunContext {
  const void* const* inputs;   // null where omitted
  void* const* outputs;
  void* workspace;             // 64-byte aligned, workspace() bytes
  template <class T> const T* in(int i) const { return static_cast<const T*>(inputs[i]); }
  template <class T> T* out(int i) const { return static_cast<T*>(outputs[i]); }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t workspace() const { return 0; }
  virtual void run(const RunContext& c) = 0;
};

struct Alias {
  int kind;  // eb_alias_kind
  int output, input;
};

inline constexpr uint64_t type_bit(int32_t dtype) { return uint64_t{1} << dtype; }
inline constexpr uint64_t kFloat = type_bit(EB_FLOAT32);
inline constexpr uint64_t kFloats = kFloat | type_bit(EB_FLOAT64);
inline constexpr uint64_t kInts = type_bit(EB_INT8) | type_bit(EB_INT16) | type_bit(EB_INT32) | type_bit(EB_INT64) |
                                  type_bit(EB_UINT8) | type_bit(EB_UINT16) | type_bit(EB_UINT32) | type_bit(EB_UINT64);
inline constexpr uint64_t kHalves = type_bit(EB_FLOAT16) | type_bit(EB_BFLOAT16);
inline constexpr uint64_t kAllTypes = kFloats | kInts | kHalves | type_bit(EB_BOOL);

struct KernelDef {
  const char* domain = "";
  const char* op = "";
  const char* name = "reference";   // of the implementation
  uint64_t types = kFloat;          // of input 0 (of output 0 where there is no input)
  uint64_t host_inputs = 0;         // bit i: content of input i needed at create
  std::vector<Alias> aliases;
  // Empty: it can run; else the reason why not. null: row-major operands only, nothing else asked.
  std::string (*can_run)(const NodeView&) = nullptr;
  std::unique_ptr<Kernel> (*create)(const NodeView&, int threads) = nullptr;
};

// Why a node is refused by kernels that take dense row-major operands only; empty where all are.
std::string require_row_major(const NodeView& n);
// All operands row-major, or all of full rank channels-last: what elementwise kernels that walk bytes in order accept.
std::string require_same_layout(const NodeView& n);

// All kernels, in order of preference within an operator.
std::vector<const KernelDef*> all_kernels();

}  // namespace eng::cpu
