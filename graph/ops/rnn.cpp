// RNN (opset 14): H' = f(X W^T + H R^T + Wb + Rb).
// ai.engine::RnnGrad needs Y alone (f's slope follows from its result), so there is no training form; see recurrent.h.
#include "graph/ops/recurrent.h"

namespace eng {
namespace {

constexpr RecurrentKind kKind{.gates = 1, .activations = 1, .reserve_gates = 0, .cell = false};

Status infer(InferContext& c) {
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, {}));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, s.sequence()));
  return c.set_output(1, type, s.state());
}

// RnnGrad: X, W, R, sequence_lens, initial_h, Y, dY, dY_h -> dX, dW, dR, dB, dinitial_h
Status infer_grad(InferContext& c) {
  ENG_ASSIGN(RecurrentSizes s, check_recurrent(c, kKind, {.b = -1, .lens = 3, .h0 = 4}));
  const DType type = c.dtype(0);
  ENG_TRY(c.set_output(0, type, Shape(c.shape(0))));
  ENG_TRY(c.set_output(1, type, Shape(c.shape(1))));
  ENG_TRY(c.set_output(2, type, Shape(c.shape(2))));
  ENG_TRY(c.set_output(3, type, {s.directions, 2 * s.hidden}));
  return c.set_output(4, type, s.state());
}

Status gradient(GradContext& c) {
  const std::vector<ValueId> inputs = c.node().inputs;
  const ValueId y = c.output(0) != kNoValue ? c.output(0) : c.b.ops("", "RNN", inputs, {true}, Attributes(c.attributes()))[0];
  const std::vector<bool> wanted = {c.needs(0), c.needs(1), c.needs(2), c.needs(3), c.needs(5)};
  const std::vector<ValueId> d = c.b.ops(kEngineDomain, "RnnGrad", {c.input(0), c.input(1), c.input(2), c.input(4), c.input(5), y, c.dy(0), c.dy(1)}, wanted,
                                         Attributes(c.attributes()));
  const int to[] = {0, 1, 2, 3, 5};
  for (size_t i = 0; i < d.size(); ++i)
    if (wanted[i]) c.set(to[i], d[i]);
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &w = g.value(n.inputs[1]).shape, &r = g.value(n.inputs[2]).shape;
  const double rows = static_cast<double>(x[0] * x[1]), each = static_cast<double>(w[0] * w[1]);
  const double factor = n.op_type == "RnnGrad" ? 4 : 2;
  return {.flops = factor * rows * each * static_cast<double>(w[2] + r[2]) + rows * each * 10};
}

}  // namespace

std::span<const OpDef> rnn_ops() {
  static const OpDef ops[] = {
      {.name = "RNN", .since = 14,
       .inputs = {{"X"}, {"W", Slot::kWeight}, {"R", Slot::kWeight}, {"B", Slot::kWeight, true}, {"sequence_lens", Slot::kState, true}, {"initial_h", Slot::kData, true}},
       .min_outputs = 0, .max_outputs = 2, .infer = infer, .gradient = gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "RnnGrad",
       .inputs = {{"X"}, {"W"}, {"R"}, {"sequence_lens", Slot::kState, true}, {"initial_h", Slot::kData, true}, {"Y"}, {"dY", Slot::kData, true}, {"dY_h", Slot::kData, true}},
       .max_outputs = 5, .infer = infer_grad, .no_gradient = "second derivatives of recurrent networks are not there yet", .cost = cost},
  };
  return ops;
}

}  // namespace eng
