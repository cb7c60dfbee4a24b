// MatMul and ai.engine::BatchMatMul: vectors become matrices, batch axes that lie one after another are merged (into the rows
// where B has no batch), broadcast ones get stride 0, and one batched product does the rest.
#include "backends/cpu/gemm.h"

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

// Merges batch axes whose strides allow it in all three operands.
void merge_batch(GemmSpec& s) {
  for (size_t d = 1; d < s.batch.size();) {
    auto fits = [&](const MatrixStrides& m) { return m.batch[d - 1] == m.batch[d] * s.batch[d]; };
    if (fits(s.a) && fits(s.b) && fits(s.c)) {
      s.batch[d - 1] *= s.batch[d];
      s.batch.erase(s.batch.begin() + static_cast<int64_t>(d));
      for (MatrixStrides* m : {&s.a, &s.b, &s.c}) m->batch.erase(m->batch.begin() + static_cast<int64_t>(d) - 1);
    } else {
      ++d;
    }
  }
  const bool fold = s.batch.size() == 1 && s.b.batch[0] == 0 && s.a.column == 1 && s.a.batch[0] == s.m * s.a.row && s.c.batch[0] == s.m * s.c.row;
  if (fold) {
    s.m *= s.batch[0];
    s.batch.clear();
    for (MatrixStrides* m : {&s.a, &s.b, &s.c}) m->batch.clear();
  }
}

// Batch strides of a row-major operand [.., rows, columns] seen from the batch of the result.
std::vector<int64_t> batch_strides(const std::vector<int64_t>& dims, const std::vector<int64_t>& batch) {
  std::vector<int64_t> out(batch.size(), 0);
  int64_t stride = dims[dims.size() - 1] * dims[dims.size() - 2];
  for (size_t d = dims.size() - 2, to = batch.size(); d-- > 0 && to-- > 0;) {
    out[to] = dims[d] == 1 ? 0 : stride;
    stride *= dims[d];
  }
  return out;
}

GemmSpec plan(const NodeView& n) {
  const bool ta = n.attr_int("trans_a", 0), tb = n.attr_int("trans_b", 0);
  std::vector<int64_t> a = n.in(0).dims, b = n.in(1).dims;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  GemmSpec s;
  s.m = a[a.size() - (ta ? 1 : 2)];
  s.k = a[a.size() - (ta ? 2 : 1)];
  s.n = b[b.size() - (tb ? 2 : 1)];
  const size_t rank = std::max(a.size(), b.size());
  std::vector<int64_t> y;
  for (size_t d = 0; d + 2 < rank; ++d) {
    const int64_t da = d + a.size() >= rank ? a[d + a.size() - rank] : 1, db = d + b.size() >= rank ? b[d + b.size() - rank] : 1;
    y.push_back(da == 1 ? db : da);
  }
  s.batch = y;
  s.a = matrix(a.back(), ta);
  s.b = matrix(b.back(), tb);
  s.c = matrix(s.n);
  s.a.batch = batch_strides(a, y);
  s.b.batch = batch_strides(b, y);
  y.push_back(s.m);
  y.push_back(s.n);
  s.c.batch = batch_strides(y, s.batch);
  for (size_t d = s.batch.size(); d-- > 0;)
    if (s.batch[d] == 1) {
      s.batch.erase(s.batch.begin() + static_cast<int64_t>(d));
      for (MatrixStrides* m : {&s.a, &s.b, &s.c}) m->batch.erase(m->batch.begin() + static_cast<int64_t>(d));
    }
  merge_batch(s);
  return s;
}

template <class T>
class MatMulKernel : public Kernel {
 public:
  MatMulKernel(const NodeView& n, int threads) : product_(Gemm<T>::create(plan(n), threads)) {}
  size_t workspace() const override { return product_->workspace(); }
  void run(const RunContext& c) override { product_->run(c.in<T>(0), c.in<T>(1), nullptr, c.out<T>(0), c.workspace); }

 private:
  std::unique_ptr<Gemm<T>> product_;
};

std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<MatMulKernel<float>>(n, threads);
    case EB_FLOAT64: return std::make_unique<MatMulKernel<double>>(n, threads);
    case EB_INT32: return std::make_unique<MatMulKernel<int32_t>>(n, threads);
    case EB_INT64: return std::make_unique<MatMulKernel<int64_t>>(n, threads);
    case EB_UINT32: return std::make_unique<MatMulKernel<uint32_t>>(n, threads);
    case EB_UINT64: return std::make_unique<MatMulKernel<uint64_t>>(n, threads);
    default: return has_half(n) ? create_widened(n, threads, create) : nullptr;
  }
}

constexpr uint64_t kTypes = kFloats | kHalves | type_bit(EB_INT32) | type_bit(EB_INT64) | type_bit(EB_UINT32) | type_bit(EB_UINT64);

}  // namespace

std::span<const KernelDef> matmul_kernels() {
  static const KernelDef defs[] = {
      {.op = "MatMul", .name = "onednn", .types = kTypes, .create = create},
      {.domain = "ai.engine", .op = "BatchMatMul", .name = "onednn", .types = kTypes, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
