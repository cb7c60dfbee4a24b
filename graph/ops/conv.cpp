// Conv (opset 11) over 1, 2 or 3 spatial axes, and its two gradients:
//   Y[n,o,p]   = B[o] + sum_{c,k} X[n, g(o)C/G + c, p*stride + k*dilation - begin] W[o,c,k]
//   dX         = ConvGradInput(dY, W; "input_shape")            the transposed sum
//   dW, dB     = ConvGradWeight(X, dY; "weight_shape")          dB (optional) = sum of dY over all but the channel axis
// X (N, C, spatial...), W (O, C/G, kernel...), B (O). The gradients carry Conv's attributes. Windows: window.h.
// ConvTranspose (conv_transpose.cpp) is ConvGradInput read forwards.
#include "graph/ops/window.h"
#include "graph/ops/op.h"

namespace eng {
namespace {

// What Conv and its gradients must agree about.
struct Geometry {
  Window window;
  int64_t group = 1;
};

Result<Geometry> geometry(const InferContext& c, const Shape& x, const Shape& w) {
  if (x.size() < 3 || x.size() > 5) return c.error(cat("the input has shape ", x, "; 1 to 3 spatial axes after batch and channels are handled"));
  if (w.size() != x.size()) return c.error(cat("the weight ", w, " has not the rank of the input ", x));
  Geometry g;
  g.group = c.attributes().get_int("group", 1);
  if (g.group < 1 || g.group > w[0] || w[0] % g.group != 0)
    return c.error(cat("group is ", g.group, ", which does not divide the ", w[0], " output channels of the weight ", w));
  if (x[1] % g.group != 0 || x[1] / g.group != w[1])
    return c.error(cat("the input ", x, " has ", x[1], " channels; the weight ", w, " with group ", g.group, " wants ", w[1], " * ", g.group));
  const Shape kernel = spatial_of(w);
  const std::vector<int64_t> told = c.attributes().get_ints("kernel_shape", kernel);
  if (told != kernel) return c.error(cat("attribute kernel_shape ", told, " is not the weight's kernel ", kernel));
  auto window = read_window(c.attributes(), spatial_of(x), kernel);
  if (!window.ok()) return c.error(window.status().message());
  g.window = std::move(*window);
  return g;
}

Status infer_conv(InferContext& c) {
  ENG_ASSIGN(Geometry g, geometry(c, c.shape(0), c.shape(1)));
  if (c.has_input(2) && c.shape(2) != Shape{c.shape(1)[0]})
    return c.error(cat("the bias has shape ", c.shape(2), ", wanted [", c.shape(1)[0], "]"));
  return c.set_output(0, c.dtype(0), with_spatial(c.shape(0)[0], c.shape(1)[0], g.window.out));
}

Status infer_grad_input(InferContext& c) {
  const Shape x = c.attributes().get_ints("input_shape");
  ENG_ASSIGN(Geometry g, geometry(c, x, c.shape(1)));
  const Shape y = with_spatial(x[0], c.shape(1)[0], g.window.out);
  if (c.shape(0) != y) return c.error(cat("dY has shape ", c.shape(0), ", wanted ", y));
  return c.set_output(0, c.dtype(0), x);
}

Status infer_grad_weight(InferContext& c) {
  const Shape w = c.attributes().get_ints("weight_shape");
  ENG_ASSIGN(Geometry g, geometry(c, c.shape(0), w));
  const Shape y = with_spatial(c.shape(0)[0], w[0], g.window.out);
  if (c.shape(1) != y) return c.error(cat("dY has shape ", c.shape(1), ", wanted ", y));
  ENG_TRY(c.set_output(0, c.dtype(0), w));
  return c.set_output(1, c.dtype(0), {w[0]});
}

Status gradient(GradContext& c) {
  Attributes attributes = c.attributes();
  if (c.needs(0)) {
    Attributes a = attributes;
    a.set("input_shape", c.shape(0));
    c.set(0, c.b.engine_op("ConvGradInput", {c.dy(), c.input(1)}, a));
  }
  if (c.needs(1)) {
    attributes.set("weight_shape", c.shape(1));
    auto d = c.b.ops(kEngineDomain, "ConvGradWeight", {c.input(0), c.dy()}, c.needs(2) ? std::vector<bool>{true, true} : std::vector<bool>{true}, attributes);
    c.set(1, d[0]);
    if (c.needs(2)) c.set(2, d[1]);
  } else if (c.needs(2)) {
    std::vector<int64_t> axes{0};
    for (int64_t i = 2; i < static_cast<int64_t>(c.shape(0).size()); ++i) axes.push_back(i);
    Attributes drop;
    drop.set("keepdims", int64_t{0});
    c.set(2, c.b.op("ReduceSum", {c.dy(), c.b.ints(axes)}, drop));
  }
  return {};
}

// Multiply-adds: every output element takes C/G * kernel of them, in all three passes.
Cost count(const Shape& y, const Shape& w) {
  Cost cost;
  cost.flops = 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(element_count(w)) / static_cast<double>(w.empty() || w[0] < 1 ? 1 : w[0]);
  return cost;
}
Cost cost_conv(const Graph& g, const Node& n) { return count(g.value(n.outputs[0]).shape, g.value(n.inputs[1]).shape); }
Cost cost_grad_input(const Graph& g, const Node& n) { return count(g.value(n.inputs[0]).shape, g.value(n.inputs[1]).shape); }
Cost cost_grad_weight(const Graph& g, const Node& n) { return count(g.value(n.inputs[1]).shape, n.attributes.get_ints("weight_shape")); }

constexpr const char* kSecond = "second derivatives of a convolution are not there";

}  // namespace

std::span<const OpDef> conv_ops() {
  static const OpDef ops[] = {
      {.name = "Conv", .since = 11, .inputs = {{"X"}, {"W", Slot::kWeight}, {"B", Slot::kWeight, true}}, .infer = infer_conv,
       .gradient = gradient, .cost = cost_conv, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "ConvGradInput", .inputs = {{"dY"}, {"W", Slot::kWeight}}, .infer = infer_grad_input,
       .no_gradient = kSecond, .cost = cost_grad_input, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "ConvGradWeight", .inputs = {{"X"}, {"dY"}}, .min_outputs = 1, .max_outputs = 2,
       .infer = infer_grad_weight, .no_gradient = kSecond, .cost = cost_grad_weight, .layout = LayoutRule::kChannelsLast, .row_major_outputs = 1},
  };
  return ops;
}

}  // namespace eng
