// LRN (opset 13), local response normalisation over the channel axis:
//   s[c] = bias + alpha / size * sum of x^2 over channels c - floor((size-1)/2) .. c + ceil((size-1)/2),  y = x * s^-beta
// ai.engine::LRNGrad(dY, X):  dx[c] = dy[c] s[c]^-beta - 2 alpha beta / size * x[c] * sum over windows k that hold c of dy[k] x[k] s[k]^(-beta-1)
#include "graph/ops/op.h"

namespace eng {
namespace {

Status check(InferContext& c, int x) {
  if (c.rank(x) < 2) return c.error(cat("X has shape ", c.shape(x), "; batch and channels are needed"));
  const int64_t size = c.attributes().get_int("size", 0);
  if (size < 1) return c.error(cat("attribute size is ", size, ", wanted at least 1"));
  return c.set_output(0, c.dtype(x), c.shape(x));
}
Status infer(InferContext& c) { return check(c, 0); }
Status infer_gradient(InferContext& c) {
  if (c.shape(0) != c.shape(1)) return c.error(cat("dY has shape ", c.shape(0), ", X has ", c.shape(1)));
  return check(c, 1);
}

Status gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.engine_op("LRNGrad", {c.dy(), c.input(0)}, c.attributes()));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  Cost cost;
  const double windows = n.domain.empty() ? 1 : 2;
  cost.flops = static_cast<double>(element_count(g.value(n.inputs[0]).shape)) * windows * (2.0 * static_cast<double>(n.attributes.get_int("size", 1)) + 4);
  return cost;
}

}  // namespace

std::span<const OpDef> lrn_ops() {
  static const OpDef ops[] = {
      {.name = "LRN", .since = 13, .inputs = {{"X"}}, .infer = infer, .gradient = gradient, .cost = cost, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "LRNGrad", .inputs = {{"dY"}, {"X"}}, .infer = infer_gradient,
       .no_gradient = "second derivatives of LRN are not there", .cost = cost, .layout = LayoutRule::kChannelsLast},
  };
  return ops;
}

}  // namespace eng
