// Reshape, Flatten, Squeeze, Unsqueeze: the bytes stay; a view where the engine gives input and output the same memory.
#include "backends/cuda/kernels/bytes.h"

namespace eng::cuda {

std::span<const KernelDef> reshape_kernels() {
  static const KernelDef defs[] = {
      {.op = "Reshape", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create_bytes},
      {.op = "Flatten", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create_bytes},
      {.op = "Squeeze", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create_bytes},
      {.op = "Unsqueeze", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create_bytes},
  };
  return defs;
}

}  // namespace eng::cuda
