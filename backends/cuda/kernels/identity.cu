// Identity: y = x; a view where the engine gives both the same memory. The smallest kernel file: copy it to start a new one. Also the
// check that this plugin has code for a device.
#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/kernels/bytes.h"

namespace eng::cuda {
namespace {

struct Nothing {
  __device__ void operator()(int64_t) const {}
};

}  // namespace

void check_device_code() {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(each_kernel<Nothing>)), "this plugin has no code for the device; build it with the device's architecture in ENGINE_CUDA_ARCHS");
}

std::span<const KernelDef> identity_kernels() {
  static const KernelDef defs[] = {
      {.op = "Identity", .name = "copy", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .can_run = require_same_layout, .create = create_bytes},
  };
  return defs;
}

}  // namespace eng::cuda
