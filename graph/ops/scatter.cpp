// ScatterElements (opset 18) and ScatterND (18): a copy of data in which the indexed elements are replaced by, or reduced with
// (add, mul, max, min), the updates, in the order of the indices. Gradients:
//   none: d data = dy with zeros at the indices, d updates = dy there (an index given twice has no defined result in ONNX)
//   add:  d data = dy, d updates = dy there
//   max, min: dy goes to whichever of data and updates equals the result (to each of several equal ones)
//   mul: through the result divided by the factor, so factors of 0 are refused by their NaN; exact elsewhere
// Sibling: gather.cpp.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status check_reduction(InferContext& c) {
  const std::string r = c.attributes().get_string("reduction", "none");
  if (r != "none" && r != "add" && r != "mul" && r != "max" && r != "min") return c.error("reduction '" + r + "' is none of none, add, mul, max, min");
  return {};
}

Status infer_elements(InferContext& c) {
  ENG_TRY(check_reduction(c));
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  if (c.shape(1) != c.shape(2)) return c.error(cat("indices ", c.shape(1), " and updates ", c.shape(2), " differ in shape"));
  bool fits = c.rank(0) == c.rank(1);
  for (int64_t d = 0; fits && d < c.rank(0); ++d) fits = d == *axis || c.shape(1)[static_cast<size_t>(d)] <= c.shape(0)[static_cast<size_t>(d)];
  if (!fits) return c.error(cat("indices of shape ", c.shape(1), " do not fit data of shape ", c.shape(0)));
  return c.set_output(0, c.dtype(0), c.shape(0));
}

Status infer_nd(InferContext& c) {
  ENG_TRY(check_reduction(c));
  const Shape x = c.shape(0), at = c.shape(1);
  if (at.empty() || at.back() > c.rank(0) || at.back() < 1) return c.error(cat("indices of shape ", at, " do not fit data of shape ", x));
  Shape updates(at.begin(), at.end() - 1);
  updates.insert(updates.end(), x.begin() + at.back(), x.end());
  if (updates != c.shape(2)) return c.error(cat("updates have shape ", c.shape(2), ", wanted ", updates));
  return c.set_output(0, c.dtype(0), x);
}

// Elements of `v` at the node's indices.
ValueId pick(GradContext& c, ValueId v, bool nd) {
  Attributes a;
  if (!nd) a.set("axis", c.attributes().get_int("axis", 0));
  return c.b.op(nd ? "GatherND" : "GatherElements", {v, c.input(1)}, a);
}

// d * (a == b)
ValueId where_equal(GradContext& c, ValueId d, ValueId a, ValueId b) {
  Attributes to;
  to.set("to", static_cast<int64_t>(c.b.dtype(d)));
  return c.b.op("Mul", {d, c.b.op("Cast", {c.b.op("Equal", {a, b})}, to)});
}

Status gradient(GradContext& c, bool nd) {
  const std::string reduction = c.attributes().get_string("reduction", "none"), op = nd ? "ScatterND" : "ScatterElements";
  const ValueId dy = c.dy(), y = c.output(0);
  Attributes same = c.attributes();
  if (reduction == "none") {
    if (c.needs(0)) c.set(0, c.b.op(op, {dy, c.input(1), c.b.zeros_like(c.input(2))}, same));
    if (c.needs(2)) c.set(2, pick(c, dy, nd));
  } else if (reduction == "add") {
    if (c.needs(0)) c.set(0, dy);
    if (c.needs(2)) c.set(2, pick(c, dy, nd));
  } else if (reduction == "mul") {
    const ValueId weighted = c.b.op("Mul", {dy, y});
    if (c.needs(0)) c.set(0, c.b.op("Div", {weighted, c.input(0)}));
    if (c.needs(2)) c.set(2, c.b.op("Div", {pick(c, weighted, nd), c.input(2)}));
  } else {
    if (c.needs(0)) c.set(0, where_equal(c, dy, c.input(0), y));
    if (c.needs(2)) c.set(2, where_equal(c, pick(c, dy, nd), c.input(2), pick(c, y, nd)));
  }
  return {};
}
Status elements_gradient(GradContext& c) { return gradient(c, false); }
Status nd_gradient(GradContext& c) { return gradient(c, true); }

}  // namespace

std::span<const OpDef> scatter_ops() {
  static const OpDef ops[] = {
      {.name = "ScatterElements", .since = 18, .inputs = {{"data"}, {"indices", Slot::kIndex}, {"updates"}}, .infer = infer_elements, .gradient = elements_gradient},
      {.name = "ScatterND", .since = 18, .inputs = {{"data"}, {"indices", Slot::kIndex}, {"updates"}}, .infer = infer_nd, .gradient = nd_gradient},
  };
  return ops;
}

}  // namespace eng
