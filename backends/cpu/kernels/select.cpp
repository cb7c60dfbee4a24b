// Trilu, ReverseSequence, TopK.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

class Trilu : public Kernel {
 public:
  explicit Trilu(const NodeView& n) : size_(eb::size_of(n.in(0).dtype)), rows_(n.in(0).dim(-2)), columns_(n.in(0).dim(-1)), upper_(n.attr_int("upper", 1)) {
    const std::vector<int64_t> k = n.host_ints(1);
    k_ = k.empty() ? 0 : std::clamp(k[0], -rows_ - columns_, rows_ + columns_);
    matrices_ = rows_ > 0 && columns_ > 0 ? n.in(0).count() / (rows_ * columns_) : 0;
  }
  void run(const RunContext& c) override {
    for (int64_t i = 0; i < matrices_ * rows_; ++i) {
      // upper keeps columns from row + k on, lower those up to row + k
      const int64_t edge = std::clamp<int64_t>(i % rows_ + k_ + (upper_ ? 0 : 1), 0, columns_);
      const size_t left = static_cast<size_t>(edge) * size_, row = static_cast<size_t>(columns_) * size_;
      const char* from = c.in<char>(0) + static_cast<size_t>(i) * row;
      char* to = c.out<char>(0) + static_cast<size_t>(i) * row;
      if (upper_) {
        std::memset(to, 0, left);
        std::memcpy(to + left, from + left, row - left);
      } else {
        std::memcpy(to, from, left);
        std::memset(to + left, 0, row - left);
      }
    }
  }

 private:
  size_t size_;
  int64_t rows_, columns_, k_ = 0, matrices_ = 0;
  bool upper_;
};

class ReverseSequence : public Kernel {
 public:
  explicit ReverseSequence(const NodeView& n) : batch_first_(n.attr_int("batch_axis", 1) == 0), rows_(n.in(0).dim(0)), columns_(n.in(0).dim(1)) {
    row_ = rows_ > 0 && columns_ > 0 ? static_cast<size_t>(n.in(0).bytes() / (rows_ * columns_)) : 0;
  }
  void run(const RunContext& c) override {
    const int64_t times = batch_first_ ? columns_ : rows_;
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j) {
        const int64_t b = batch_first_ ? i : j, t = batch_first_ ? j : i, length = c.in<int64_t>(1)[b];
        if (length < 0 || length > times) throw std::runtime_error("sequence length " + std::to_string(length) + " is outside 0 to " + std::to_string(times));
        const int64_t from = t < length ? length - 1 - t : t;
        const int64_t at = batch_first_ ? i * columns_ + from : from * columns_ + j;
        std::memcpy(c.out<char>(0) + static_cast<size_t>(i * columns_ + j) * row_, c.in<char>(0) + static_cast<size_t>(at) * row_, row_);
      }
  }

 private:
  bool batch_first_;
  int64_t rows_, columns_;
  size_t row_ = 0;
};

template <class T>
class TopK : public Kernel {
 public:
  TopK(const NodeView& n, int) : largest_(n.attr_int("largest", 1)), has_values_(n.out(0).present()), has_indices_(n.out(1).present()) {
    const TensorView& x = n.in(0);
    int64_t axis = n.attr_int("axis", -1);
    if (axis < 0) axis += x.rank();
    for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? outer_ : d > axis ? inner_ : extent_) *= x.dim(d);
    k_ = n.host_ints(1)[0];
  }
  size_t workspace() const override { return static_cast<size_t>(extent_) * sizeof(int64_t); }
  void run(const RunContext& c) override {
    auto* order = static_cast<int64_t*>(c.workspace);
    for (int64_t line = 0; line < outer_ * inner_ && k_ > 0; ++line) {
      const T* x = c.in<T>(0) + line / inner_ * extent_ * inner_ + line % inner_;
      for (int64_t i = 0; i < extent_; ++i) order[i] = i;
      // NaN counts as the largest; of equal elements the first comes first.
      std::partial_sort(order, order + k_, order + extent_, [&](int64_t a, int64_t b) {
        const T p = x[a * inner_], q = x[b * inner_];
        if constexpr (std::is_floating_point_v<T>) {
          const bool np = std::isnan(p), nq = std::isnan(q);
          if (np != nq) return largest_ ? np : nq;
          if (np) return a < b;
        }
        return p == q ? a < b : largest_ ? p > q : p < q;
      });
      const int64_t at = line / inner_ * k_ * inner_ + line % inner_;
      for (int64_t i = 0; i < k_; ++i) {
        if (has_values_) c.out<T>(0)[at + i * inner_] = x[order[i] * inner_];
        if (has_indices_) c.out<int64_t>(1)[at + i * inner_] = order[i];
      }
    }
  }

 private:
  bool largest_, has_values_, has_indices_;
  int64_t outer_ = 1, extent_ = 1, inner_ = 1, k_ = 0;
};

std::unique_ptr<Kernel> create_top_k(const NodeView& n, int threads) {
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<TopK<float>>(n, threads);
    case EB_FLOAT64: return std::make_unique<TopK<double>>(n, threads);
    case EB_INT8: return std::make_unique<TopK<int8_t>>(n, threads);
    case EB_INT16: return std::make_unique<TopK<int16_t>>(n, threads);
    case EB_INT32: return std::make_unique<TopK<int32_t>>(n, threads);
    case EB_INT64: return std::make_unique<TopK<int64_t>>(n, threads);
    case EB_UINT8: return std::make_unique<TopK<uint8_t>>(n, threads);
    case EB_UINT16: return std::make_unique<TopK<uint16_t>>(n, threads);
    case EB_UINT32: return std::make_unique<TopK<uint32_t>>(n, threads);
    case EB_UINT64: return std::make_unique<TopK<uint64_t>>(n, threads);
    default: return has_half(n) ? create_widened(n, threads, create_top_k) : nullptr;
  }
}

template <class K>
std::unique_ptr<Kernel> create(const NodeView& n, int) { return std::make_unique<K>(n); }

}  // namespace

std::span<const KernelDef> select_kernels() {
  static const KernelDef defs[] = {
      {.op = "Trilu", .name = "rows", .types = kAllTypes, .host_inputs = 2, .create = create<Trilu>},
      {.op = "ReverseSequence", .name = "rows", .types = kAllTypes, .create = create<ReverseSequence>},
      {.op = "TopK", .name = "partial sort", .types = kAllTypes & ~type_bit(EB_BOOL), .host_inputs = 2, .create = create_top_k},
  };
  return defs;
}

}  // namespace eng::cpu
