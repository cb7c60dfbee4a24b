// Gather, GatherElements, GatherND and the gradients GatherGrad, GatherNDGrad. An index outside the data ends the run with an
// error; it is never followed. The gradients add in the order of the indices, so the result does not depend on threads:
// GatherGrad is split over the axes outside the indexed one, or over the columns inside it.
#include <omp.h>

#include <cstring>
#include <stdexcept>

#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

int64_t product(const std::vector<int64_t>& dims, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t d = from; d < to; ++d) n *= dims[d];
  return n;
}

int64_t index_at(const void* indices, int32_t type, int64_t i) {
  return type == EB_INT32 ? static_cast<const int32_t*>(indices)[i] : static_cast<const int64_t*>(indices)[i];
}

// The element a (possibly negative) index means; throws (the stream turns that into the node's error) where there is none.
int64_t checked(int64_t index, int64_t extent) {
  const int64_t at = index < 0 ? index + extent : index;
  if (at < 0 || at >= extent) throw std::runtime_error("index " + std::to_string(index) + " is outside an axis of extent " + std::to_string(extent));
  return at;
}

struct AxisPlan {
  int64_t outer, extent, inner, picks;  // data is [outer, extent, inner], the result [outer, picks, inner]
  int32_t index_type;
  AxisPlan(const NodeView& n, const std::vector<int64_t>& data) {
    int64_t axis = n.attr_int("axis", 0);
    if (axis < 0) axis += static_cast<int64_t>(data.size());
    const size_t a = static_cast<size_t>(axis);
    outer = product(data, 0, a);
    extent = data[a];
    inner = product(data, a + 1, data.size());
    picks = n.in(1).count();
    index_type = n.in(1).dtype;
  }
  void check(const void* indices) const {
    for (int64_t i = 0; i < picks; ++i) checked(index_at(indices, index_type, i), extent);
  }
};

class Gather : public Kernel {
 public:
  explicit Gather(const NodeView& n) : p_(n, n.in(0).dims), size_(eb::size_of(n.in(0).dtype)) {}
  void run(const RunContext& c) override {
    const char* x = c.in<char>(0);
    char* y = c.out<char>(0);
    p_.check(c.inputs[1]);
    const size_t row = static_cast<size_t>(p_.inner) * size_;
#pragma omp parallel for schedule(static) if (p_.outer * p_.picks * static_cast<int64_t>(row) > 131072)
    for (int64_t i = 0; i < p_.outer * p_.picks; ++i) {
      const int64_t index = index_at(c.inputs[1], p_.index_type, i % p_.picks), at = index < 0 ? index + p_.extent : index;
      std::memcpy(y + static_cast<size_t>(i) * row, x + static_cast<size_t>(i / p_.picks * p_.extent + at) * row, row);
    }
  }

 private:
  AxisPlan p_;
  size_t size_;
};

template <class T>
class GatherGrad : public Kernel {
 public:
  explicit GatherGrad(const NodeView& n) : p_(n, n.out(0).dims), bytes_(static_cast<size_t>(n.out(0).bytes())) {}
  void run(const RunContext& c) override {
    p_.check(c.inputs[1]);
    std::memset(c.outputs[0], 0, bytes_);
    const bool big = p_.outer * p_.picks * p_.inner > 32768;
    const int64_t parts = big && p_.outer < omp_get_max_threads() ? std::min<int64_t>(omp_get_max_threads(), std::max<int64_t>(p_.inner / 16, 1)) : 1;
#pragma omp parallel for schedule(static) if (big)
    for (int64_t i = 0; i < p_.outer * parts; ++i) {
      const int64_t o = i / parts, begin = i % parts * p_.inner / parts, end = (i % parts + 1) * p_.inner / parts;
      for (int64_t k = 0; k < p_.picks; ++k) {
        const int64_t index = index_at(c.inputs[1], p_.index_type, k), at = index < 0 ? index + p_.extent : index;
        const T* from = c.in<T>(0) + (o * p_.picks + k) * p_.inner;
        T* to = c.out<T>(0) + (o * p_.extent + at) * p_.inner;
        for (int64_t j = begin; j < end; ++j) to[j] += from[j];
      }
    }
  }

 private:
  AxisPlan p_;
  size_t bytes_;
};

