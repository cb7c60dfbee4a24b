// Reorder: y = x in another layout, one strided copy.
#include "backends/cuda/kernels/bytes.h"
#include "backends/cuda/kernels/copying.h"

namespace eng::cuda {
namespace {

std::unique_ptr<Kernel> create(const NodeView& n, eb_device* device) {
  const TensorView &x = n.in(0), &y = n.out(0);
  if ((x.row_major() && y.row_major()) || (x.channels_last() && y.channels_last())) return create_bytes(n, device);
  return std::make_unique<Copying>(StridedCopy(eb::size_of(x.dtype), y.dims, x.strides, y.strides));
}

std::string can_run(const NodeView& n) { return n.in(0).dims == n.out(0).dims && n.in(0).dtype == n.out(0).dtype ? "" : "operands of different shape or type"; }

}  // namespace

std::span<const KernelDef> reorder_kernels() {
  static const KernelDef defs[] = {
      {.domain = "ai.engine", .op = "Reorder", .name = "strided", .types = kAllTypes, .can_run = can_run, .create = create},
  };
  return defs;
}

}  // namespace eng::cuda
