// Range, EyeLike, OneHot.
#include <cmath>
#include <cstring>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

template <class T>
class Range : public Kernel {
 public:
  explicit Range(const NodeView& n) : count_(n.out(0).count()) {}
  void run(const RunContext& c) override {
    for (int64_t i = 0; i < count_; ++i) c.out<T>(0)[i] = static_cast<T>(c.in<T>(0)[0] + static_cast<T>(i) * c.in<T>(2)[0]);
  }

 private:
  int64_t count_;
};

std::unique_ptr<Kernel> create_range(const NodeView& n, int threads) {
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<Range<float>>(n);
    case EB_FLOAT64: return std::make_unique<Range<double>>(n);
    case EB_INT16: return std::make_unique<Range<int16_t>>(n);
    case EB_INT32: return std::make_unique<Range<int32_t>>(n);
    case EB_INT64: return std::make_unique<Range<int64_t>>(n);
    default: return has_half(n) ? create_widened(n, threads, create_range) : nullptr;
  }
}

// 1 of an element type, as bytes.
uint64_t one_of(int32_t dtype) {
  uint64_t bits = 1;
  const float f = 1;
  const double d = 1;
  if (dtype == EB_FLOAT32) std::memcpy(&bits, &f, sizeof f);
  else if (dtype == EB_FLOAT64) std::memcpy(&bits, &d, sizeof d);
  else if (dtype == EB_FLOAT16) bits = 0x3c00;
  else if (dtype == EB_BFLOAT16) bits = 0x3f80;
  return bits;
}

class EyeLike : public Kernel {
 public:
  explicit EyeLike(const NodeView& n) : size_(eb::size_of(n.out(0).dtype)), rows_(n.out(0).dim(0)), columns_(n.out(0).dim(1)), k_(n.attr_int("k", 0)), one_(one_of(n.out(0).dtype)) {}
  void run(const RunContext& c) override {
    std::memset(c.outputs[0], 0, static_cast<size_t>(rows_ * columns_) * size_);
    for (int64_t i = 0; i < rows_; ++i)
      if (i + k_ >= 0 && i + k_ < columns_) std::memcpy(c.out<char>(0) + static_cast<size_t>(i * columns_ + i + k_) * size_, &one_, size_);
  }

 private:
  size_t size_;
  int64_t rows_, columns_, k_;
  uint64_t one_;
};

template <class I>
class OneHot : public Kernel {
 public:
  explicit OneHot(const NodeView& n) : size_(eb::size_of(n.out(0).dtype)), count_(n.out(0).count()) {
    int64_t axis = n.attr_int("axis", -1);
    if (axis < 0) axis += n.out(0).rank();
    depth_ = n.out(0).dim(axis);
    for (int64_t d = axis + 1; d < n.out(0).rank(); ++d) inner_ *= n.out(0).dim(d);
    indices_ = n.in(0).count();
  }
  void run(const RunContext& c) override {
    fill_elements(size_, c.inputs[2], c.outputs[0], count_);
    for (int64_t i = 0; i < indices_; ++i) {
      const double given = static_cast<double>(c.in<I>(0)[i]);
      if (!(given >= -static_cast<double>(depth_) && given < static_cast<double>(depth_))) continue;  // outside: all off
      int64_t at = static_cast<int64_t>(given);
      if (at < 0) at += depth_;
      const int64_t to = (i / inner_ * depth_ + at) * inner_ + i % inner_;
      std::memcpy(c.out<char>(0) + static_cast<size_t>(to) * size_, c.in<char>(2) + size_, size_);
    }
  }

 private:
  size_t size_;
  int64_t count_, depth_ = 1, inner_ = 1, indices_ = 0;
};

std::unique_ptr<Kernel> create_one_hot(const NodeView& n, int) {
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<OneHot<float>>(n);
    case EB_FLOAT64: return std::make_unique<OneHot<double>>(n);
    case EB_INT8: return std::make_unique<OneHot<int8_t>>(n);
    case EB_INT16: return std::make_unique<OneHot<int16_t>>(n);
    case EB_INT32: return std::make_unique<OneHot<int32_t>>(n);
    case EB_INT64: return std::make_unique<OneHot<int64_t>>(n);
    case EB_UINT8: return std::make_unique<OneHot<uint8_t>>(n);
    case EB_UINT16: return std::make_unique<OneHot<uint16_t>>(n);
    case EB_UINT32: return std::make_unique<OneHot<uint32_t>>(n);
    case EB_UINT64: return std::make_unique<OneHot<uint64_t>>(n);
    default: return nullptr;
  }
}

}  // namespace

std::span<const KernelDef> generate_kernels() {
  static const KernelDef defs[] = {
      {.op = "Range", .types = kFloats | kHalves | type_bit(EB_INT16) | type_bit(EB_INT32) | type_bit(EB_INT64), .create = create_range},
      {.op = "EyeLike", .types = kAllTypes, .create = [](const NodeView& n, int) -> std::unique_ptr<Kernel> { return std::make_unique<EyeLike>(n); }},
      {.op = "OneHot", .types = kFloats | kInts, .create = create_one_hot},
  };
  return defs;
}

}  // namespace eng::cpu
