// Reshape, Flatten, Squeeze, Unsqueeze: the bytes stay; a view where the engine gives input and output the same memory.
#include <cstring>

#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

class Bytes : public Kernel {
 public:
  explicit Bytes(const NodeView& n) : bytes_(static_cast<size_t>(n.in(0).bytes())) {}
  void run(const RunContext& c) override {
    if (c.outputs[0] != c.inputs[0] && bytes_) std::memcpy(c.outputs[0], c.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

std::unique_ptr<Kernel> create(const NodeView& n, int) { return std::make_unique<Bytes>(n); }

}  // namespace

std::span<const KernelDef> reshape_kernels() {
  static const KernelDef defs[] = {
      {.op = "Reshape", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create},
      {.op = "Flatten", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create},
      {.op = "Squeeze", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create},
      {.op = "Unsqueeze", .name = "view", .types = kAllTypes, .aliases = {{EB_ALIAS_VIEW, 0, 0}}, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
