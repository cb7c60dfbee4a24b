// BatchNormalization (opset 15) and its training form. Axis 1 holds the channels; sums run over all other axes (M values a channel).
//   inference   Y = (X - mean) * scale / sqrt(var + epsilon) + B
//   training    the same with the batch's mean and population variance; running = old * momentum + batch * (1 - momentum)
// ai.engine::BatchNormTraining(X, scale, B, mean, var) -> (Y, running_mean, running_var, saved_mean, saved_inv_std), with
// activation="Relu" followed by a ReLU; any output may be omitted. With h = (X - mean) * inv_std, g = dY (zero where the ReLU
// was off, recomputed from X, so that Y need not be kept):
//   dB = sum g, dscale = sum g h, dX = scale * inv_std * (g - dB / M - h * dscale / M)       [frozen=1: scale * inv_std * g]
// ai.engine::BatchNormGrad(dY, X, scale, B, saved_mean, saved_inv_std) -> (dX, dscale, dB). Gradients that come through the
// running statistics are not followed: they are state.
#include "graph/ops/op.h"

namespace eng {
namespace {

int64_t channels(const Shape& x) { return x.size() > 1 ? x[1] : 1; }

Status check_operands(InferContext& c, int x, int first, int last) {
  if (c.rank(x) < 1) return c.error(cat("the input X has shape ", c.shape(x), "; batch and channels are needed"));
  for (int i = first; i <= last; ++i) {
    if (c.shape(i) != Shape{channels(c.shape(x))}) return c.error(cat("input ", i, " has shape ", c.shape(i), ", wanted [", channels(c.shape(x)), "] (a value a channel)"));
    if (c.dtype(i) != c.dtype(x)) return c.error(cat("input ", i, " has type ", name_of(c.dtype(i)), ", X has ", name_of(c.dtype(x)), "; mixed types are not handled"));
  }
  const std::string activation = c.attributes().get_string("activation", "");
  if (!activation.empty() && activation != "Relu") return c.error(cat("activation '", activation, "' is not handled; it can be Relu"));
  return {};
}

Status infer_inference(InferContext& c) {
  ENG_TRY(check_operands(c, 0, 1, 4));
  ENG_TRY(c.set_output(0, c.dtype(0), c.shape(0)));
  if (c.attributes().get_int("training_mode", 0) == 0 && (c.has_output(1) || c.has_output(2)))
    return c.error("running mean and variance are outputs only where training_mode is 1");
  ENG_TRY(c.set_output(1, c.dtype(0), c.shape(3)));
  return c.set_output(2, c.dtype(0), c.shape(4));
}

Status infer_training(InferContext& c) {
  ENG_TRY(check_operands(c, 0, 1, 4));
  ENG_TRY(c.set_output(0, c.dtype(0), c.shape(0)));
  for (int i = 1; i < 5; ++i) ENG_TRY(c.set_output(i, c.dtype(0), c.shape(1)));
  return {};
}

Status infer_gradient(InferContext& c) {
  ENG_TRY(check_operands(c, 1, 2, 5));
  if (c.shape(0) != c.shape(1)) return c.error(cat("dY has shape ", c.shape(0), ", X has ", c.shape(1)));
  ENG_TRY(c.set_output(0, c.dtype(1), c.shape(1)));
  ENG_TRY(c.set_output(1, c.dtype(1), c.shape(2)));
  return c.set_output(2, c.dtype(1), c.shape(2));
}

void add_gradient(GradContext& c, ValueId mean, ValueId inv_std, bool frozen) {
  Attributes a;
  a.set("epsilon", c.attributes().get_float("epsilon", 1e-5f));
  if (c.attributes().has("activation")) a.set("activation", c.attributes().get_string("activation", ""));
  if (frozen) a.set("frozen", int64_t{1});
  auto d = c.b.ops(kEngineDomain, "BatchNormGrad", {c.dy(), c.input(0), c.input(1), c.input(2), mean, inv_std}, {c.needs(0), c.needs(1), c.needs(2)}, a);
  for (int i = 0; i < 3; ++i)
    if (c.needs(i)) c.set(i, d[static_cast<size_t>(i)]);
}

Status gradient_training(GradContext& c) {
  if (c.dy() == kNoValue || !(c.needs(0) || c.needs(1) || c.needs(2))) return {};
  ValueId mean = c.output(3), inv_std = c.output(4);
  if (mean == kNoValue || inv_std == kNoValue || c.node().op_type == "BatchNormalization") {
    Attributes a;
    a.set("epsilon", c.attributes().get_float("epsilon", 1e-5f));
    auto saved = c.b.ops(kEngineDomain, "BatchNormTraining", {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)}, {false, false, false, true, true}, a);
    mean = saved[3];
    inv_std = saved[4];
  }
  add_gradient(c, mean, inv_std, false);
  return {};
}

Status gradient_inference(GradContext& c) {
  if (c.attributes().get_int("training_mode", 0) != 0) return gradient_training(c);
  if (!(c.needs(0) || c.needs(1) || c.needs(2))) return {};
  const DType type = c.b.dtype(c.input(4));
  ValueId moved = c.b.op("Add", {c.input(4), c.b.scalar(type, static_cast<double>(c.attributes().get_float("epsilon", 1e-5f)))});
  add_gradient(c, c.input(3), c.b.op("Reciprocal", {c.b.op("Sqrt", {moved})}), true);
  return {};
}

Cost cost_forward(const Graph& g, const Node& n) {
  Cost cost;
  cost.flops = (n.op_type == "BatchNormTraining" ? 7.0 : 3.0) * static_cast<double>(element_count(g.value(n.inputs[0]).shape));
  return cost;
}
Cost cost_gradient(const Graph& g, const Node& n) {
  Cost cost;
  cost.flops = 12.0 * static_cast<double>(element_count(g.value(n.inputs[1]).shape));
  return cost;
}

}  // namespace

std::span<const OpDef> batch_norm_ops() {
  static const OpDef ops[] = {
      {.name = "BatchNormalization", .since = 15,
       .inputs = {{"X"}, {"scale", Slot::kWeight}, {"B", Slot::kWeight}, {"input_mean", Slot::kState}, {"input_var", Slot::kState}}, .max_outputs = 3,
       .infer = infer_inference, .gradient = gradient_inference, .cost = cost_forward, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "BatchNormTraining",
       .inputs = {{"X"}, {"scale", Slot::kWeight}, {"B", Slot::kWeight}, {"mean", Slot::kState}, {"var", Slot::kState}}, .max_outputs = 5,
       .infer = infer_training, .gradient = gradient_training, .cost = cost_forward, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "BatchNormGrad",
       .inputs = {{"dY"}, {"X"}, {"scale", Slot::kWeight}, {"B", Slot::kWeight}, {"saved_mean", Slot::kState}, {"saved_inv_std", Slot::kState}},
       .max_outputs = 3, .infer = infer_gradient, .no_gradient = "second derivatives of a batch normalisation are not there", .cost = cost_gradient,
       .layout = LayoutRule::kChannelsLast},
  };
  return ops;
}

}  // namespace eng
