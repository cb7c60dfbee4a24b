// MatMul (NumPy's, with vectors and broadcast batches) and ai.engine::BatchMatMul. Batch axes that lie evenly are one batched product; what is
// left of them is walked on the host, a product each.
#include <array>

#include "backends/cuda/loop.h"
#include "backends/cuda/product.h"

namespace eng::cuda {
namespace {

struct Matrices {
  ProductShape one;
  std::vector<std::array<int64_t, 3>> starts;  // of A, B, Y, in elements
};

// `t` without its last two axes, with their strides.
TensorView batch_of(const TensorView& t) {
  TensorView b = t;
  b.dims.resize(t.dims.size() - 2);
  b.strides.resize(t.dims.size() - 2);
  return b;
}

Matrices matrices_of(const NodeView& n) {
  TensorView a = n.in(0), b = n.in(1), y = n.out(0);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  auto insert = [](TensorView& t, int64_t at) {
    t.dims.insert(t.dims.begin() + at, 1);
    t.strides.insert(t.strides.begin() + at, 1);
  };
  if (row) insert(a, 0);
  if (column) insert(b, 1);
  if (column) insert(y, y.rank());
  if (row) insert(y, y.rank() - 1);
  Matrices m;
  m.one.dtype = a.dtype;
  m.one.trans_a = n.attr_int("trans_a", 0) != 0;
  m.one.trans_b = n.attr_int("trans_b", 0) != 0;
  m.one.m = y.dim(-2);
  m.one.n = y.dim(-1);
  m.one.k = m.one.trans_a ? a.dim(-2) : a.dim(-1);
  const TensorView by = batch_of(y), ba = batch_of(a), bb = batch_of(b);
  const Loop<3> l = pack<3>(box_of({&by, &ba, &bb}));
  const int last = l.rank - 1;
  if (l.count == 0) return m;
  m.one.batch = l.extent[last];
  m.one.step_y = l.stride[0][last];
  m.one.step_a = l.stride[1][last];
  m.one.step_b = l.stride[2][last];
  for (int64_t i = 0; i < l.count; i += l.extent[last]) {
    int64_t at[3];
    l.at(i, at);
    m.starts.push_back({at[1], at[2], at[0]});
  }
  return m;
}

class MatMul : public Kernel {
 public:
  MatMul(const NodeView& n, eb_device* device, bool use_blas)
      : matrices_(matrices_of(n)), product_(matrices_.one, device, use_blas), size_(static_cast<int64_t>(eb::size_of(n.in(0).dtype))) {}
  size_t workspace() const override { return product_.workspace(); }
  void run(const RunContext& c) override {
    for (const auto& at : matrices_.starts) product_.run(c, c.in<char>(0) + at[0] * size_, c.in<char>(1) + at[1] * size_, c.out<char>(0) + at[2] * size_);
  }

 private:
  Matrices matrices_;
  Product product_;
  int64_t size_;
};

std::string with_cublas(const NodeView& n) {
  const std::string missing = missing_cublas();
  return missing.empty() ? require_row_major(n) : missing;
}

}  // namespace

std::span<const KernelDef> matmul_kernels() {
  static const std::vector<KernelDef> defs = [] {
    std::vector<KernelDef> all;
    for (const auto& [domain, op] : {std::pair("", "MatMul"), std::pair("ai.engine", "BatchMatMul")}) {
      all.push_back({.domain = domain, .op = op, .name = "cublas", .can_run = with_cublas,
                     .create = [](const NodeView& n, eb_device* device) -> std::unique_ptr<Kernel> { return std::make_unique<MatMul>(n, device, true); }});
      all.push_back({.domain = domain, .op = op, .name = "plain",
                     .create = [](const NodeView& n, eb_device* device) -> std::unique_ptr<Kernel> { return std::make_unique<MatMul>(n, device, false); }});
    }
    return all;
  }();
  return defs;
}

}  // namespace eng::cuda
