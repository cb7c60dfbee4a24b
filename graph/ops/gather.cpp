// Operators that pick elements by index, and their gradients, which add every picked element's dy up where it came from:
//   Gather (opset 13)          y[.., i.., ..] = x[.., indices[i..], ..] along one axis
//   GatherElements (13)        y[at] = x[at with at[axis] replaced by indices[at]]          dx: ScatterElements(add)
//   GatherND (13)              y[b, i..] = x[b, indices[b, i..]] with batch_dims leading axes in common
//   ai.engine::GatherGrad(dy, indices; axis, input_shape), ai.engine::GatherNDGrad(dy, indices; batch_dims, input_shape)
// Negative indices count from the end. Sibling: scatter.cpp.
#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_gather(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  const Shape &x = c.shape(0), &at = c.shape(1);
  Shape out(x.begin(), x.begin() + *axis);
  out.insert(out.end(), at.begin(), at.end());
  out.insert(out.end(), x.begin() + *axis + 1, x.end());
  return c.set_output(0, c.dtype(0), out);
}

Status infer_elements(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  bool fits = c.rank(0) == c.rank(1);
  for (int64_t d = 0; fits && d < c.rank(0); ++d) fits = d == *axis || c.shape(1)[static_cast<size_t>(d)] <= c.shape(0)[static_cast<size_t>(d)];
  if (!fits) return c.error(cat("indices of shape ", c.shape(1), " do not fit data of shape ", c.shape(0)));
  return c.set_output(0, c.dtype(0), c.shape(1));
}

Status infer_nd(InferContext& c) {
  const int64_t batch = c.attributes().get_int("batch_dims", 0);
  const Shape x = c.shape(0), at = c.shape(1);
  if (at.empty() || x.empty()) return c.error("data and indices need at least one axis");
  const int64_t depth = at.back();
  if (batch < 0 || batch >= c.rank(1) || batch + depth > c.rank(0) || depth < 1)
    return c.error(cat("indices of shape ", at, " with batch_dims ", batch, " do not fit data of shape ", x));
  for (int64_t d = 0; d < batch; ++d)
    if (x[static_cast<size_t>(d)] != at[static_cast<size_t>(d)]) return c.error(cat("the first ", batch, " axes of data ", x, " and indices ", at, " differ"));
  Shape out(at.begin(), at.end() - 1);
  out.insert(out.end(), x.begin() + batch + depth, x.end());
  return c.set_output(0, c.dtype(0), out);
}

Status infer_grad(InferContext& c) { return c.set_output(0, c.dtype(0), c.attributes().get_ints("input_shape")); }

Status gather_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("axis", *normalize_axis(c.attributes().get_int("axis", 0), static_cast<int64_t>(c.shape(0).size())));
  a.set("input_shape", c.shape(0));
  c.set(0, c.b.engine_op("GatherGrad", {c.dy(), c.input(1)}, a));
  return {};
}

Status elements_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("axis", c.attributes().get_int("axis", 0));
  a.set("reduction", std::string("add"));
  c.set(0, c.b.op("ScatterElements", {c.b.zeros_like(c.input(0)), c.input(1), c.dy()}, a));
  return {};
}

Status nd_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("batch_dims", c.attributes().get_int("batch_dims", 0));
  a.set("input_shape", c.shape(0));
  c.set(0, c.b.engine_op("GatherNDGrad", {c.dy(), c.input(1)}, a));
  return {};
}

Status gather_grad_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("axis", c.attributes().get_int("axis", 0));
  c.set(0, c.b.op("Gather", {c.dy(), c.input(1)}, a));
  return {};
}

Status nd_grad_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("batch_dims", c.attributes().get_int("batch_dims", 0));
  c.set(0, c.b.op("GatherND", {c.dy(), c.input(1)}, a));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  return {.flops = 0, .bytes = 2.0 * static_cast<double>(element_count(g.value(n.outputs[0]).shape)) * static_cast<double>(size_of(g.value(n.outputs[0]).dtype))};
}

}  // namespace

std::span<const OpDef> gather_ops() {
  static const OpDef ops[] = {
      {.name = "Gather", .since = 13, .inputs = {{"data"}, {"indices", Slot::kIndex}}, .infer = infer_gather, .gradient = gather_gradient, .cost = cost},
      {.name = "GatherElements", .since = 13, .inputs = {{"data"}, {"indices", Slot::kIndex}}, .infer = infer_elements, .gradient = elements_gradient, .cost = cost},
      {.name = "GatherND", .since = 13, .inputs = {{"data"}, {"indices", Slot::kIndex}}, .infer = infer_nd, .gradient = nd_gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "GatherGrad", .inputs = {{"dy"}, {"indices", Slot::kIndex}}, .infer = infer_grad, .gradient = gather_grad_gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "GatherNDGrad", .inputs = {{"dy"}, {"indices", Slot::kIndex}}, .infer = infer_grad, .gradient = nd_grad_gradient, .cost = cost},
  };
  return ops;
}

}  // namespace eng
