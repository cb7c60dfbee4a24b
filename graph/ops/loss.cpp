// Losses. Of our own (domain ai.engine), each a mean and one fused node forward and one backward:
//
//   SoftmaxCrossEntropy(logits [N,C,d..], labels)  -> loss, per_sample [N,d..]
//       labels: integers [N,d..], or probabilities [N,C,d..]; attribute label_smoothing s: t' = t (1-s) + s/C
//       loss = mean of -sum_c t'_c log softmax(logits)_c, computed as log-sum-exp, so that [200,0,0] with label 1 is 200
//       d logits = (dloss / count + d per_sample) (softmax sum_c t'_c - t')
//   SigmoidBinaryCrossEntropy(logits, targets)  mean of max(x,0) - x t + log(1 + exp(-|x|));   d = (sigmoid(x) - t) dloss / count
//   MeanSquaredError(x, t)  mean of (x-t)^2;  d = 2 (x-t) dloss / count        MeanAbsoluteError(x, t)  d = sign(x-t) dloss / count
//
// and ONNX's SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss (opset 13) with class weights, ignore_index and reduction.
// A label outside [0, C) gives NaN as loss and no gradient; the data pipeline refuses it before.
#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr const char* kInGradient = "it is itself part of a gradient";

// [N,C,d..] -> [N,d..]
Shape without_classes(const Shape& s) {
  Shape out = s;
  out.erase(out.begin() + 1);
  return out;
}

Status check_labels(const InferContext& c, int scores, int labels, bool probabilities) {
  if (c.rank(scores) < 2) return c.error(cat("scores need shape [N, classes, ...], got ", c.shape(scores)));
  const bool integer = c.dtype(labels) == DType::kInt64 || c.dtype(labels) == DType::kInt32;
  if (integer && c.shape(labels) == without_classes(c.shape(scores))) return {};
  if (probabilities && c.dtype(labels) == c.dtype(scores) && c.shape(labels) == c.shape(scores)) return {};
  return c.error(cat("labels of type ", name_of(c.dtype(labels)), " and shape ", c.shape(labels), " do not fit scores of shape ", c.shape(scores),
                     "; wanted integers of shape ", without_classes(c.shape(scores)),
                     probabilities ? cat(" or ", name_of(c.dtype(scores)), " of shape ", c.shape(scores)) : std::string()));
}

Status infer_cross_entropy(InferContext& c) {
  ENG_TRY(check_labels(c, 0, 1, true));
  const float smoothing = c.attributes().get_float("label_smoothing", 0);
  if (!(smoothing >= 0 && smoothing < 1)) return c.error(cat("attribute 'label_smoothing' must be in [0, 1), got ", smoothing));
  ENG_TRY(c.set_output(0, c.dtype(0), {}));
  return c.set_output(1, c.dtype(0), without_classes(c.shape(0)));
}

Status cross_entropy_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.engine_op("SoftmaxCrossEntropyGrad", {c.dy(0), c.input(0), c.input(1), c.dy(1)}, c.attributes()));
  return {};
}

Status infer_second(InferContext& c) { return c.set_output(0, c.dtype(1), c.shape(1)); }

Status infer_pair(InferContext& c) {
  if (c.shape(0) != c.shape(1) || c.dtype(0) != c.dtype(1))
    return c.error(cat("predictions and targets must have one type and shape; got ", name_of(c.dtype(0)), " ", c.shape(0), " and ", name_of(c.dtype(1)), " ", c.shape(1)));
  return c.set_output(0, c.dtype(0), {});
}

Status pair_gradient(GradContext& c) {
  const std::string name = c.node().op_type + "Grad";
  ValueId d = c.needs(0) || c.needs(1) ? c.b.engine_op(name, {c.dy(), c.input(0), c.input(1)}) : kNoValue;
  if (c.needs(0)) c.set(0, d);
  if (!c.needs(1)) return {};
  if (c.node().op_type == "SigmoidBinaryCrossEntropy") {  // d/dt = -x / count
    const double count = static_cast<double>(element_count(c.shape(0)));
    ValueId scaled = c.b.op("Mul", {c.dy(), c.b.scalar(c.b.dtype(c.dy()), -1.0 / count)});
    c.set(1, c.b.op("Mul", {c.input(0), scaled}));
  } else {
    c.set(1, c.b.op("Neg", {d}));
  }
  return {};
}

// ---- ONNX's ----

