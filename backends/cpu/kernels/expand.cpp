// Expand and Tile: strided copies that read an element again along repeated axes.
#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

class Copy : public Kernel {
 public:
  explicit Copy(StridedCopy copy) : copy_(std::move(copy)) {}
  void run(const RunContext& c) override { copy_.run(c.inputs[0], c.outputs[0]); }

 private:
  StridedCopy copy_;
};

std::unique_ptr<Kernel> create_expand(const NodeView& n, int) {
  const TensorView &x = n.in(0), &y = n.out(0);
  std::vector<int64_t> from(y.dims.size(), 0);
  for (size_t d = 0, lead = y.dims.size() - x.dims.size(); d < x.dims.size(); ++d) from[d + lead] = x.dims[d] == 1 ? 0 : x.strides[d];
  return std::make_unique<Copy>(StridedCopy(eb::size_of(x.dtype), y.dims, from, y.strides));
}

std::unique_ptr<Kernel> create_tile(const NodeView& n, int) {
  const TensorView &x = n.in(0), &y = n.out(0);
  std::vector<int64_t> dims, from, to;
  for (size_t d = 0; d < x.dims.size(); ++d) {  // each axis as (repeats, extent)
    dims.insert(dims.end(), {x.dims[d] ? y.dims[d] / x.dims[d] : 0, x.dims[d]});
    from.insert(from.end(), {0, x.strides[d]});
    to.insert(to.end(), {x.dims[d] * y.strides[d], y.strides[d]});
  }
  return std::make_unique<Copy>(StridedCopy(eb::size_of(x.dtype), dims, from, to));
}

}  // namespace

std::span<const KernelDef> expand_kernels() {
  static const KernelDef defs[] = {
      {.op = "Expand", .name = "strided", .types = kAllTypes, .host_inputs = 2, .create = create_expand},
      {.op = "Tile", .name = "strided", .types = kAllTypes, .host_inputs = 2, .create = create_tile},
  };
  return defs;
}

}  // namespace eng::cpu
