// ai.engine::Reorder: y = x in another memory layout (row-major to channels-last or back; which, the operands' strides say).
// The layout pass inserts it after differentiation, so it needs no gradient.
#include "graph/ops/op.h"

namespace eng {
namespace {

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> reorder_ops() {
  static const OpDef ops[] = {
      {.domain = kEngineDomain, .name = "Reorder", .inputs = {{"X"}}, .infer = infer_same_as_input,
       .no_gradient = "layouts are chosen after differentiation", .cost = cost, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
