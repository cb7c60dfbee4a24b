// What a CUDA kernel file writes against. A kernel is a class with run(); a KernelDef describes it; a file backends/cuda/kernels/<stem>.cu
// (the stem of graph/ops/<stem>.cpp) defines `std::span<const KernelDef> <stem>_kernels()` and is named once in kernel_list.cpp; kernels by cuDNN of a
// family that has own ones too are in <stem>_cudnn (see dnn.h).
//
// create() decides: shapes, strides, algorithm, workspace, library handles. run() is called by any thread with the device current; it
// enqueues on the stream and neither allocates nor waits. Sums must not depend on timing: no floating-point atomics. Device code is
// written with each.h (one thread an element), reduce.h (sums in a fixed order) and loop.h (any strides); see launch.h for what it may use.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/abi/backend.hpp"
#include "backends/cuda/device.h"
#include "backends/cuda/error.h"

namespace eng::cuda {

using eb::NodeView;
using eb::TensorView;

struct RunContext {
  const void* const* inputs;
  void* const* outputs;
  uint32_t input_count, output_count;
  void* workspace;  // 256-byte aligned, workspace() bytes
  cudaStream_t stream;
  eb_device* device;
  // Null where omitted.
  template <class T = void> const T* in(int i) const { return static_cast<uint32_t>(i) < input_count ? static_cast<const T*>(inputs[i]) : nullptr; }
  template <class T = void> T* out(int i) const { return static_cast<uint32_t>(i) < output_count ? static_cast<T*>(outputs[i]) : nullptr; }
  template <class T = void> T* space(size_t offset = 0) const { return reinterpret_cast<T*>(static_cast<char*>(workspace) + offset); }
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
inline constexpr uint64_t kFloats = type_bit(EB_FLOAT32) | type_bit(EB_FLOAT64);
inline constexpr uint64_t kWideInts = type_bit(EB_INT32) | type_bit(EB_INT64);
inline constexpr uint64_t kInts = kWideInts | type_bit(EB_INT8) | type_bit(EB_INT16) | type_bit(EB_UINT8) | type_bit(EB_UINT16) | type_bit(EB_UINT32) | type_bit(EB_UINT64);
inline constexpr uint64_t kHalves = type_bit(EB_FLOAT16) | type_bit(EB_BFLOAT16);
inline constexpr uint64_t kAllTypes = kFloats | kInts | kHalves | type_bit(EB_BOOL);

struct KernelDef {
  const char* domain = "";
  const char* op = "";
  const char* name = "plain";   // of the implementation
  uint64_t types = kFloats;     // of input 0 (of output 0 where there is no input)
  uint64_t host_inputs = 0;     // bit i: content of input i needed at create
  std::vector<Alias> aliases;
  // Empty: it can run; else the reason why not. null: row-major operands only, nothing else asked.
  std::string (*can_run)(const NodeView&) = nullptr;
  std::unique_ptr<Kernel> (*create)(const NodeView&, eb_device*) = nullptr;
};

inline std::string any_layout(const NodeView&) { return ""; }
// Why a node is refused by kernels that take dense row-major operands only; empty where all are.
std::string require_row_major(const NodeView& n);
// All operands of one rank dense and in the same order: what kernels that walk bytes accept.
std::string require_same_layout(const NodeView& n);

// All kernels, in order of preference within an operator.
std::vector<const KernelDef*> all_kernels();

// Throws where this plugin has no code for the current device. (kernels/identity.cu)
void check_device_code();

// Calls f(T{}) with the C++ type of an element type among Ts; false where it is none of them.
template <class T> inline constexpr int32_t kTypeOf = EB_UNDEFINED;
template <> inline constexpr int32_t kTypeOf<float> = EB_FLOAT32;
template <> inline constexpr int32_t kTypeOf<double> = EB_FLOAT64;
template <> inline constexpr int32_t kTypeOf<int8_t> = EB_INT8;
template <> inline constexpr int32_t kTypeOf<int16_t> = EB_INT16;
template <> inline constexpr int32_t kTypeOf<int32_t> = EB_INT32;
template <> inline constexpr int32_t kTypeOf<int64_t> = EB_INT64;
template <> inline constexpr int32_t kTypeOf<uint8_t> = EB_UINT8;
template <> inline constexpr int32_t kTypeOf<uint16_t> = EB_UINT16;
template <> inline constexpr int32_t kTypeOf<uint32_t> = EB_UINT32;
template <> inline constexpr int32_t kTypeOf<uint64_t> = EB_UINT64;
template <> inline constexpr int32_t kTypeOf<bool> = EB_BOOL;

template <class... Ts, class F>
bool dispatch(int32_t dtype, F&& f) {
  return ((dtype == kTypeOf<Ts> ? (f(Ts{}), true) : false) || ...);
}
template <class F> bool dispatch_floats(int32_t dtype, F&& f) { return dispatch<float, double>(dtype, f); }

// create() of a class template over float and double.
template <template <class> class K>
std::unique_ptr<Kernel> create_float(const NodeView& n, eb_device*) {
  std::unique_ptr<Kernel> k;
  dispatch_floats(n.in(n.in(0).present() ? 0 : 1).dtype, [&](auto t) { k = std::make_unique<K<decltype(t)>>(n); });
  return k;
}

inline constexpr size_t kAligned = 256;
inline size_t aligned(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

}  // namespace eng::cuda
