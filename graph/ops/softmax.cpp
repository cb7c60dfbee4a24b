// Softmax, LogSoftmax, Hardmax over one axis (opset 13; the importer flattens older forms), in any layout.
//   Softmax     y = exp(x - max) / sum        dx = y (dy - sum(dy y))          SoftmaxGrad(dy, y)
//   LogSoftmax  y = x - max - log sum         dx = dy - exp(y) sum(dy)         LogSoftmaxGrad(dy, y)
//   Hardmax     1 at the first highest        dx = 0 almost everywhere
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", -1), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  return infer_same_as_input(c);
}

Status gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.engine_op(c.node().op_type + "Grad", {c.dy(), c.output()}, c.attributes()));
  return {};
}

Status no_slope(GradContext&) { return {}; }

Cost cost(const Graph& g, const Node& n) { return {20 * static_cast<double>(element_count(g.value(n.outputs[0]).shape)), 0}; }

}  // namespace

std::span<const OpDef> softmax_ops() {
  constexpr LayoutRule any = LayoutRule::kAny;
  static const OpDef ops[] = {
      {.name = "Softmax", .since = 13, .inputs = {{"input"}}, .infer = infer, .gradient = gradient, .cost = cost, .layout = any},
      {.name = "LogSoftmax", .since = 13, .inputs = {{"input"}}, .infer = infer, .gradient = gradient, .cost = cost, .layout = any},
      {.name = "Hardmax", .since = 13, .inputs = {{"input"}}, .infer = infer, .gradient = no_slope, .layout = any},
      {.domain = kEngineDomain, .name = "SoftmaxGrad", .inputs = {{"dy"}, {"y"}}, .infer = infer,
       .no_gradient = "it is itself part of a gradient", .layout = any},
      {.domain = kEngineDomain, .name = "LogSoftmaxGrad", .inputs = {{"dy"}, {"y"}}, .infer = infer,
       .no_gradient = "it is itself part of a gradient", .cost = cost, .layout = any},
  };
  return ops;
}

}  // namespace eng