Status infer_onnx_loss(InferContext& c) {
  ENG_TRY(check_labels(c, 0, 1, false));
  const std::string reduction = c.attributes().get_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return c.error("attribute 'reduction' must be mean, sum or none, got '" + reduction + "'");
  if (c.has_input(2) && c.shape(2) != Shape{c.shape(0)[1]})
    return c.error(cat("weights must have shape [", c.shape(0)[1], "], got ", c.shape(2)));
  ENG_TRY(c.set_output(0, c.dtype(0), reduction == "none" ? without_classes(c.shape(0)) : Shape{}));
  return c.set_output(1, c.dtype(0), c.shape(0));  // log probabilities
}

Status onnx_loss_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ValueId d = kNoValue;
  if (c.dy(0) != kNoValue)
    d = c.b.engine_op(c.node().op_type + "Grad", {c.dy(0), c.input(0), c.input(1), c.input(2)}, c.attributes());
  if (c.dy(1) != kNoValue) {
    Attributes axis;
    axis.set("axis", int64_t{1});
    ValueId through = c.b.engine_op("LogSoftmaxGrad", {c.dy(1), c.output(1)}, axis);
    d = d == kNoValue ? through : c.b.op("Add", {d, through});
  }
  if (d != kNoValue) c.set(0, d);
  return {};
}

Cost softmax_cost(const Graph& g, const Node& n) {
  double most = 0;
  for (ValueId v : n.inputs)
    if (v != kNoValue) most = std::max(most, static_cast<double>(element_count(g.value(v).shape)));
  return {20 * most, 0};
}

}  // namespace

std::span<const OpDef> loss_ops() {
  static const std::vector<OpDef> ops = {
      {.domain = kEngineDomain, .name = "SoftmaxCrossEntropy", .inputs = {{"logits"}, {"labels", Slot::kIndex}}, .max_outputs = 2,
       .infer = infer_cross_entropy, .gradient = cross_entropy_gradient, .cost = softmax_cost},
      {.domain = kEngineDomain, .name = "SoftmaxCrossEntropyGrad",
       .inputs = {{"dloss", Slot::kData, true}, {"logits"}, {"labels", Slot::kIndex}, {"dper_sample", Slot::kData, true}},
       .infer = infer_second, .no_gradient = kInGradient, .cost = softmax_cost},
      {.domain = kEngineDomain, .name = "SigmoidBinaryCrossEntropy", .inputs = {{"logits"}, {"targets"}}, .infer = infer_pair,
       .gradient = pair_gradient, .cost = softmax_cost},
      {.domain = kEngineDomain, .name = "MeanSquaredError", .inputs = {{"predictions"}, {"targets"}}, .infer = infer_pair, .gradient = pair_gradient},
      {.domain = kEngineDomain, .name = "MeanAbsoluteError", .inputs = {{"predictions"}, {"targets"}}, .infer = infer_pair, .gradient = pair_gradient},
      {.domain = kEngineDomain, .name = "SigmoidBinaryCrossEntropyGrad", .inputs = {{"dloss"}, {"logits"}, {"targets"}}, .infer = infer_second,
       .no_gradient = kInGradient, .cost = softmax_cost},
      {.domain = kEngineDomain, .name = "MeanSquaredErrorGrad", .inputs = {{"dloss"}, {"predictions"}, {"targets"}}, .infer = infer_second, .no_gradient = kInGradient},
      {.domain = kEngineDomain, .name = "MeanAbsoluteErrorGrad", .inputs = {{"dloss"}, {"predictions"}, {"targets"}}, .infer = infer_second, .no_gradient = kInGradient},
      {.name = "SoftmaxCrossEntropyLoss", .since = 13, .inputs = {{"scores"}, {"labels", Slot::kIndex}, {"weights", Slot::kState, true}},
       .max_outputs = 2, .infer = infer_onnx_loss, .gradient = onnx_loss_gradient, .cost = softmax_cost},
      {.name = "NegativeLogLikelihoodLoss", .since = 13, .inputs = {{"input"}, {"target", Slot::kIndex}, {"weight", Slot::kState, true}},
       .infer = infer_onnx_loss, .gradient = onnx_loss_gradient},
      {.domain = kEngineDomain, .name = "SoftmaxCrossEntropyLossGrad",
       .inputs = {{"dloss"}, {"scores"}, {"labels", Slot::kIndex}, {"weights", Slot::kState, true}}, .infer = infer_second,
       .no_gradient = kInGradient, .cost = softmax_cost},
      {.domain = kEngineDomain, .name = "NegativeLogLikelihoodLossGrad",
       .inputs = {{"dloss"}, {"input"}, {"target", Slot::kIndex}, {"weight", Slot::kState, true}}, .infer = infer_second, .no_gradient = kInGradient},
  };
  return ops;
}

}  // namespace eng
