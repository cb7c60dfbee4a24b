// Truth values, bits, comparisons and choice between broadcast operands: And, Or, Xor (7), Not (1), Bitwise* (18), BitShift (11),
// Equal, Greater, Less (13), GreaterOrEqual, LessOrEqual (16), IsNaN (20), IsInf (20), Where (16).
//
// None but Where carries a gradient (an integer or bool result ends the walk): dX = c ? dy : 0, dY = c ? 0 : dy.
// To add a member: a row here, a functor in backends/cpu/kernels/logic.cpp.
#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr const char* kNotFloating = "its result is not a floating-point number";

Status same_types(InferContext& c) {
  if (c.input_count() > 1 && c.dtype(1) != c.dtype(0))
    return c.error(cat("both inputs must have one element type; got ", name_of(c.dtype(0)), " and ", name_of(c.dtype(1))));
  return {};
}

Status infer_logic(InferContext& c) {
  for (int i = 0; i < c.input_count(); ++i)
    if (c.dtype(i) != DType::kBool) return c.error(cat("input ", i, " must be bool, got ", name_of(c.dtype(i))));
  return infer_broadcast(c);
}

Status infer_bits(InferContext& c) {
  ENG_TRY(same_types(c));
  if (!is_integer(c.dtype(0))) return c.error(cat("the inputs must be integers, got ", name_of(c.dtype(0))));
  if (c.node().op_type == "BitShift") {
    const std::string direction = c.attributes().get_string("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") return c.error("attribute 'direction' must be LEFT or RIGHT, got '" + direction + "'");
  }
  return infer_broadcast(c);
}

Status infer_compare(InferContext& c) {
  ENG_TRY(same_types(c));
  if (c.dtype(0) == DType::kString) return unsupported(c.graph().label(c.node()), ": element type string is not supported");
  auto shape = broadcast(c.shape(0), c.shape(1));
  if (!shape.ok()) return c.error(shape.status().message());
  return c.set_output(0, DType::kBool, *shape);
}

Status infer_test(InferContext& c) { return c.set_output(0, DType::kBool, c.shape(0)); }

Status infer_where(InferContext& c) {
  if (c.dtype(0) != DType::kBool) return c.error(cat("the condition must be bool, got ", name_of(c.dtype(0))));
  if (c.dtype(1) != c.dtype(2)) return c.error(cat("X and Y must have one element type; got ", name_of(c.dtype(1)), " and ", name_of(c.dtype(2))));
  if (c.dtype(1) == DType::kString) return unsupported(c.graph().label(c.node()), ": element type string is not supported");
  Shape shape = c.shape(0);
  for (int i = 1; i < 3; ++i) {
    auto wider = broadcast(shape, c.shape(i));
    if (!wider.ok()) return c.error(cat("input ", i, ": ", wider.status().message()));
    shape = *wider;
  }
  return c.set_output(0, c.dtype(1), shape);
}

Status where_gradient(GradContext& c) {
  if (!c.needs(1) && !c.needs(2)) return {};
  ValueId zero = c.b.scalar(c.b.dtype(c.dy()), 0);
  if (c.needs(1)) c.set(1, c.b.op("Where", {c.input(0), c.dy(), zero}));
  if (c.needs(2)) c.set(2, c.b.op("Where", {c.input(0), zero, c.dy()}));
  return {};
}

OpDef plain(const char* name, int64_t since, std::vector<InputSpec> inputs, InferFn infer) {
  return {.name = name, .since = since, .inputs = std::move(inputs), .infer = infer, .no_gradient = kNotFloating, .layout = LayoutRule::kAny};
}

}  // namespace

std::span<const OpDef> logic_ops() {
  static const std::vector<InputSpec> pair = {{"A", Slot::kIndex}, {"B", Slot::kIndex}};
  static const std::vector<InputSpec> numbers = {{"A"}, {"B"}};
  static const std::vector<OpDef> ops = {
      plain("And", 7, pair, infer_logic),
      plain("Or", 7, pair, infer_logic),
      plain("Xor", 7, pair, infer_logic),
      plain("Not", 1, {{"X", Slot::kIndex}}, infer_logic),
      plain("BitwiseAnd", 18, pair, infer_bits),
      plain("BitwiseOr", 18, pair, infer_bits),
      plain("BitwiseXor", 18, pair, infer_bits),
      plain("BitwiseNot", 18, {{"X", Slot::kIndex}}, infer_bits),
      plain("BitShift", 11, pair, infer_bits),
      plain("Equal", 19, numbers, infer_compare),
      plain("Greater", 13, numbers, infer_compare),
      plain("Less", 13, numbers, infer_compare),
      plain("GreaterOrEqual", 16, numbers, infer_compare),
      plain("LessOrEqual", 16, numbers, infer_compare),
      plain("IsNaN", 20, {{"X"}}, infer_test),
      plain("IsInf", 20, {{"X"}}, infer_test),
      {.name = "Where", .since = 16, .inputs = {{"condition"}, {"X"}, {"Y"}}, .infer = infer_where, .gradient = where_gradient,
       .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
