// Optimiser updates (domain ai.engine), one fused node a parameter, all results in place of their operands. Keras 2's formulas:
//
//   g = clip(g * grad_scale, +-clip_value) + l2 w                 attributes clip_value (0: none) and l2; grad_scale optional, last input
//   SgdUpdate      (w, g, lr)             w' = w - lr g
//   MomentumUpdate (w, g, v, lr)          v' = m v - lr g;  w' = w + v', nesterov: w + m v' - lr g
//   RmspropUpdate  (w, g, a, lr)          a' = rho a + (1-rho) g^2;  w' = w - lr g / (sqrt(a') + epsilon)
//   AdamUpdate     (w, g, m, v, lr, step) m' = beta1 m + (1-beta1) g;  v' = beta2 v + (1-beta2) g^2;  t = step + 1
//                  w' = w - lr sqrt(1-beta2^t)/(1-beta1^t) m' / (sqrt(v') + epsilon) - lr weight_decay w   (AdamW: decay apart from g)
//   GlobalNorm(g1..gn) = sqrt(sum of all squares);  ClipScale(norm; max_norm) = max_norm / max(norm, max_norm)
//
// and ai.onnx.preview.training's Adam, Adagrad, Momentum (version 1), whose inputs are R, T, then all X, all G, all states.
#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr const char* kUpdate = "an optimiser's update is not differentiated";

// Number of states after w and g: outputs are w' and the states.
int states_of(const std::string& op) {
  if (op == "SgdUpdate") return 0;
  return op == "AdamUpdate" ? 2 : 1;
}

Status infer_update(InferContext& c) {
  const int states = states_of(c.node().op_type);
  for (int i = 1; i < 2 + states; ++i)
    if (c.shape(i) != c.shape(0) || c.dtype(i) != c.dtype(0))
      return c.error(cat("input ", i, " must be like the weight (", name_of(c.dtype(0)), " ", c.shape(0), "), got ", name_of(c.dtype(i)), " ", c.shape(i)));
  for (int i = 2 + states; i < c.input_count(); ++i)
    if (c.has_input(i) && element_count(c.shape(i)) != 1) return c.error(cat("input ", i, " must be one number, got shape ", c.shape(i)));
  if (c.dtype(2 + states) != DType::kFloat32) return c.error("the learning rate must be float32");
  for (int i = 0; i < 1 + states; ++i) ENG_TRY(c.set_output(i, c.dtype(0), c.shape(0)));
  return {};
}

Cost update_cost(const Graph& g, const Node& n) {
  const double each = n.op_type == "AdamUpdate" ? 12 : n.op_type == "SgdUpdate" ? 2 : 6;
  return {each * static_cast<double>(element_count(g.value(n.inputs[0]).shape)), 0};
}

Status infer_norm(InferContext& c) { return c.set_output(0, DType::kFloat32, {}); }

Cost norm_cost(const Graph& g, const Node& n) {
  double flops = 0;
  for (ValueId v : n.inputs) flops += 2 * static_cast<double>(element_count(g.value(v).shape));
  return {flops, 0};
}

Status infer_preview(InferContext& c) {
  const int each = c.node().op_type == "Adam" ? 4 : 3, groups = (c.input_count() - 2) / each;
  if (groups < 1 || 2 + groups * each != c.input_count())
    return c.error(cat("has ", c.input_count(), " inputs; wanted R, T and ", each, " tensors for each optimised one"));
  if (c.output_count() != groups * (each - 1)) return c.error(cat("has ", c.output_count(), " outputs, wanted ", groups * (each - 1)));
  if (c.node().op_type == "Momentum") {
    const std::string mode = c.attributes().get_string("mode", "");
    if (mode != "standard" && mode != "nesterov") return c.error("attribute 'mode' must be standard or nesterov, got '" + mode + "'");
  }
  for (int i = 0; i < groups; ++i)
    for (int k = 1; k < each; ++k)
      if (c.shape(2 + k * groups + i) != c.shape(2 + i) || c.dtype(2 + k * groups + i) != c.dtype(2 + i))
        return c.error(cat("input ", 2 + k * groups + i, " must be like input ", 2 + i, ", ", c.shape(2 + i)));
  for (int i = 0; i < c.output_count(); ++i) ENG_TRY(c.set_output(i, c.dtype(2 + i % groups), c.shape(2 + i % groups)));
  return {};
}

OpDef update(const char* name, std::vector<InputSpec> inputs) {
  const int outputs = 1 + states_of(name);
  inputs.push_back({"grad_scale", Slot::kIndex, true});
  return {.domain = kEngineDomain, .name = name, .inputs = std::move(inputs), .min_outputs = outputs, .max_outputs = outputs,
          .infer = infer_update, .no_gradient = kUpdate, .cost = update_cost};
}
OpDef preview(const char* name) {
  OpDef d{.domain = "ai.onnx.preview.training", .name = name, .inputs = {{"R", Slot::kIndex}, {"T", Slot::kIndex}, {"inputs", Slot::kState}},
          .max_outputs = -1, .infer = infer_preview, .no_gradient = kUpdate};
  d.variadic = true;
  return d;
}

}  // namespace

std::span<const OpDef> optimizer_update_ops() {
  constexpr Slot s = Slot::kState, i = Slot::kIndex;
  static const std::vector<OpDef> ops = [] {
    std::vector<OpDef> all = {
        update("SgdUpdate", {{"w", s}, {"g", s}, {"lr", i}}),
        update("MomentumUpdate", {{"w", s}, {"g", s}, {"v", s}, {"lr", i}}),
        update("RmspropUpdate", {{"w", s}, {"g", s}, {"a", s}, {"lr", i}}),
        update("AdamUpdate", {{"w", s}, {"g", s}, {"m", s}, {"v", s}, {"lr", i}, {"step", i}}),
        {.domain = kEngineDomain, .name = "ClipScale", .inputs = {{"norm", s}}, .infer = infer_norm, .no_gradient = kUpdate},
        preview("Adam"), preview("Adagrad"), preview("Momentum"),
    };
    OpDef norm{.domain = kEngineDomain, .name = "GlobalNorm", .inputs = {{"gradient", s}}, .infer = infer_norm, .no_gradient = kUpdate, .cost = norm_cost};
    norm.variadic = true;
    all.push_back(norm);
    return all;
  }();
  return ops;
}

}  // namespace eng
