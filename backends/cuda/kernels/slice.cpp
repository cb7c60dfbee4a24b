// Slice and ai.engine::SliceGrad: one strided copy out of, or into, the larger tensor; any layout.
#include <algorithm>

#include "backends/cuda/kernel.h"
#include "backends/cuda/strided_copy.h"

namespace eng::cuda {
namespace {

struct Picked {
  int64_t offset = 0;            // of the first element taken
  std::vector<int64_t> strides;  // of the larger tensor, along the slice
};

Picked pick(const TensorView& whole, const std::vector<int64_t>& starts, const std::vector<int64_t>& steps) {
  Picked p;
  for (size_t d = 0; d < whole.dims.size(); ++d) {
    p.offset += starts[d] * whole.strides[d];
    p.strides.push_back(steps[d] * whole.strides[d]);
  }
  return p;
}

// Starts and steps per axis; ends are in the output's shape already.
Picked pick_slice(const NodeView& n) {
  const TensorView& x = n.in(0);
  std::vector<int64_t> starts(x.dims.size(), 0), steps(x.dims.size(), 1);
  const std::vector<int64_t> given = n.host_ints(1), axes = n.host_ints(3), by = n.host_ints(4);
  for (size_t i = 0; i < given.size(); ++i) {
    int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    if (axis < 0) axis += x.rank();
    const int64_t extent = x.dim(axis), step = by.empty() ? 1 : by[i], at = given[i] < 0 ? given[i] + extent : given[i];
    starts[static_cast<size_t>(axis)] = std::clamp<int64_t>(at, 0, std::max<int64_t>(step > 0 ? extent : extent - 1, 0));
    steps[static_cast<size_t>(axis)] = n.out(0).dim(axis) > 1 ? step : 1;
  }
  return pick(x, starts, steps);
}

class Slice : public Kernel {
 public:
  explicit Slice(const NodeView& n) {
    const Picked p = pick_slice(n);
    offset_ = p.offset * static_cast<int64_t>(eb::size_of(n.in(0).dtype));
    copy_ = StridedCopy(eb::size_of(n.in(0).dtype), n.out(0).dims, p.strides, n.out(0).strides, p.offset);
  }
  void run(const RunContext& c) override {
    if (c.in<char>(0) + offset_ != c.out(0)) copy_.run(c.stream, c.in(0), c.out(0));
  }

 private:
  int64_t offset_ = 0;
  StridedCopy copy_;
};

class SliceGrad : public Kernel {
 public:
  explicit SliceGrad(const NodeView& n) : bytes_(static_cast<size_t>(n.out(0).bytes())) {
    const Picked p = pick(n.out(0), n.attr_ints("starts"), n.attr_ints("steps"));
    copy_ = StridedCopy(eb::size_of(n.in(0).dtype), n.in(0).dims, n.in(0).strides, p.strides, 0, p.offset);
  }
  void run(const RunContext& c) override {
    if (bytes_) check(cudaMemsetAsync(c.out(0), 0, bytes_, c.stream), "clearing");
    copy_.run(c.stream, c.in(0), c.out(0));
  }

 private:
  size_t bytes_;
  StridedCopy copy_;
};

std::string dense_output(const NodeView& n) { return n.out(0).row_major() || n.out(0).channels_last() ? "" : "output 0 has gaps"; }

}  // namespace

std::span<const KernelDef> slice_kernels() {
  static const KernelDef defs[] = {
      {.op = "Slice", .name = "strided", .types = kAllTypes, .host_inputs = 0x1e, .can_run = any_layout,
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<Slice>(n); }},
      {.domain = "ai.engine", .op = "SliceGrad", .name = "strided", .types = kAllTypes, .can_run = dense_output,
       .create = [](const NodeView& n, eb_device*) -> std::unique_ptr<Kernel> { return std::make_unique<SliceGrad>(n); }},
  };
  return defs;
}

}  // namespace eng::cuda
