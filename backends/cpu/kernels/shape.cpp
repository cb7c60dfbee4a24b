// Shape, Size, ConstantOfShape: known when the step is compiled and folded then; the kernels serve graphs that are run node by node.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

class Content : public Kernel {
 public:
  explicit Content(std::vector<int64_t> values) : values_(std::move(values)) {}
  void run(const RunContext& c) override { std::copy(values_.begin(), values_.end(), c.out<int64_t>(0)); }

 private:
  std::vector<int64_t> values_;
};

class Fill : public Kernel {
 public:
  explicit Fill(const NodeView& n) : size_(eb::size_of(n.out(0).dtype)), count_(n.out(0).count()) {
    if (const eb_attribute* a = n.find("value", EB_ATTR_TENSOR)) std::memcpy(value_, a->tensor_data, size_);
  }
  void run(const RunContext& c) override { fill_elements(size_, value_, c.outputs[0], count_); }

 private:
  size_t size_;
  int64_t count_;
  char value_[8] = {};
};

std::unique_ptr<Kernel> create_shape(const NodeView& n, int) {
  const std::vector<int64_t>& dims = n.in(0).dims;
  const int64_t rank = n.in(0).rank();
  const int64_t start = n.attr_int("start", 0), first = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  return std::make_unique<Content>(std::vector<int64_t>(dims.begin() + (n.out(0).count() ? first : 0), dims.begin() + (n.out(0).count() ? first : 0) + n.out(0).count()));
}

std::string anything(const NodeView&) { return ""; }

}  // namespace

std::span<const KernelDef> shape_kernels() {
  static const KernelDef defs[] = {
      {.op = "Shape", .name = "constant", .types = kAllTypes, .can_run = anything, .create = create_shape},
      {.op = "Size", .name = "constant", .types = kAllTypes, .can_run = anything,
       .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<Content>(std::vector<int64_t>{n.in(0).count()}); }},
      {.op = "ConstantOfShape", .name = "fill", .types = type_bit(EB_INT64), .host_inputs = 1,
       .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<Fill>(n); }},
  };
  return defs;
}

}  // namespace eng::cpu
