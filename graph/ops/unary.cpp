// Functions of one operand, element by element, their gradients, and the two with per-channel or bound operands, PRelu and Clip.
//
// A row of kFunctions is one operator: its opset, what its gradient reads (x, y, or nothing), and whether the gradient is one
// fused node <Name>Grad(dy, x or y) of domain ai.engine with the same attributes, or zero almost everywhere (Floor, Sign, ...).
//   y-gradients   Relu dy[y>0]   Sigmoid dy y(1-y)   Tanh dy(1-y^2)   HardSigmoid dy alpha [0<y<1]   Exp dy y   Sqrt dy/(2y)
//                 Reciprocal -dy y^2   Tan dy(1+y^2)
//   x-gradients   all others: dy f'(x); the formulas stand in backends/cpu/kernels/unary_grad.cpp
//   Clip          dx = dy [min <= x <= max], dmin = dy [x < min], dmax = dy [x > max]
//   PRelu         dx = dy [x >= 0 ? 1 : slope], dslope = dy min(x, 0)
#include "graph/ops/op.h"

namespace eng {
namespace {

enum class Reads : uint8_t { kX, kY, kZero, kNegate };
struct Function {
  const char* name;
  const char* gradient_name;
  int64_t since;
  Reads reads;
  double flops;  // an element
};
constexpr Function kFunctions[] = {
    {"Relu", "ReluGrad", 14, Reads::kY, 1},
    {"LeakyRelu", "LeakyReluGrad", 16, Reads::kX, 2},
    {"Sigmoid", "SigmoidGrad", 13, Reads::kY, 20},
    {"Tanh", "TanhGrad", 13, Reads::kY, 20},
    {"HardSigmoid", "HardSigmoidGrad", 6, Reads::kY, 4},
    {"HardSwish", "HardSwishGrad", 14, Reads::kX, 5},
    {"Elu", "EluGrad", 6, Reads::kX, 20},
    {"Selu", "SeluGrad", 6, Reads::kX, 20},
    {"Celu", "CeluGrad", 12, Reads::kX, 20},
    {"ThresholdedRelu", "ThresholdedReluGrad", 10, Reads::kX, 1},
    {"Softplus", "SoftplusGrad", 1, Reads::kX, 40},
    {"Softsign", "SoftsignGrad", 1, Reads::kX, 3},
    {"Mish", "MishGrad", 18, Reads::kX, 60},
    {"Gelu", "GeluGrad", 20, Reads::kX, 40},
    {"Shrink", "ShrinkGrad", 9, Reads::kX, 2},
    {"Exp", "ExpGrad", 13, Reads::kY, 15},
    {"Log", "LogGrad", 13, Reads::kX, 15},
    {"Sqrt", "SqrtGrad", 13, Reads::kY, 5},
    {"Reciprocal", "ReciprocalGrad", 13, Reads::kY, 5},
    {"Abs", "AbsGrad", 13, Reads::kX, 1},
    {"Erf", "ErfGrad", 13, Reads::kX, 20},
    {"Sin", "SinGrad", 7, Reads::kX, 20},
    {"Cos", "CosGrad", 7, Reads::kX, 20},
    {"Tan", "TanGrad", 7, Reads::kY, 30},
    {"Asin", "AsinGrad", 7, Reads::kX, 30},
    {"Acos", "AcosGrad", 7, Reads::kX, 30},
    {"Atan", "AtanGrad", 7, Reads::kX, 30},
    {"Sinh", "SinhGrad", 9, Reads::kX, 30},
    {"Cosh", "CoshGrad", 9, Reads::kX, 30},
    {"Asinh", "AsinhGrad", 9, Reads::kX, 30},
    {"Acosh", "AcoshGrad", 9, Reads::kX, 30},
    {"Atanh", "AtanhGrad", 9, Reads::kX, 30},
    {"Neg", nullptr, 13, Reads::kNegate, 1},
    {"Sign", nullptr, 13, Reads::kZero, 1},
    {"Floor", nullptr, 13, Reads::kZero, 1},
    {"Ceil", nullptr, 13, Reads::kZero, 1},
    {"Round", nullptr, 11, Reads::kZero, 1},
};

const Function* find(const std::string& name) {
  for (const Function& f : kFunctions)
    if (name == f.name || (f.gradient_name && name == f.gradient_name)) return &f;
  return nullptr;
}

Status gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const Function& f = *find(c.node().op_type);
  if (f.reads == Reads::kNegate) c.set(0, c.b.op("Neg", {c.dy()}));
  if (f.reads == Reads::kX) c.set(0, c.b.engine_op(f.gradient_name, {c.dy(), c.input(0)}, c.attributes()));
  if (f.reads == Reads::kY) c.set(0, c.b.engine_op(f.gradient_name, {c.dy(), c.output()}, c.attributes()));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  return {find(n.op_type)->flops * static_cast<double>(element_count(g.value(n.outputs[0]).shape)), 0};
}

Status infer_unary(InferContext& c) {
  if (c.node().op_type == "Gelu") {
    const std::string how = c.attributes().get_string("approximate", "none");
    if (how != "none" && how != "tanh") return c.error("attribute 'approximate' must be none or tanh, got '" + how + "'");
  }
  return infer_same_as_input(c);
}

// dy and x have one shape.
Status infer_gradient(InferContext& c) {
  if (c.shape(0) != c.shape(1)) return c.error(cat("dy has shape ", c.shape(0), ", the function's operand ", c.shape(1)));
  return infer_same_as_input(c);
}

// ---- Clip ----

Status infer_clip(InferContext& c) {
  for (int i = 1; i < 3; ++i)
    if (c.has_input(i) && (element_count(c.shape(i)) != 1 || c.dtype(i) != c.dtype(0)))
      return c.error(cat(i == 1 ? "min" : "max", " must be one ", name_of(c.dtype(0)), ", got ", name_of(c.dtype(i)), " of shape ", c.shape(i)));
  return infer_same_as_input(c);
}

Status clip_gradient(GradContext& c) {
  const ValueId low = c.input(1), high = c.input(2);
  if (c.needs(0)) c.set(0, low == kNoValue && high == kNoValue ? c.dy() : c.b.engine_op("ClipGrad", {c.dy(), c.input(0), low, high}));
  ValueId zero = c.needs(1) || c.needs(2) ? c.b.scalar(c.b.dtype(c.dy()), 0) : kNoValue;
  auto whole = [&](ValueId masked, const Shape& shape) {  // a bound of shape [1] or []
    Attributes flat;
    flat.set("keepdims", int64_t{0});
    return c.b.op("Reshape", {c.b.op("ReduceSum", {masked}, flat), c.b.ints(shape)});
  };
  if (c.needs(1)) c.set(1, whole(c.b.op("Where", {c.b.op("Less", {c.input(0), low}), c.dy(), zero}), c.shape(1)));
  if (c.needs(2)) c.set(2, whole(c.b.op("Where", {c.b.op("Greater", {c.input(0), high}), c.dy(), zero}), c.shape(2)));
  return {};
}

// ---- PRelu: slope broadcasts to x ----

Status infer_prelu(InferContext& c) {
  auto shape = broadcast(c.shape(0), c.shape(1));
  if (!shape.ok() || *shape != c.shape(0)) return c.error(cat("slope of shape ", c.shape(1), " does not broadcast to X of shape ", c.shape(0)));
  return infer_same_as_input(c);
}

Status prelu_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.engine_op("PReluGradData", {c.dy(), c.input(0), c.input(1)}));
  if (c.needs(1)) c.set(1, c.b.engine_op("PReluGradSlope", {c.dy(), c.input(0)}));
  return {};
}