class GatherElements : public Kernel {
 public:
  explicit GatherElements(const NodeView& n) : x_(n.in(0)), at_(n.in(1)), axis_(n.attr_int("axis", 0)) {
    if (axis_ < 0) axis_ += x_.rank();
  }
  void run(const RunContext& c) override {
    with_element(eb::size_of(x_.dtype), [&](auto t) {
      using T = decltype(t);
      for (int64_t i = 0, count = at_.count(); i < count; ++i) {
        int64_t rest = i, from = 0;
        for (int64_t d = x_.rank(); d-- > 0;) {
          const int64_t at = rest % at_.dim(d);
          rest /= at_.dim(d);
          from += (d == axis_ ? checked(index_at(c.inputs[1], at_.dtype, i), x_.dim(d)) : at) * x_.strides[static_cast<size_t>(d)];
        }
        c.out<T>(0)[i] = c.in<T>(0)[from];
      }
    });
  }

 private:
  TensorView x_, at_;
  int64_t axis_;
};

struct NdPlan {
  int64_t batch, picks, depth, inner, block;  // indices are [batch, picks, depth]; data [batch, extents.., inner]
  std::vector<int64_t> extents;
  int32_t index_type;
  NdPlan(const NodeView& n, const std::vector<int64_t>& data) {
    const size_t b = static_cast<size_t>(n.attr_int("batch_dims", 0)), rank = n.in(1).dims.size();
    depth = n.in(1).dims.back();
    batch = product(data, 0, b);
    picks = product(n.in(1).dims, b, rank - 1);
    extents.assign(data.begin() + static_cast<int64_t>(b), data.begin() + static_cast<int64_t>(b) + depth);
    inner = product(data, b + static_cast<size_t>(depth), data.size());
    block = product(data, b, data.size());
    index_type = n.in(1).dtype;
  }
  // Offset in the data of what pick i (of batch * picks) means.
  int64_t offset(const void* indices, int64_t i) const {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k)
      at = at * extents[static_cast<size_t>(k)] + checked(index_at(indices, index_type, i * depth + k), extents[static_cast<size_t>(k)]);
    return i / picks * block + at * inner;
  }
};

class GatherND : public Kernel {
 public:
  explicit GatherND(const NodeView& n) : p_(n, n.in(0).dims), row_(static_cast<size_t>(p_.inner) * eb::size_of(n.in(0).dtype)), size_(eb::size_of(n.in(0).dtype)) {}
  void run(const RunContext& c) override {
    for (int64_t i = 0; i < p_.batch * p_.picks; ++i)
      std::memcpy(c.out<char>(0) + static_cast<size_t>(i) * row_, c.in<char>(0) + static_cast<size_t>(p_.offset(c.inputs[1], i)) * size_, row_);
  }

 private:
  NdPlan p_;
  size_t row_, size_;
};

template <class T>
class GatherNDGrad : public Kernel {
 public:
  explicit GatherNDGrad(const NodeView& n) : p_(n, n.out(0).dims), bytes_(static_cast<size_t>(n.out(0).bytes())) {}
  void run(const RunContext& c) override {
    std::memset(c.outputs[0], 0, bytes_);
    for (int64_t i = 0; i < p_.batch * p_.picks; ++i) {
      T* to = c.out<T>(0) + p_.offset(c.inputs[1], i);
      const T* from = c.in<T>(0) + i * p_.inner;
      for (int64_t j = 0; j < p_.inner; ++j) to[j] += from[j];
    }
  }

 private:
  NdPlan p_;
  size_t bytes_;
};

template <class K>
std::unique_ptr<Kernel> create(const NodeView& n, int) { return std::make_unique<K>(n); }
template <template <class> class K>
std::unique_ptr<Kernel> create_real(const NodeView& n, int) {
  if (n.in(0).dtype == EB_FLOAT32) return std::make_unique<K<float>>(n);
  return std::make_unique<K<double>>(n);
}

}  // namespace

std::span<const KernelDef> gather_kernels() {
  static const KernelDef defs[] = {
      {.op = "Gather", .name = "rows", .types = kAllTypes, .create = create<Gather>},
      {.op = "GatherElements", .types = kAllTypes, .create = create<GatherElements>},
      {.op = "GatherND", .name = "rows", .types = kAllTypes, .create = create<GatherND>},
      {.domain = "ai.engine", .op = "GatherGrad", .name = "rows", .types = kFloats, .create = create_real<GatherGrad>},
      {.domain = "ai.engine", .op = "GatherNDGrad", .name = "rows", .types = kFloats, .create = create_real<GatherNDGrad>},
  };
  return defs;
}

}  // namespace eng::cpu
