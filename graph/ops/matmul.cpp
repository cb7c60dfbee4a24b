// MatMul (opset 13): NumPy's matmul, batched, broadcasting, with vector operands.
// ai.engine::BatchMatMul(A, B; trans_a, trans_b): the same for operands of rank >= 2, the last two axes transposed on request;
// gradients are written with it, so no Transpose node is needed:
//   Y = A B: dA = dY B^T, dB = A^T dY; a matrix B shared by a whole batch gets its gradient from one product over all rows.
// Sibling: gemm.cpp.
#include "graph/ops/op.h"

namespace eng {
namespace {

// Y of A [.., M, K] and B [.., K, N].
Result<Shape> product_shape(const Shape& a, const Shape& b, bool trans_a, bool trans_b) {
  const size_t ra = a.size(), rb = b.size();
  const int64_t m = a[ra - (trans_a ? 1 : 2)], k = a[ra - (trans_a ? 2 : 1)], kb = b[rb - (trans_b ? 1 : 2)], n = b[rb - (trans_b ? 2 : 1)];
  if (k != kb) return invalid("A ", a, " and B ", b, " do not fit: rows of ", k, " against columns of ", kb);
  ENG_ASSIGN(Shape y, broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  y.push_back(m);
  y.push_back(n);
  return y;
}

Status infer_batch(InferContext& c) {
  if (c.rank(0) < 2 || c.rank(1) < 2) return c.error(cat("both inputs need two axes, got ", c.shape(0), " and ", c.shape(1)));
  auto y = product_shape(c.shape(0), c.shape(1), c.attributes().get_int("trans_a", 0), c.attributes().get_int("trans_b", 0));
  return y.ok() ? c.set_output(0, c.dtype(0), *y) : c.error(y.status().message());
}

Status infer_matmul(InferContext& c) {
  Shape a = c.shape(0), b = c.shape(1);
  const bool row = a.size() == 1, column = b.size() == 1;
  if (a.empty() || b.empty()) return c.error(cat("scalars cannot be multiplied as matrices: ", a, " and ", b));
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  auto y = product_shape(a, b, false, false);
  if (!y.ok()) return c.error(y.status().message());
  if (row) y->erase(y->end() - 2);
  if (column) y->pop_back();
  return c.set_output(0, c.dtype(0), *y);
}

Attributes transposed(bool a, bool b) {
  Attributes out;
  if (a) out.set("trans_a", int64_t{1});
  if (b) out.set("trans_b", int64_t{1});
  return out;
}

ValueId reshape(Builder& b, ValueId v, const Shape& shape) { return b.shape(v) == shape ? v : b.op("Reshape", {v, b.ints(shape)}); }

// Y = op(A) op(B), all of rank >= 2. A gradient may have the broadcast batch axes: the walk sums them.
void product_gradient(GradContext& c, ValueId a, ValueId b, ValueId dy, bool ta, bool tb, ValueId* da, ValueId* db) {
  Builder& w = c.b;
  if (da)
    *da = ta ? w.engine_op("BatchMatMul", {b, dy}, transposed(tb, true)) : w.engine_op("BatchMatMul", {dy, b}, transposed(false, !tb));
  if (!db) return;
  const Shape sa = w.shape(a), sb = w.shape(b), sy = w.shape(dy);
  if (sb.size() == 2 && sa.size() > 2 && !ta) {  // one product over all rows of the batch
    a = reshape(w, a, {element_count(sa) / std::max<int64_t>(sa.back(), 1), sa.back()});
    dy = reshape(w, dy, {element_count(sy) / std::max<int64_t>(sy.back(), 1), sy.back()});
  }
  *db = tb ? w.engine_op("BatchMatMul", {dy, a}, transposed(true, ta)) : w.engine_op("BatchMatMul", {a, dy}, transposed(!ta, false));
}

Status batch_gradient(GradContext& c) {
  ValueId da = kNoValue, db = kNoValue;
  product_gradient(c, c.input(0), c.input(1), c.dy(), c.attributes().get_int("trans_a", 0), c.attributes().get_int("trans_b", 0),
                   c.needs(0) ? &da : nullptr, c.needs(1) ? &db : nullptr);
  c.set(0, da);
  c.set(1, db);
  return {};
}

Status matmul_gradient(GradContext& c) {
  const Shape sa = c.shape(0), sb = c.shape(1);
  Shape wide_a = sa, wide_b = sb, wide_y = c.b.shape(c.dy());
  if (sb.size() == 1) {
    wide_b = {sb[0], 1};
    wide_y.push_back(1);
  }
  if (sa.size() == 1) {
    wide_a = {1, sa[0]};
    wide_y.insert(wide_y.end() - 1, 1);
  }
  const ValueId a = reshape(c.b, c.input(0), wide_a), b = reshape(c.b, c.input(1), wide_b), dy = reshape(c.b, c.dy(), wide_y);
  ValueId da = kNoValue, db = kNoValue;
  product_gradient(c, a, b, dy, false, false, c.needs(0) ? &da : nullptr, c.needs(1) ? &db : nullptr);
  if (da != kNoValue) c.set(0, reshape(c.b, c.b.sum_to(da, wide_a), sa));
  if (db != kNoValue) c.set(1, reshape(c.b, c.b.sum_to(db, wide_b), sb));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape& a = g.value(n.inputs[0]).shape;
  const double k = a.empty() ? 1 : static_cast<double>(n.attributes.get_int("trans_a", 0) ? a[a.size() - 2] : a.back());
  return {.flops = 2 * k * static_cast<double>(element_count(g.value(n.outputs[0]).shape))};
}

}  // namespace

std::span<const OpDef> matmul_ops() {
  static const OpDef ops[] = {
      {.name = "MatMul", .since = 13, .inputs = {{"A", Slot::kWeight}, {"B", Slot::kWeight}}, .infer = infer_matmul, .gradient = matmul_gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "BatchMatMul", .inputs = {{"A"}, {"B"}}, .infer = infer_batch, .gradient = batch_gradient, .cost = cost},
  };
  return ops;
}

}  // namespace eng