std::vector<OpDef> make() {
  std::vector<OpDef> ops;
  for (const Function& f : kFunctions) {
    ops.push_back({.name = f.name, .since = f.since, .inputs = {{"X"}}, .infer = infer_unary, .gradient = gradient, .cost = cost,
                   .layout = LayoutRule::kAny});
    if (f.gradient_name)
      ops.push_back({.domain = kEngineDomain, .name = f.gradient_name, .inputs = {{"dy"}, {f.reads == Reads::kY ? "y" : "x"}},
                     .infer = infer_gradient, .no_gradient = "it is itself part of a gradient", .cost = cost, .layout = LayoutRule::kAny});
  }
  ops.push_back({.name = "Clip", .since = 13, .inputs = {{"input"}, {"min", Slot::kData, true}, {"max", Slot::kData, true}},
                 .infer = infer_clip, .gradient = clip_gradient, .layout = LayoutRule::kAny});
  ops.push_back({.name = "PRelu", .since = 16, .inputs = {{"X"}, {"slope", Slot::kWeight}}, .infer = infer_prelu, .gradient = prelu_gradient,
                 .layout = LayoutRule::kAny});
  const char* why = "it is itself part of a gradient";
  ops.push_back({.domain = kEngineDomain, .name = "ClipGrad", .inputs = {{"dy"}, {"x"}, {"min", Slot::kData, true}, {"max", Slot::kData, true}},
                 .infer = infer_same_as_input, .no_gradient = why, .layout = LayoutRule::kAny});
  ops.push_back({.domain = kEngineDomain, .name = "PReluGradData", .inputs = {{"dy"}, {"x"}, {"slope"}}, .infer = infer_same_as_input,
                 .no_gradient = why, .layout = LayoutRule::kAny});
  ops.push_back({.domain = kEngineDomain, .name = "PReluGradSlope", .inputs = {{"dy"}, {"x"}}, .infer = infer_same_as_input,
                 .no_gradient = why, .layout = LayoutRule::kAny});
  return ops;
}

}  // namespace

std::span<const OpDef> unary_ops() {
  static const std::vector<OpDef> ops = make();
  return ops;
}

}  // namespace eng
