// Gemm: one product; C enters as the product's bias where it is a row, else it is laid into Y first and added to.
#include "backends/cpu/gemm.h"

#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernel.h"

namespace eng::cpu {
namespace {

template <class T>
class GemmKernel : public Kernel {
 public:
  GemmKernel(const NodeView& n, int threads)
      : m_(n.out(0).dim(0)), n_(n.out(0).dim(1)), beta_(static_cast<float>(n.attr_float("beta", 1))), has_c_(n.in(2).present()) {
    const bool ta = n.attr_int("transA", 0), tb = n.attr_int("transB", 0);
    GemmSpec s;
    s.m = m_;
    s.n = n_;
    s.k = n.in(0).dim(ta ? 0 : 1);
    s.a = matrix(n.in(0).dim(1), ta);
    s.b = matrix(n.in(1).dim(1), tb);
    s.c = matrix(n_);
    s.alpha = static_cast<float>(n.attr_float("alpha", 1));
    if (has_c_) {
      const TensorView& c = n.in(2);
      const int64_t columns = c.rank() > 0 ? c.dim(-1) : 1, rows = c.rank() > 1 ? c.dim(-2) : 1;
      c_column_ = columns == 1 ? 0 : 1;
      c_row_ = rows == 1 ? 0 : columns;
      s.bias = rows == 1 && columns == n_ && s.alpha == 1 && beta_ == 1;
      s.accumulate = !s.bias && beta_ != 0;
    }
    bias_ = s.bias;
    accumulate_ = s.accumulate;
    product_ = Gemm<T>::create(s, threads);
  }
  size_t workspace() const override { return product_->workspace(); }
  void run(const RunContext& c) override {
    T* y = c.out<T>(0);
    if (accumulate_) lay_addend(c.in<T>(2), y);
    product_->run(c.in<T>(0), c.in<T>(1), bias_ ? c.in<T>(2) : nullptr, y, c.workspace);
  }

 private:
  void lay_addend(const T* from, T* y) const {
#pragma omp parallel for if (m_ * n_ > 65536)
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < n_; ++j) y[i * n_ + j] = static_cast<T>(from[i * c_row_ + j * c_column_] * static_cast<T>(beta_));
  }
  int64_t m_, n_, c_row_ = 0, c_column_ = 0;
  float beta_;
  bool has_c_, bias_ = false, accumulate_ = false;
  std::unique_ptr<Gemm<T>> product_;
};

std::unique_ptr<Kernel> create(const NodeView& n, int threads) {
  switch (n.in(0).dtype) {
    case EB_FLOAT32: return std::make_unique<GemmKernel<float>>(n, threads);
    case EB_FLOAT64: return std::make_unique<GemmKernel<double>>(n, threads);
    case EB_INT32: return std::make_unique<GemmKernel<int32_t>>(n, threads);
    case EB_INT64: return std::make_unique<GemmKernel<int64_t>>(n, threads);
    case EB_UINT32: return std::make_unique<GemmKernel<uint32_t>>(n, threads);
    case EB_UINT64: return std::make_unique<GemmKernel<uint64_t>>(n, threads);
    default: return has_half(n) ? create_widened(n, threads, create) : nullptr;
  }
}

}  // namespace

std::span<const KernelDef> gemm_kernels() {
  static const KernelDef defs[] = {
      {.op = "Gemm", .name = "onednn", .types = kFloats | kHalves | type_bit(EB_INT32) | type_bit(EB_INT64) | type_bit(EB_UINT32) | type_bit(EB_UINT64), .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
