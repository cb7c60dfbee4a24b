// ScatterElements and ScatterND: a copy of the data, then the updates one after another in the order of the indices.
#include <cstring>
#include <stdexcept>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Reduction reduction_of(const NodeView& n) {
  const std::string r = n.attr_string("reduction", "none");
  return r == "add" ? Reduction::kAdd : r == "mul" ? Reduction::kMul : r == "max" ? Reduction::kMax : r == "min" ? Reduction::kMin : Reduction::kNone;
}

template <class T>
void combine(Reduction r, T& to, T from) {
  switch (r) {
    case Reduction::kNone: to = from; break;
    case Reduction::kAdd: to = static_cast<T>(to + from); break;
    case Reduction::kMul: to = static_cast<T>(to * from); break;
    case Reduction::kMax: to = from > to ? from : to; break;
    case Reduction::kMin: to = from < to ? from : to; break;
  }
}

int64_t index_at(const void* indices, int32_t type, int64_t i, int64_t extent) {
  const int64_t index = type == EB_INT32 ? static_cast<const int32_t*>(indices)[i] : static_cast<const int64_t*>(indices)[i];
  const int64_t at = index < 0 ? index + extent : index;
  if (at < 0 || at >= extent) throw std::runtime_error("index " + std::to_string(index) + " is outside an axis of extent " + std::to_string(extent));
  return at;
}

template <class T>
class Scatter : public Kernel {
 public:
  Scatter(const NodeView& n, bool nd) : nd_(nd), x_(n.in(0)), at_(n.in(1)), updates_(n.in(2).count()), reduction_(reduction_of(n)), axis_(n.attr_int("axis", 0)) {
    if (axis_ < 0) axis_ += x_.rank();
  }
  void run(const RunContext& c) override {
    if (c.outputs[0] != c.inputs[0]) std::memcpy(c.outputs[0], c.inputs[0], static_cast<size_t>(x_.bytes()));
    if (nd_) scatter_nd(c);
    else scatter_elements(c);
  }

 private:
  void scatter_elements(const RunContext& c) {
    for (int64_t i = 0; i < updates_; ++i) {
      int64_t rest = i, to = 0;
      for (int64_t d = x_.rank(); d-- > 0;) {
        const int64_t at = rest % at_.dim(d);
        rest /= at_.dim(d);
        to += (d == axis_ ? index_at(c.inputs[1], at_.dtype, i, x_.dim(d)) : at) * x_.strides[static_cast<size_t>(d)];
      }
      combine(reduction_, c.out<T>(0)[to], c.in<T>(2)[i]);
    }
  }
  void scatter_nd(const RunContext& c) {
    const int64_t depth = at_.dims.back(), picks = at_.count() / depth;
    if (!picks) return;
    const int64_t inner = updates_ / picks;
    for (int64_t i = 0; i < picks; ++i) {
      int64_t at = 0;
      for (int64_t k = 0; k < depth; ++k) at = at * x_.dim(k) + index_at(c.inputs[1], at_.dtype, i * depth + k, x_.dim(k));
      for (int64_t j = 0; j < inner; ++j) combine(reduction_, c.out<T>(0)[at * inner + j], c.in<T>(2)[i * inner + j]);
    }
  }
  bool nd_;
  TensorView x_, at_;
  int64_t updates_;
  Reduction reduction_;
  int64_t axis_;
};

std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  const bool nd = n.op() == "ScatterND";
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<Scatter<float>>(n, nd);
    case EB_FLOAT64: return std::make_unique<Scatter<double>>(n, nd);
    case EB_INT8: return std::make_unique<Scatter<int8_t>>(n, nd);
    case EB_INT16: return std::make_unique<Scatter<int16_t>>(n, nd);
    case EB_INT32: return std::make_unique<Scatter<int32_t>>(n, nd);
    case EB_INT64: return std::make_unique<Scatter<int64_t>>(n, nd);
    case EB_BOOL: case EB_UINT8: return std::make_unique<Scatter<uint8_t>>(n, nd);
    case EB_UINT16: return std::make_unique<Scatter<uint16_t>>(n, nd);
    case EB_UINT32: return std::make_unique<Scatter<uint32_t>>(n, nd);
    case EB_UINT64: return std::make_unique<Scatter<uint64_t>>(n, nd);
    default: return has_half(n) ? create_widened(n, threads, create) : nullptr;
  }
}

}  // namespace

std::span<const KernelDef> scatter_kernels() {
  static const KernelDef defs[] = {
      {.op = "ScatterElements", .types = kAllTypes, .create = create},
      {.op = "ScatterND", .types = kAllTypes, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
