// Arithmetic of broadcast operands (opset 7; Add, Sub, Mul, Div 14, Pow 15, Mod 13) and the variadic Min, Max, Sum, Mean (13, 8).
//
//   Add      da = dy              db = dy              Min, Max   dx_i = dy where x_i is the first that equals y
//   Sub      da = dy              db = -dy             Sum        dx_i = dy
//   Mul      da = dy b            db = dy a            Mean       dx_i = dy / n
//   Div      da = dy / b          db = -dy y / b       Mod(fmod)  da = dy, db = -dy (a - y) / b
//   Pow      da = dy b a^(b-1)    db = dy y ln a       (db = 0 where a <= 0; y = 0^0 = 1 has da = 0)
//
// The walk sums gradients down to the operands' shapes. Here in domain ai.engine: PowGradBase(dy, a, b), PowGradExponent(dy, a, y),
// ExtremumGrad(dy, y, x_0 .. x_i). To add a member: a row here, a functor in backends/cpu/kernels/binary.cpp.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_one_type(InferContext& c) {
  for (int i = 1; i < c.input_count(); ++i)
    if (c.dtype(i) != c.dtype(0))
      return c.error(cat("all inputs must have one element type; input 0 is ", name_of(c.dtype(0)), ", input ", i, " is ", name_of(c.dtype(i))));
  return infer_broadcast(c);
}

Status add_gradient(GradContext& c) {
  for (int i = 0; i < c.input_count(); ++i)
    if (c.needs(i)) c.set(i, c.dy());
  return {};
}

Status sub_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.dy());
  if (c.needs(1)) c.set(1, c.b.op("Neg", {c.b.sum_to(c.dy(), c.shape(1))}));
  return {};
}

Status mul_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.op("Mul", {c.dy(), c.input(1)}));
  if (c.needs(1)) c.set(1, c.b.op("Mul", {c.dy(), c.input(0)}));
  return {};
}

Status div_gradient(GradContext& c) {
  if (!c.needs(0) && !c.needs(1)) return {};
  ValueId da = c.b.op("Div", {c.dy(), c.input(1)});
  if (c.needs(0)) c.set(0, da);
  if (c.needs(1)) c.set(1, c.b.op("Neg", {c.b.sum_to(c.b.op("Mul", {da, c.output()}), c.shape(1))}));
  return {};
}

Status mod_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.dy());
  if (!c.needs(1)) return {};
  ValueId whole = c.b.op("Div", {c.b.op("Sub", {c.input(0), c.output()}), c.input(1)});
  c.set(1, c.b.op("Neg", {c.b.op("Mul", {c.dy(), c.b.op("Round", {whole})})}));
  return {};
}

Status pow_gradient(GradContext& c) {
  const Tensor* exponent = c.constant(1);
  const bool scalar = exponent && exponent->element_count() == 1;
  if (c.needs(0)) {
    if (scalar && exponent->at(0) == 2) {
      ValueId twice = c.b.op("Add", {c.input(0), c.input(0)});
      c.set(0, c.b.op("Mul", {c.dy(), twice}));
    } else {
      c.set(0, c.b.engine_op("PowGradBase", {c.dy(), c.input(0), c.input(1)}));
    }
  }
  if (c.needs(1)) c.set(1, c.b.engine_op("PowGradExponent", {c.dy(), c.input(0), c.output()}));
  return {};
}

Status extremum_gradient(GradContext& c) {
  std::vector<ValueId> operands{c.dy(), c.output()};
  for (int i = 0; i < c.input_count(); ++i) {
    operands.push_back(c.input(i));
    if (c.needs(i)) c.set(i, c.input_count() == 1 ? c.dy() : c.b.engine_op("ExtremumGrad", operands));
  }
  return {};
}

Status mean_gradient(GradContext& c) {
  ValueId share = kNoValue;
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.needs(i)) continue;
    if (share == kNoValue) share = c.b.op("Mul", {c.dy(), c.b.scalar(c.b.dtype(c.dy()), 1.0 / c.input_count())});
    c.set(i, share);
  }
  return {};
}

OpDef two(const char* name, int64_t since, InferFn infer, GradFn gradient, CostFn cost = nullptr) {
  return {.name = name, .since = since, .inputs = {{"A"}, {"B"}}, .infer = infer, .gradient = gradient, .cost = cost, .layout = LayoutRule::kAny};
}
OpDef many(const char* name, int64_t since, GradFn gradient) {
  OpDef d{.name = name, .since = since, .inputs = {{"data_0"}}, .infer = infer_one_type, .gradient = gradient, .layout = LayoutRule::kAny};
  d.variadic = true;
  return d;
}
OpDef of_gradient(const char* name, std::vector<InputSpec> inputs, bool variadic = false) {
  OpDef d{.domain = kEngineDomain, .name = name, .inputs = std::move(inputs), .infer = infer_broadcast,
          .no_gradient = "it is itself part of a gradient", .layout = LayoutRule::kAny};
  d.variadic = variadic;
  return d;
}

}  // namespace

std::span<const OpDef> binary_ops() {
  static const std::vector<OpDef> ops = {
      two("Add", 14, infer_one_type, add_gradient),
      two("Sub", 14, infer_one_type, sub_gradient),
      two("Mul", 14, infer_one_type, mul_gradient),
      two("Div", 14, infer_one_type, div_gradient),
      two("Mod", 13, infer_one_type, mod_gradient),
      two("Pow", 15, infer_broadcast, pow_gradient,
          [](const Graph& g, const Node& n) { return Cost{20.0 * static_cast<double>(element_count(g.value(n.outputs[0]).shape)), 0}; }),
      many("Max", 13, extremum_gradient),
      many("Min", 13, extremum_gradient),
      many("Sum", 13, add_gradient),
      many("Mean", 13, mean_gradient),
      of_gradient("PowGradBase", {{"dy"}, {"base"}, {"exponent"}}),
      of_gradient("PowGradExponent", {{"dy"}, {"base"}, {"y"}}),
      of_gradient("ExtremumGrad", {{"dy"}, {"y"}, {"data_0"}}, true),
  };
  return ops;
}

}  // namespace eng
