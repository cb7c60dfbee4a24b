// Transpose: one strided copy; operands may lie in any way.
#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

class Transpose : public Kernel {
 public:
  explicit Transpose(const NodeView& n) {
    const TensorView& x = n.in(0);
    std::vector<int64_t> perm = n.attr_ints("perm"), from;
    if (!n.has_attr("perm")) for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
    for (int64_t p : perm) from.push_back(x.strides[static_cast<size_t>(p)]);
    copy_ = StridedCopy(eb::size_of(x.dtype), n.out(0).dims, from, n.out(0).strides);
  }
  void run(const RunContext& c) override { copy_.run(c.inputs[0], c.outputs[0]); }

 private:
  StridedCopy copy_;
};

}  // namespace

std::span<const KernelDef> transpose_kernels() {
  static const KernelDef defs[] = {
      {.op = "Transpose", .name = "strided", .types = kAllTypes, .can_run = [](const NodeView&) { return std::string(); },
       .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<Transpose>(n); }},
  };
  return defs;
}

}  // namespace eng::cpu
