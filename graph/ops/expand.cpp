// Expand (opset 13): x broadcast together with a shape. Tile (13): x repeated along each axis. The gradients add up: the walk does it
// for Expand; for Tile each repeated axis is split in (repeats, extent) and summed.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_expand(InferContext& c) {
  ENG_ASSIGN(Shape wanted, c.constant_ints(1, "shape"));
  auto wide = broadcast(c.shape(0), wanted);
  if (!wide.ok()) return c.error(wide.status().message());
  return c.set_output(0, c.dtype(0), *wide);
}

Status expand_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.dy());
  return {};
}

Status infer_tile(InferContext& c) {
  ENG_ASSIGN(std::vector<int64_t> repeats, c.constant_ints(1, "repeats"));
  Shape out = c.shape(0);
  if (repeats.size() != out.size()) return c.error(cat("repeats ", repeats, " do not fit an input of shape ", out));
  for (size_t i = 0; i < out.size(); ++i) {
    auto product = checked_multiply(out[i], repeats[i]);
    if (repeats[i] < 0 || !product) return c.error(cat("repeats ", repeats, " of an input of shape ", out, " are negative or too large"));
    out[i] = *product;
  }
  return c.set_output(0, c.dtype(0), out);
}

Status tile_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const Shape x = c.shape(0);
  const std::vector<int64_t> repeats = c.constant(1)->to_ints();
  ValueId v = c.dy();
  Shape now = c.b.shape(v);
  for (size_t i = 0; i < x.size(); ++i) {
    if (repeats[i] == 1) continue;
    const int64_t before = element_count(Shape(now.begin(), now.begin() + static_cast<int64_t>(i))), rest = element_count(Shape(now.begin() + static_cast<int64_t>(i) + 1, now.end()));
    Attributes drop;
    drop.set("keepdims", int64_t{0});
    Attributes zero;
    zero.set("allowzero", int64_t{1});
    v = c.b.op("ReduceSum", {c.b.op("Reshape", {v, c.b.ints({before, repeats[i], x[i] * rest})}, zero), c.b.ints({1})}, drop);
    now[i] = x[i];
  }
  Attributes zero;
  zero.set("allowzero", int64_t{1});
  c.set(0, c.b.shape(v) == x ? v : c.b.op("Reshape", {v, c.b.ints(x)}, zero));
  return {};
}

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> expand_ops() {
  static const OpDef ops[] = {
      {.name = "Expand", .since = 13, .inputs = {{"input"}, {"shape", Slot::kHost}}, .infer = infer_expand, .gradient = expand_gradient, .cost = cost},
      {.name = "Tile", .since = 13, .inputs = {{"input"}, {"repeats", Slot::kHost}}, .infer = infer_tile, .gradient = tile_gradient, .cost = cost},
  };
  return ops;
}

}  // namespace eng
