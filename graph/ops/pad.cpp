// Pad (opset 21): modes constant, reflect (without the edge element), edge, wrap; negative pads crop.
// ai.engine::PadGrad(dy; pads, mode, input_shape): each element of dy is added to the element of x that it was copied from; pads
// are resolved to every axis. d constant_value is what of dy's sum lies outside x.
#include "graph/ops/pad.h"

namespace eng {

Result<PadAxes> resolve_pads(int64_t rank, const std::vector<int64_t>& pads, const std::vector<int64_t>* axes) {
  std::vector<int64_t> at;
  for (int64_t i = 0; i < rank && !axes; ++i) at.push_back(i);
  if (axes) at = *axes;
  if (pads.size() != 2 * at.size()) return invalid("pads ", pads, " must hold two numbers for each of ", at.size(), " axes");
  PadAxes p{std::vector<int64_t>(static_cast<size_t>(rank), 0), std::vector<int64_t>(static_cast<size_t>(rank), 0)};
  for (size_t i = 0; i < at.size(); ++i) {
    ENG_ASSIGN(int64_t axis, normalize_axis(at[i], rank));
    p.begin[static_cast<size_t>(axis)] = pads[i];
    p.end[static_cast<size_t>(axis)] = pads[i + at.size()];
  }
  return p;
}

namespace {

Status infer(InferContext& c) {
  const std::string mode = c.attributes().get_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") return c.error("mode '" + mode + "' is none of constant, reflect, edge, wrap");
  ENG_ASSIGN(std::vector<int64_t> pads, c.constant_ints(1, "pads"));
  std::vector<int64_t> axes;
  if (c.has_input(3)) { ENG_ASSIGN(axes, c.constant_ints(3, "axes")); }
  auto p = resolve_pads(c.rank(0), pads, c.has_input(3) ? &axes : nullptr);
  if (!p.ok()) return c.error(p.status().message());
  Shape out = c.shape(0);
  for (size_t i = 0; i < out.size(); ++i) {
    auto sum = checked_add(p->begin[i], p->end[i]);
    auto extent = sum ? checked_add(out[i], *sum) : std::nullopt;
    if (!extent || *extent < 0) return c.error(cat("pads ", pads, " leave nothing of axis ", i, " of the input ", c.shape(0)));
    if (mode != "constant" && out[i] == 0 && *extent > 0) return c.error(cat("axis ", i, " of the input ", c.shape(0), " is empty, so mode ", mode, " has nothing to copy"));
    out[i] = *extent;
  }
  return c.set_output(0, c.dtype(0), out);
}

Status gradient(GradContext& c) {
  if (!c.needs(0) && !c.needs(2)) return {};
  const std::vector<int64_t> pads = c.constant(1)->to_ints(), axes = c.has_input(3) ? c.constant(3)->to_ints() : std::vector<int64_t>();
  ENG_ASSIGN(PadAxes p, resolve_pads(static_cast<int64_t>(c.shape(0).size()), pads, c.has_input(3) ? &axes : nullptr));
  std::vector<int64_t> all = p.begin;
  all.insert(all.end(), p.end.begin(), p.end.end());
  const std::string mode = c.attributes().get_string("mode", "constant");
  Attributes a;
  a.set("pads", all);
  a.set("mode", mode);
  a.set("input_shape", c.shape(0));
  const ValueId dx = c.b.engine_op("PadGrad", {c.dy()}, a);
  if (c.needs(0)) c.set(0, dx);
  if (c.needs(2) && mode == "constant") {
    Attributes drop;
    drop.set("keepdims", int64_t{0});
    const ValueId outside = c.b.op("Sub", {c.b.op("ReduceSum", {c.dy()}, drop), c.b.op("ReduceSum", {dx}, drop)});
    c.set(2, c.shape(2).empty() ? outside : c.b.op("Reshape", {outside, c.b.ints(c.shape(2))}));
  }
  return {};
}

Status infer_grad(InferContext& c) { return c.set_output(0, c.dtype(0), c.attributes().get_ints("input_shape")); }

Status grad_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  Attributes a;
  a.set("mode", c.attributes().get_string("mode", "constant"));
  c.set(0, c.b.op("Pad", {c.dy(), c.b.ints(c.attributes().get_ints("pads"))}, a));
  return {};
}

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> pad_ops() {
  static const OpDef ops[] = {
      {.name = "Pad", .since = 21, .inputs = {{"data"}, {"pads", Slot::kHost}, {"constant_value", Slot::kData, true}, {"axes", Slot::kHost, true}},
       .infer = infer, .gradient = gradient, .cost = cost, .layout = LayoutRule::kAny},
      {.domain = kEngineDomain, .name = "PadGrad", .inputs = {{"dy"}}, .infer = infer_grad, .gradient = grad_gradient, .cost = cost, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
