// GRU (opset 14), gates in the order z, r, h:
//   z = f(X Wz^T + H Rz^T + Wbz + Rbz),  r = f(X Wr^T + H Rr^T + Wbr + Rbr)
//   h = g(X Wh^T + (r (.) H) Rh^T + Rbh + Wbh)          linear_before_reset 0
//   h = g(X Wh^T + r (.) (H Rh^T + Rbh) + Wbh)          linear_before_reset 1
//   H' = (1 - z) (.) h + z (.) H
// ai.engine::GruTraining: one more output, reserve [D, steps * batch * 4 * hidden] = activated gates [steps, batch, 3 * hidden], then
// [steps, batch, hidden]: H Rh^T + Rbh (linear_before_reset 1) or r (.) H. ai.engine::GruGrad: see recurrent.h.
#include "graph/ops/recurrent.h"

namespace eng {
namespace {

constexpr RecurrentKind kKind{.gates = 3, .activations = 2, .reserve_gates = 4, .cell = false};

Status infer(InferContext& c) {
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, {}));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, s.sequence()));
  ENG_TRY(c.set_output(1, type, s.state()));
  return c.set_output(2, type, {s.directions, s.steps * s.batch * kKind.reserve_gates * s.hidden});
}

// GruGrad: X, W, R, sequence_lens, initial_h, Y, reserve, dY, dY_h -> dX, dW, dR, dB, dinitial_h
Status infer_grad(InferContext& c) {
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, {.b = -1, .lens = 3, .h0 = 4}));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, Shape(c.shape(0))));
  ENG_TRY(c.set_output(1, type, Shape(c.shape(1))));
  ENG_TRY(c.set_output(2, type, Shape(c.shape(2))));
  ENG_TRY(c.set_output(3, type, {s.directions, 6 * s.hidden}));
  return c.set_output(4, type, s.state());
}

void add_gradient(GradContext& c, ValueId y, ValueId reserve) {
  const std::vector<bool> wanted = {c.needs(0), c.needs(1), c.needs(2), c.needs(3), c.needs(5)};
  const std::vector<ValueId> d = c.b.ops(kEngineDomain, "GruGrad", {c.input(0), c.input(1), c.input(2), c.input(4), c.input(5), y, reserve, c.dy(0), c.dy(1)}, wanted,
                                         Attributes(c.attributes()));
  const int to[] = {0, 1, 2, 3, 5};
  for (size_t i = 0; i < d.size(); ++i)
    if (wanted[i]) c.set(to[i], d[i]);
}

Status gradient(GradContext& c) {
  const std::vector<ValueId> inputs = c.node().inputs;
  const std::vector<ValueId> outputs = c.b.ops(kEngineDomain, "GruTraining", inputs, {true, false, true}, Attributes(c.attributes()));
  add_gradient(c, outputs[0], outputs[2]);
  return {};
}

Status training_gradient(GradContext& c) {
  if (c.output(0) == kNoValue || c.output(2) == kNoValue) return gradient(c);
  add_gradient(c, c.output(0), c.output(2));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &w = g.value(n.inputs[1]).shape, &r = g.value(n.inputs[2]).shape;
  const double rows = static_cast<double>(x[0] * x[1]), each = static_cast<double>(w[0] * w[1]);
  const double factor = n.op_type == "GruGrad" ? 4 : 2;
  return {.flops = factor * rows * each * static_cast<double>(w[2] + r[2]) + rows * each * 10};
}

}  // namespace

std::span<const OpDef> gru_ops() {
  static const std::vector<InputSpec> inputs = {{"X"}, {"W", Slot::kWeight}, {"R", Slot::kWeight}, {"B", Slot::kWeight, true},
                                                {"sequence_lens", Slot::kState, true}, {"initial_h", Slot::kData, true}};
  static const OpDef ops[] = {
      {.name = "GRU", .since = 14, .inputs = inputs, .min_outputs = 0, .max_outputs = 2, .infer = infer, .gradient = gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "GruTraining", .inputs = inputs, .min_outputs = 0, .max_outputs = 3, .infer = infer, .gradient = training_gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "GruGrad",
       .inputs = {{"X"}, {"W"}, {"R"}, {"sequence_lens", Slot::kState, true}, {"initial_h", Slot::kData, true}, {"Y"}, {"reserve"}, {"dY", Slot::kData, true}, {"dY_h", Slot::kData, true}},
       .max_outputs = 5, .infer = infer_grad, .no_gradient = "second derivatives of recurrent networks are not there yet", .cost = cost},
  };
  return ops;
}

}  // namespace eng
