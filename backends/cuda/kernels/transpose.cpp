// Transpose: one strided copy; operands may lie in any way.
#include "backends/cuda/kernels/copying.h"

namespace eng::cuda {
namespace {

std::unique_ptr<Kernel> create(const NodeView& n, eb_device*) {
  const TensorView& x = n.in(0);
  std::vector<int64_t> perm = n.attr_ints("perm"), from;
  if (!n.has_attr("perm"))
    for (int64_t i = x.rank(); i-- > 0;) perm.push_back(i);
  for (int64_t p : perm) from.push_back(x.strides[static_cast<size_t>(p)]);
  return std::make_unique<Copying>(StridedCopy(eb::size_of(x.dtype), n.out(0).dims, from, n.out(0).strides));
}

}  // namespace

std::span<const KernelDef> transpose_kernels() {
  static const KernelDef defs[] = {{.op = "Transpose", .name = "strided", .types = kAllTypes, .can_run = any_layout, .create = create}};
  return defs;
}

}  // namespace eng::cuda
