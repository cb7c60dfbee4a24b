// MatMul and ai.engine::BatchMatMul: y[.., i, j] = sum_k a[.., i, k] b[.., k, j] with broadcast batch axes.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void run(RefCall& c) {
  const bool ta = c.attr().get_int("trans_a", 0), tb = c.attr().get_int("trans_b", 0);
  Shape a = c.in(0).shape, b = c.in(1).shape, y = c.out().shape;
  if (b.size() == 1) {
    b.push_back(1);
    y.push_back(1);
  }
  if (a.size() == 1) {
    a.insert(a.begin(), 1);
    y.insert(y.end() - 1, 1);
  }
  const int64_t inner = a[a.size() - (ta ? 2 : 1)];
  const Shape batch(y.begin(), y.end() - 2), batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
  const int64_t rows_a = a[a.size() - 2], columns_a = a.back(), rows_b = b[b.size() - 2], columns_b = b.back();
  for (int64_t t = 0; t < c.out().count(); ++t) {
    const int64_t j = t % y.back(), i = t / y.back() % y[y.size() - 2], group = t / y.back() / y[y.size() - 2];
    const int64_t oa = broadcast_index(group, batch, batch_a) * rows_a * columns_a, ob = broadcast_index(group, batch, batch_b) * rows_b * columns_b;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += c.in(0)[oa + (ta ? k * columns_a + i : i * columns_a + k)] * c.in(1)[ob + (tb ? j * columns_b + k : k * columns_b + j)];
    c.out()[t] = sum;
  }
}

}  // namespace

std::span<const RefDef> matmul_reference() {
  static const RefDef defs[] = {{"", "MatMul", run}, {kEngineDomain, "BatchMatMul", run}};
  return defs;
}

}  // namespace eng::test
