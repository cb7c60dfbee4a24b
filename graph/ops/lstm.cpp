// LSTM (opset 14), gates in the order i, o, f, c; (.) is elementwise:
//   i = f(X Wi^T + H Ri^T + Pi (.) C + Wbi + Rbi)      o = f(X Wo^T + H Ro^T + Po (.) C' + Wbo + Rbo)
//   f = f(X Wf^T + H Rf^T + Pf (.) C + Wbf + Rbf)      c = g(X Wc^T + H Rc^T + Wbc + Rbc)
//   C' = f (.) C + i (.) c,  H' = o (.) h(C');  input_forget: f = 1 - i; clip bounds what the activations see.
// A sample's steps from its sequence length on are padding: states pass through, Y is 0, the reverse direction starts at its last step.
// ai.engine::LstmTraining: one more output, reserve [D, steps * batch * 5 * hidden] = activated gates [steps, batch, 4 * hidden], then the
// cells C' [steps, batch, hidden]. ai.engine::LstmGrad: see recurrent.h.
#include "graph/ops/recurrent.h"

namespace eng {
namespace {

constexpr RecurrentKind kKind{.gates = 4, .activations = 3, .reserve_gates = 5, .cell = true};
constexpr RecurrentOperands kOperands{.c0 = 6, .p = 7};

Status infer(InferContext& c) {
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, kOperands));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, s.sequence()));
  ENG_TRY(c.set_output(1, type, s.state()));
  ENG_TRY(c.set_output(2, type, s.state()));
  return c.set_output(3, type, {s.directions, s.steps * s.batch * kKind.reserve_gates * s.hidden});
}

// LstmGrad: X, W, R, sequence_lens, initial_h, initial_c, P, Y, reserve, dY, dY_h, dY_c -> dX, dW, dR, dB, dinitial_h, dinitial_c, dP
Status infer_grad(InferContext& c) {
  const RecurrentOperands at{.b = -1, .lens = 3, .h0 = 4, .c0 = 5, .p = 6};
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, at));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, Shape(c.shape(0))));
  ENG_TRY(c.set_output(1, type, Shape(c.shape(1))));
  ENG_TRY(c.set_output(2, type, Shape(c.shape(2))));
  ENG_TRY(c.set_output(3, type, {s.directions, 8 * s.hidden}));
  ENG_TRY(c.set_output(4, type, s.state()));
  ENG_TRY(c.set_output(5, type, s.state()));
  return c.set_output(6, type, {s.directions, 3 * s.hidden});
}

// From a training form's outputs Y and reserve.
void add_gradient(GradContext& c, ValueId y, ValueId reserve) {
  const std::vector<bool> wanted = {c.needs(0), c.needs(1), c.needs(2), c.needs(3), c.needs(5), c.needs(6), c.needs(7)};
  const std::vector<ValueId> d = c.b.ops(kEngineDomain, "LstmGrad",
                                         {c.input(0), c.input(1), c.input(2), c.input(4), c.input(5), c.input(6), c.input(7), y, reserve, c.dy(0), c.dy(1), c.dy(2)},
                                         wanted, Attributes(c.attributes()));
  const int to[] = {0, 1, 2, 3, 5, 6, 7};
  for (size_t i = 0; i < d.size(); ++i)
    if (wanted[i]) c.set(to[i], d[i]);
}

Status gradient(GradContext& c) {
  const std::vector<ValueId> inputs = c.node().inputs;
  const std::vector<ValueId> outputs = c.b.ops(kEngineDomain, "LstmTraining", inputs, {true, false, false, true}, Attributes(c.attributes()));
  add_gradient(c, outputs[0], outputs[3]);
  return {};
}

Status training_gradient(GradContext& c) {
  if (c.output(0) == kNoValue || c.output(3) == kNoValue) return gradient(c);
  add_gradient(c, c.output(0), c.output(3));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &w = g.value(n.inputs[1]).shape, &r = g.value(n.inputs[2]).shape;
  const double rows = static_cast<double>(x[0] * x[1]), each = static_cast<double>(w[0] * w[1]);
  const double factor = n.op_type == "LstmGrad" ? 4 : 2;
  return {.flops = factor * rows * each * static_cast<double>(w[2] + r[2]) + rows * each * 10};
}

}  // namespace

std::span<const OpDef> lstm_ops() {
  static const std::vector<InputSpec> inputs = {{"X"}, {"W", Slot::kWeight}, {"R", Slot::kWeight}, {"B", Slot::kWeight, true}, {"sequence_lens", Slot::kState, true},
                                                {"initial_h", Slot::kData, true}, {"initial_c", Slot::kData, true}, {"P", Slot::kWeight, true}};
  static const OpDef ops[] = {
      {.name = "LSTM", .since = 14, .inputs = inputs, .min_outputs = 0, .max_outputs = 3, .infer = infer, .gradient = gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "LstmTraining", .inputs = inputs, .min_outputs = 0, .max_outputs = 4, .infer = infer, .gradient = training_gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "LstmGrad",
       .inputs = {{"X"}, {"W"}, {"R"}, {"sequence_lens", Slot::kState, true}, {"initial_h", Slot::kData, true}, {"initial_c", Slot::kData, true}, {"P", Slot::kData, true},
                  {"Y"}, {"reserve"}, {"dY", Slot::kData, true}, {"dY_h", Slot::kData, true}, {"dY_c", Slot::kData, true}},
       .max_outputs = 7, .infer = infer_grad, .no_gradient = "second derivatives of recurrent networks are not there yet", .cost = cost},
  };
  return ops;
}

}  // namespace eng
