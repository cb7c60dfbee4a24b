// What joins the programs of several devices. These nodes have no kernels: the executor (engine/exec) does their work between kernels.
//   ai.engine::Send(x) -> s        on x's device: s is x, known to be complete and kept until the step is over
//   ai.engine::Recv(s) -> y        on the reader's device: y = s, copied where the devices do not see each other's memory
//   ai.engine::ShardSum(x) -> y    y = the sum of every shard's x by the fixed tree; each shard reads all of y, so dx = ShardSum(dy)
// Send and Recv are put in by graph/partition/cut.h, ShardSum by graph/passes/sync_batch_norm.h.
#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr const char* kPlaced = "it is put in after differentiation";

Status shard_sum_gradient(GradContext& c) {
  if (c.needs(0) && c.dy() != kNoValue) c.set(0, c.b.engine_op("ShardSum", {c.dy()}));
  return {};
}

}  // namespace

std::span<const OpDef> transfer_ops() {
  static const OpDef ops[] = {
      {.domain = kEngineDomain, .name = "Send", .inputs = {{"x", Slot::kState}}, .infer = infer_same_as_input, .no_gradient = kPlaced,
       .layout = LayoutRule::kAny, .stochastic = true, .by_executor = true},
      {.domain = kEngineDomain, .name = "Recv", .inputs = {{"s", Slot::kState}}, .infer = infer_same_as_input, .no_gradient = kPlaced,
       .layout = LayoutRule::kAny, .stochastic = true, .by_executor = true},
      {.domain = kEngineDomain, .name = "ShardSum", .inputs = {{"x"}}, .infer = infer_same_as_input, .gradient = shard_sum_gradient,
       .layout = LayoutRule::kRowMajor, .stochastic = true, .by_executor = true},
  };
  return ops;
}

}  // namespace eng
