// DepthToSpace (opset 13) and SpaceToDepth (opset 13): blocks of b x b pixels to and from channels; each is the other's gradient.
//   DepthToSpace DCR: X (N, b*b*C, H, W) seen as (N, b, b, C, H, W) -> (N, C, H, b, W, b); CRD: seen as (N, C, b, b, H, W)
//   SpaceToDepth: the way back; in ONNX its channels are ordered as DCR, attribute mode="CRD" gives the other order
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer(InferContext& c) {
  const Shape& x = c.shape(0);
  const int64_t b = c.attributes().get_int("blocksize", 0);
  if (x.size() != 4) return c.error(cat("the input has shape ", x, "; (batch, channels, height, width) is wanted"));
  if (b < 1 || b > (int64_t{1} << 20)) return c.error(cat("attribute blocksize is ", b, ", wanted at least 1"));
  const std::string mode = c.attributes().get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return c.error(cat("attribute mode is '", mode, "'; it can be DCR or CRD"));
  if (c.node().op_type == "DepthToSpace") {
    if (x[1] % (b * b) != 0) return c.error(cat("the ", x[1], " channels are no multiple of blocksize ", b, " squared"));
    return c.set_output(0, c.dtype(0), {x[0], x[1] / (b * b), x[2] * b, x[3] * b});
  }
  if (x[2] % b != 0 || x[3] % b != 0) return c.error(cat("height and width of ", x, " are no multiples of blocksize ", b));
  return c.set_output(0, c.dtype(0), {x[0], x[1] * b * b, x[2] / b, x[3] / b});
}

Status gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.op(c.node().op_type == "DepthToSpace" ? "SpaceToDepth" : "DepthToSpace", {c.dy()}, c.attributes()));
  return {};
}

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> space_depth_ops() {
  static const OpDef ops[] = {
      {.name = "DepthToSpace", .since = 13, .inputs = {{"input"}}, .infer = infer, .gradient = gradient, .cost = cost},
      {.name = "SpaceToDepth", .since = 13, .inputs = {{"input"}}, .infer = infer, .gradient = gradient, .cost = cost},
  };
  return ops;
}

}  // namespace eng
