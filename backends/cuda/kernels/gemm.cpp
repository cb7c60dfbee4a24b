// Gemm: Y = alpha A' B' + beta C. C is laid into Y first, broadcast, and scaled by the product's beta.
#include "backends/cuda/product.h"
#include "backends/cuda/strided_copy.h"

namespace eng::cuda {
namespace {

ProductShape shape_of(const NodeView& n) {
  ProductShape s;
  s.dtype = n.in(0).dtype;
  s.trans_a = n.attr_int("transA", 0) != 0;
  s.trans_b = n.attr_int("transB", 0) != 0;
  s.m = n.out(0).dim(0);
  s.n = n.out(0).dim(1);
  s.k = n.in(0).dim(s.trans_a ? 0 : 1);
  s.alpha = n.attr_float("alpha", 1);
  s.beta = n.in(2).present() ? n.attr_float("beta", 1) : 0;
  return s;
}

class Gemm : public Kernel {
 public:
  Gemm(const NodeView& n, eb_device* device, bool use_blas) : product_(shape_of(n), device, use_blas), has_c_(shape_of(n).beta != 0) {
    if (!has_c_) return;
    const Box box = box_of({&n.out(0), &n.in(2)});
    c_ = StridedCopy(eb::size_of(n.out(0).dtype), box.dims, box.strides[1], n.out(0).strides);
  }
  size_t workspace() const override { return product_.workspace(); }
  void run(const RunContext& c) override {
    if (has_c_) c_.run(c.stream, c.in(2), c.out(0));
    product_.run(c, c.in(0), c.in(1), c.out(0));
  }

 private:
  Product product_;
  bool has_c_;
  StridedCopy c_;
};

std::string with_cublas(const NodeView& n) {
  const std::string missing = missing_cublas();
  return missing.empty() ? require_row_major(n) : missing;
}

}  // namespace

std::span<const KernelDef> gemm_kernels() {
  static const KernelDef defs[] = {
      {.op = "Gemm", .name = "cublas", .can_run = with_cublas,
       .create = [](const NodeView& n, eb_device* device) -> std::unique_ptr<Kernel> { return std::make_unique<Gemm>(n, device, true); }},
      {.op = "Gemm", .name = "plain", .create = [](const NodeView& n, eb_device* device) -> std::unique_ptr<Kernel> { return std::make_unique<Gemm>(n, device, false); }},
  };
  return defs;
}

}  // namespace eng::cuda
