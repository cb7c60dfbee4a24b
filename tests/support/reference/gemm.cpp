// Gemm: y[i][j] = alpha * sum_k A'[i][k] B'[k][j] + beta * C[i][j].
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void run(RefCall& c) {
  const bool ta = c.attr().get_int("transA", 0), tb = c.attr().get_int("transB", 0);
  const double alpha = c.attr().get_float("alpha", 1), beta = c.attr().get_float("beta", 1);
  const RefTensor &a = c.in(0), &b = c.in(1);
  RefTensor& y = c.out();
  const int64_t inner = a.dim(ta ? 0 : 1);
  for (int64_t i = 0; i < y.dim(0); ++i)
    for (int64_t j = 0; j < y.dim(1); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += (ta ? a[k * a.dim(1) + i] : a[i * a.dim(1) + k]) * (tb ? b[j * b.dim(1) + k] : b[k * b.dim(1) + j]);
      const int64_t at = i * y.dim(1) + j;
      y[at] = alpha * sum + (c.has(2) ? beta * c.in(2)[broadcast_index(at, y.shape, c.in(2).shape)] : 0);
    }
}

}  // namespace

std::span<const RefDef> gemm_reference() {
  static const RefDef defs[] = {{"", "Gemm", run}};
  return defs;
}

}  // namespace eng::test
