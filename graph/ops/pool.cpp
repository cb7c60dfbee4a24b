// Pooling over 1, 2 or 3 spatial axes. Windows: window.h; padding never wins a maximum and adds nothing to a sum.
//   MaxPool (12)                Y = max of the window; Indices (optional): flat index in X of the first maximum
//   AveragePool (19)            Y = sum / count; count: taps inside the input, with count_include_pad inside input and pads
//   LpPool (18)                 Y = (sum |x|^p)^(1/p)
//   GlobalAveragePool (1), GlobalMaxPool (1), GlobalLpPool (2): the window is the whole input
// Gradients (always with explicit kernel_shape):
//   ai.engine::MaxPoolGrad(dY, X)                    dY goes to the first maximum, found again in X, so nothing is kept
//   ai.engine::AveragePoolGrad(dY; input_shape)      dY / count to every tap
//   ai.engine::LpPoolGrad(dY, X, Y)                  dY * sign(x) |x|^(p-1) Y^(1-p)
#include <algorithm>

#include "graph/ops/window.h"
#include "graph/ops/op.h"

namespace eng {
namespace {

bool is_global(const Node& n) { return n.op_type.rfind("Global", 0) == 0; }

// The window of the node over an input of this shape.
Result<Window> pool_window(const InferContext& c, const Shape& x) {
  if (x.size() < 3 || x.size() > 5) return c.error(cat("the input has shape ", x, "; 1 to 3 spatial axes after batch and channels are handled"));
  const Shape spatial = spatial_of(x);
  if (is_global(c.node())) {
    if (element_count(spatial) == 0) return c.error(cat("the input ", x, " is empty: there is nothing to pool over"));
    return read_window({}, spatial, spatial);
  }
  if (!c.attributes().has("kernel_shape")) return c.error("the attribute kernel_shape is missing");
  auto w = read_window(c.attributes(), spatial, c.attributes().get_ints("kernel_shape"));
  if (!w.ok()) return c.error(w.status().message());
  for (size_t i = 0; i < w->kernel.size(); ++i)
    if (w->begin[i] >= w->reach(i) || w->end[i] >= w->reach(i))
      return c.error(cat("pads ", w->begin, " and ", w->end, " must be smaller than the window ", w->kernel, ", or a window lies in the padding alone"));
  return w;
}

Status infer_pool(InferContext& c) {
  ENG_ASSIGN(Window w, pool_window(c, c.shape(0)));
  if (c.node().op_type == "LpPool" || c.node().op_type == "GlobalLpPool")
    if (c.attributes().get_int("p", 2) < 1) return c.error(cat("p is ", c.attributes().get_int("p", 2), ", wanted at least 1"));
  const Shape y = with_spatial(c.shape(0)[0], c.shape(0)[1], w.out);
  ENG_TRY(c.set_output(1, DType::kInt64, y));
  return c.set_output(0, c.dtype(0), y);
}

Status check_dy(InferContext& c, const Shape& x) {
  ENG_ASSIGN(Window w, pool_window(c, x));
  const Shape y = with_spatial(x[0], x[1], w.out);
  if (c.shape(0) != y) return c.error(cat("dY has shape ", c.shape(0), ", wanted ", y));
  return c.set_output(0, c.dtype(0), x);
}
Status infer_grad_of_x(InferContext& c) { return check_dy(c, c.shape(1)); }
Status infer_grad_of_shape(InferContext& c) {
  const Shape x = c.attributes().get_ints("input_shape");
  return check_dy(c, x);
}

Attributes explicit_window(const GradContext& c) {
  Attributes a = c.attributes();
  a.erase("storage_order");
  if (is_global(c.node())) a.set("kernel_shape", spatial_of(c.shape(0)));
  return a;
}
Status gradient_max(GradContext& c) {
  if (c.needs(0) && c.dy() != kNoValue) c.set(0, c.b.engine_op("MaxPoolGrad", {c.dy(), c.input(0)}, explicit_window(c)));
  return {};
}
Status gradient_average(GradContext& c) {
  Attributes a = explicit_window(c);
  a.set("input_shape", c.shape(0));
  if (c.needs(0)) c.set(0, c.b.engine_op("AveragePoolGrad", {c.dy()}, a));
  return {};
}
Status gradient_lp(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.engine_op("LpPoolGrad", {c.dy(), c.input(0), c.output(0)}, explicit_window(c)));
  return {};
}

// One operation a tap: of the output forwards, of dY backwards.
Cost cost_pool(const Graph& g, const Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &y = g.value(n.outputs[0]).shape;
  Cost cost;
  cost.flops = static_cast<double>(std::max(element_count(x), element_count(y)));
  if (n.domain.empty() && is_global(n)) return cost;
  cost.flops = static_cast<double>(element_count(n.domain.empty() ? y : x)) * static_cast<double>(element_count(n.attributes.get_ints("kernel_shape")));
  return cost;
}

constexpr const char* kSecond = "second derivatives of a pooling are not there";

}  // namespace

std::span<const OpDef> pool_ops() {
  constexpr LayoutRule kLast = LayoutRule::kChannelsLast;
  static const OpDef ops[] = {
      {.name = "MaxPool", .since = 12, .inputs = {{"X"}}, .max_outputs = 2, .infer = infer_pool, .gradient = gradient_max, .cost = cost_pool, .layout = kLast},
      {.name = "AveragePool", .since = 19, .inputs = {{"X"}}, .infer = infer_pool, .gradient = gradient_average, .cost = cost_pool, .layout = kLast},
      {.name = "LpPool", .since = 18, .inputs = {{"X"}}, .infer = infer_pool, .gradient = gradient_lp, .cost = cost_pool, .layout = kLast},
      {.name = "GlobalMaxPool", .since = 1, .inputs = {{"X"}}, .infer = infer_pool, .gradient = gradient_max, .cost = cost_pool, .layout = kLast},
      {.name = "GlobalAveragePool", .since = 1, .inputs = {{"X"}}, .infer = infer_pool, .gradient = gradient_average, .cost = cost_pool, .layout = kLast},
      {.name = "GlobalLpPool", .since = 2, .inputs = {{"X"}}, .infer = infer_pool, .gradient = gradient_lp, .cost = cost_pool, .layout = kLast},
      {.domain = kEngineDomain, .name = "MaxPoolGrad", .inputs = {{"dY"}, {"X"}}, .infer = infer_grad_of_x, .no_gradient = kSecond, .cost = cost_pool, .layout = kLast},
      {.domain = kEngineDomain, .name = "AveragePoolGrad", .inputs = {{"dY"}}, .infer = infer_grad_of_shape, .no_gradient = kSecond, .cost = cost_pool, .layout = kLast},
      {.domain = kEngineDomain, .name = "LpPoolGrad", .inputs = {{"dY"}, {"X"}, {"Y"}}, .infer = infer_grad_of_x, .no_gradient = kSecond, .cost = cost_pool, .layout = kLast},
  };
  return ops;
}

}  // namespace eng
