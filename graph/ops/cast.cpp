// Cast (opset 21), CastLike (19): y = x in another element type. Floating to integer cuts towards zero and stops at the ends of the
// range (NaN gives 0); to bool is x != 0. dx = dy, cast back by the walk. Types without arithmetic here (8-bit and smaller floats,
// 4- and 2-bit integers, strings) are refused by name.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status set_type(InferContext& c, DType to) {
  for (DType t : {c.dtype(0), to})
    if (size_of(t) == 0) return unsupported(c.graph().label(c.node()), ": element type ", name_of(t), " is not supported");
  return c.set_output(0, to, c.shape(0));
}

Status infer_cast(InferContext& c) {
  if (!c.attributes().has("to")) return c.error("the attribute 'to' is missing");
  return set_type(c, static_cast<DType>(c.attributes().get_int("to", 0)));
}
Status infer_cast_like(InferContext& c) { return set_type(c, c.dtype(1)); }

Status gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.dy());
  return {};
}

}  // namespace

std::span<const OpDef> cast_ops() {
  static const OpDef ops[] = {
      {.name = "Cast", .since = 21, .inputs = {{"input"}}, .infer = infer_cast, .gradient = gradient, .layout = LayoutRule::kAny},
      {.name = "CastLike", .since = 19, .inputs = {{"input"}, {"target_type", Slot::kIndex}}, .infer = infer_cast_like, .gradient = gradient,
       .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
