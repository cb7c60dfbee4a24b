// Resize and ResizeGrad: one pass an axis whose extent or content changes, over [outer][axis][inner] in the order of memory, so
// that row-major and channels-last are the same code. The gradient goes through the transposed tables, last axis first.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/resize_table.h"

namespace eng::cpu {
namespace {

template <class T>
class Resize : public Kernel {
 public:
  explicit Resize(const NodeView& n) {
    const bool gradient = n.op() == "ResizeGrad";
    const TensorView &wide = gradient ? n.out(0) : n.in(0), &narrow = gradient ? n.in(0) : n.out(0);
    const std::vector<ResizeTable> tables = resize_tables(n, wide.dims, narrow.dims);
    std::vector<size_t> order;  // axes as they lie in memory
    const bool last = wide.rank() > 2 && !(wide.row_major() && narrow.row_major());
    for (size_t i = 0; i < wide.dims.size(); ++i) order.push_back(!last || i == 0 ? i : i + 1 < wide.dims.size() ? i + 1 : 1);
    outside_ = gradient ? T(0) : static_cast<T>(n.attr_float("extrapolation_value", 0));
    std::vector<int64_t> dims;
    for (size_t a : order) dims.push_back(n.in(0).dims[a]);
    count_ = n.in(0).count();
    for (size_t k = 0; k < order.size(); ++k) {
      const size_t at = gradient ? order.size() - 1 - k : k;
      const ResizeTable& t = tables[order[at]];
      if (t.identity()) continue;
      Pass p{gradient ? t.transposed() : t, 1, 1, {}};
      for (size_t i = 0; i < at; ++i) p.outer *= dims[i];
      for (size_t i = at + 1; i < dims.size(); ++i) p.inner *= dims[i];
      dims[at] = p.table.out;
      p.weights.assign(p.table.weight.begin(), p.table.weight.end());
      if (!passes_.empty()) largest_ = std::max(largest_, passes_.back().size());
      passes_.push_back(std::move(p));
    }
  }
  size_t workspace() const override { return passes_.size() > 1 ? 2 * buffer() : 0; }
  void run(const RunContext& c) override {
    const T* from = c.in<T>(0);
    if (passes_.empty()) std::memcpy(c.outputs[0], from, static_cast<size_t>(count_) * sizeof(T));
    for (size_t k = 0; k < passes_.size(); ++k) {
      T* to = k + 1 == passes_.size() ? c.out<T>(0) : reinterpret_cast<T*>(static_cast<char*>(c.workspace) + k % 2 * buffer());
      apply(passes_[k], from, to);
      from = to;
    }
  }

 private:
  struct Pass {
    ResizeTable table;
    int64_t outer, inner;
    std::vector<T> weights;
    int64_t size() const { return outer * table.out * inner; }
  };
  size_t buffer() const { return (static_cast<size_t>(largest_) * sizeof(T) + 63) / 64 * 64; }

  void apply(const Pass& p, const T* from, T* to) const {
    const ResizeTable& t = p.table;
    const int64_t rows = p.outer * t.out;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t o = r % t.out, first = t.start[size_t(o)], stop = t.start[size_t(o) + 1];
      T* y = to + r * p.inner;
      const T* x = from + r / t.out * t.in * p.inner;
      std::fill_n(y, p.inner, first == stop ? outside_ : T(0));
      for (int64_t k = first; k < stop; ++k) {
        const T w = p.weights[size_t(k)];
        const T* s = x + t.index[size_t(k)] * p.inner;
        for (int64_t i = 0; i < p.inner; ++i) y[i] += w * s[i];
      }
    }
  }

  std::vector<Pass> passes_;
  T outside_ = 0;
  int64_t count_ = 0, largest_ = 0;
};

std::string can_run(const NodeView& n) {
  if (n.in(0).row_major() && n.out(0).row_major()) return "";
  return n.in(0).channels_last() && n.out(0).channels_last() ? "" : "operands are neither both row-major nor both channels-last";
}

std::unique_ptr<Kernel> create(const NodeView& n, int) {
  if (n.in(0).dtype == EB_FLOAT64) return std::make_unique<Resize<double>>(n);
  return std::make_unique<Resize<float>>(n);
}

}  // namespace

std::span<const KernelDef> resize_kernels() {
  static const KernelDef defs[] = {
      {.op = "Resize", .name = "axes", .types = kFloats, .host_inputs = 0b1110, .can_run = can_run, .create = create},
      {.domain = "ai.engine", .op = "ResizeGrad", .name = "axes", .types = kFloats, .host_inputs = 0b1110, .can_run = can_run, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
