// Gemm (opset 13): Y = alpha * A' * B' + beta * C with A' = A or its transpose (transA), B' likewise, C broadcast to Y.
// Gradients are Gemm nodes again, the transposes being attributes, so nothing is copied:
//   dA' = alpha dY B'^T, dB' = alpha A'^T dY, dC = beta dY (the walk sums the broadcast axes away).
// Sibling: matmul.cpp.
#include "graph/ops/op.h"

namespace eng {
namespace {

struct GemmAttributes {
  bool trans_a, trans_b;
  float alpha, beta;
  explicit GemmAttributes(const Attributes& a)
      : trans_a(a.get_int("transA", 0) != 0), trans_b(a.get_int("transB", 0) != 0), alpha(a.get_float("alpha", 1)), beta(a.get_float("beta", 1)) {}
};

Status infer(InferContext& c) {
  const GemmAttributes a(c.attributes());
  for (int i = 0; i < 2; ++i)
    if (c.rank(i) != 2) return c.error(cat("input ", i ? "B" : "A", " must be a matrix, got shape ", c.shape(i)));
  const int64_t m = c.shape(0)[a.trans_a ? 1 : 0], k = c.shape(0)[a.trans_a ? 0 : 1];
  const int64_t k_b = c.shape(1)[a.trans_b ? 1 : 0], n = c.shape(1)[a.trans_b ? 0 : 1];
  if (k != k_b) return c.error(cat("A ", c.shape(0), (a.trans_a ? " transposed" : ""), " and B ", c.shape(1), (a.trans_b ? " transposed" : ""), " do not fit: ", k, " columns against ", k_b, " rows"));
  if (c.has_input(2)) {
    auto wide = broadcast(c.shape(2), {m, n});
    if (!wide.ok() || *wide != Shape{m, n}) return c.error(cat("C of shape ", c.shape(2), " cannot be broadcast to ", Shape{m, n}));
  }
  return c.set_output(0, c.dtype(0), {m, n});
}

Attributes product(bool trans_a, bool trans_b, float alpha) {
  Attributes a;
  if (trans_a) a.set("transA", int64_t{1});
  if (trans_b) a.set("transB", int64_t{1});
  if (alpha != 1) a.set("alpha", alpha);
  return a;
}

Status gradient(GradContext& c) {
  const GemmAttributes a(c.attributes());
  const ValueId dy = c.dy();
  if (c.needs(0)) {
    c.set(0, a.trans_a ? c.b.op("Gemm", {c.input(1), dy}, product(a.trans_b, true, a.alpha))
                       : c.b.op("Gemm", {dy, c.input(1)}, product(false, !a.trans_b, a.alpha)));
  }
  if (c.needs(1)) {
    c.set(1, a.trans_b ? c.b.op("Gemm", {dy, c.input(0)}, product(true, a.trans_a, a.alpha))
                       : c.b.op("Gemm", {c.input(0), dy}, product(!a.trans_a, false, a.alpha)));
  }
  if (c.needs(2)) c.set(2, a.beta == 1 ? dy : c.b.op("Mul", {dy, c.b.scalar(c.b.dtype(dy), a.beta)}));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape& a = g.value(n.inputs[0]).shape;
  const double k = static_cast<double>(a[n.attributes.get_int("transA", 0) ? 0 : 1]);
  return {.flops = 2 * k * static_cast<double>(element_count(g.value(n.outputs[0]).shape))};
}

}  // namespace

std::span<const OpDef> gemm_ops() {
  static const OpDef ops[] = {
      {.name = "Gemm", .since = 13, .inputs = {{"A"}, {"B", Slot::kWeight}, {"C", Slot::kWeight, true}}, .infer = infer, .gradient = gradient, .cost = cost},
  };
  return ops;
}

}  // namespace eng
