// Dropout (opset 13) in inference form, y = x; with training_mode and a seed it draws what ONNX's reference evaluator draws. A
// training step has the operators of domain ai.engine instead (graph/passes/training_form.h):
//
//   RandomDropout(x, rng; ratio, stream) -> y, mask    mask = hash(seed, counter, stream, index) >= ratio, y = mask x / (1 - ratio)
//   DropoutGrad(dy, mask; ratio)                       dx = mask dy / (1 - ratio)
//   AdvanceRandom(rng) -> rng'                         rng = {seed, counter}; counter + 1
//
// An element's bit depends on its logical (row-major) index, not on layout, threads or the order of work; without a mask the
// gradient draws the same bits again. stream tells the dropouts of one graph apart.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_dropout(InferContext& c) {
  for (int i = 1; i < 3; ++i)
    if (c.has_input(i) && element_count(c.shape(i)) != 1) return c.error(cat(i == 1 ? "ratio" : "training_mode", " must be one value, got shape ", c.shape(i)));
  if (c.has_input(2) && c.dtype(2) != DType::kBool) return c.error("training_mode must be bool");
  ENG_TRY(c.set_output(0, c.dtype(0), c.shape(0)));
  return c.set_output(1, DType::kBool, c.shape(0));
}

Status dropout_gradient(GradContext& c) {
  if (c.has_input(2)) {
    const Tensor* training = c.constant(2);
    if (!training || training->at(0) != 0)
      return unsupported(c.graph().label(c.node()), ": a Dropout whose training_mode is not constantly false has no gradient; train through the training form");
  }
  if (c.needs(0)) c.set(0, c.dy());
  return {};
}

Status check_ratio(InferContext& c) {
  const float ratio = c.attributes().get_float("ratio", 0.5F);
  return ratio >= 0 && ratio < 1 ? Status() : c.error(cat("attribute 'ratio' must be in [0, 1), got ", ratio));
}

Status infer_random_dropout(InferContext& c) {
  ENG_TRY(check_ratio(c));
  if (c.dtype(1) != DType::kInt64 || c.shape(1) != Shape{2}) return c.error("the random state must be int64 [2]");
  ENG_TRY(c.set_output(0, c.dtype(0), c.shape(0)));
  return c.set_output(1, DType::kBool, c.shape(0));
}

Status random_dropout_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  if (c.output(1) == kNoValue) c.set(0, c.b.engine_op("RandomDropout", {c.dy(), c.input(1)}, c.attributes()));
  else c.set(0, c.b.engine_op("DropoutGrad", {c.dy(), c.output(1)}, c.attributes()));
  return {};
}

Status infer_dropout_grad(InferContext& c) {
  ENG_TRY(check_ratio(c));
  if (c.shape(1) != c.shape(0)) return c.error(cat("the mask has shape ", c.shape(1), ", dy ", c.shape(0)));
  return infer_same_as_input(c);
}

}  // namespace

std::span<const OpDef> dropout_ops() {
  static const OpDef ops[] = {
      {.name = "Dropout", .since = 13, .inputs = {{"data"}, {"ratio", Slot::kState, true}, {"training_mode", Slot::kState, true}}, .max_outputs = 2,
       .infer = infer_dropout, .gradient = dropout_gradient, .layout = LayoutRule::kAny, .stochastic = true},
      {.domain = kEngineDomain, .name = "RandomDropout", .inputs = {{"x"}, {"rng", Slot::kState}}, .max_outputs = 2, .infer = infer_random_dropout,
       .gradient = random_dropout_gradient, .layout = LayoutRule::kAny, .stochastic = true},
      {.domain = kEngineDomain, .name = "DropoutGrad", .inputs = {{"dy"}, {"mask"}}, .infer = infer_dropout_grad,
       .no_gradient = "it is itself part of a gradient", .layout = LayoutRule::kAny},
      {.domain = kEngineDomain, .name = "AdvanceRandom", .inputs = {{"rng", Slot::kState}}, .infer = infer_same_as_input,
       .no_gradient = "random state has no gradient", .stochastic = true},
  };
  return ops;
}

}  // namespace eng
