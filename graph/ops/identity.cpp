// Identity (opset 1): y = x. The smallest operator file: copy it to start a new one. dx = dy.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.dy());
  return {};
}

}  // namespace

std::span<const OpDef> identity_ops() {
  static const OpDef ops[] = {
      {.name = "Identity", .since = 1, .inputs = {{"input"}}, .infer = infer_same_as_input, .gradient = gradient, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
