// Concat and Split: a strided copy for each part, any layout. A part that the engine has laid straight into the whole is not copied.
#include "backends/cuda/kernel.h"
#include "backends/cuda/strided_copy.h"

namespace eng::cuda {
namespace {

class Parts : public Kernel {
 public:
  Parts(const NodeView& n, bool join) : join_(join) {
    const TensorView& whole = join ? n.out(0) : n.in(0);
    const size_t size = eb::size_of(whole.dtype);
    int64_t axis = n.attr_int("axis", 0), start = 0;
    if (axis < 0) axis += whole.rank();
    const int count = join ? n.input_count() : n.output_count();
    const std::vector<int64_t> split = join ? std::vector<int64_t>() : n.host_ints(1);
    const int64_t chunk = (whole.dim(axis) + std::max(count, 1) - 1) / std::max(count, 1);
    for (int i = 0; i < count; ++i) {
      const TensorView& part = join ? n.in(i) : n.out(i);
      const int64_t step = whole.strides[static_cast<size_t>(axis)];
      offsets_.push_back(start * step * static_cast<int64_t>(size));
      if (!part.present()) copies_.emplace_back();
      else if (join) copies_.emplace_back(size, part.dims, part.strides, whole.strides, 0, start * step);
      else copies_.emplace_back(size, part.dims, whole.strides, part.strides, start * step, 0);
      start += part.present() ? part.dim(axis) : split.empty() ? chunk : split[static_cast<size_t>(i)];
    }
  }
  void run(const RunContext& c) override {
    for (size_t i = 0; i < copies_.size(); ++i) {
      const void* from = join_ ? c.in(static_cast<int>(i)) : c.in(0);
      void* to = join_ ? c.out(0) : c.out(static_cast<int>(i));
      const char* in_place = static_cast<const char*>(join_ ? to : from) + offsets_[i];
      if (from && to && in_place != (join_ ? from : to)) copies_[i].run(c.stream, from, to);
    }
  }

 private:
  bool join_;
  std::vector<StridedCopy> copies_;
  std::vector<int64_t> offsets_;
};

}  // namespace

std::span<const KernelDef> concat_kernels() {
  static const KernelDef defs[] = {
      {.op = "Concat", .name = "strided", .types = kAllTypes, .can_run = any_layout,
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<Parts>(n, true); }},
      {.op = "Split", .name = "strided", .types = kAllTypes, .host_inputs = 2, .can_run = any_layout,
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<Parts>(n, false); }},
  };
  return defs;
}

}  // namespace eng::cuda
