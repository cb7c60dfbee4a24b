// See fuse_batch_norm_relu.h.
#include "graph/passes/fuse_batch_norm_relu.h"

namespace eng {

int fuse_batch_norm_relu(Graph& g) {
  const auto uses = g.uses();
  int fused = 0;
  for (NodeId n : g.live_nodes()) {
    if (g.node(n).domain != kEngineDomain || g.node(n).op_type != "BatchNormTraining" || g.node(n).attributes.has("activation")) continue;
    const ValueId y = g.node(n).outputs[0];
    if (y == kNoValue || g.is_output(y) || uses[static_cast<size_t>(y)].size() != 1) continue;
    const NodeId relu = uses[static_cast<size_t>(y)][0];
    if (!g.node(relu).domain.empty() || g.node(relu).op_type != "Relu") continue;
    const ValueId result = g.node(relu).outputs[0];
    g.remove_node(relu);
    Node& norm = g.node(n);  // keeps its place; its output is now the Relu's, so that readers and the output's name stay
    norm.outputs[0] = result;
    norm.attributes.set("activation", std::string("Relu"));
    g.value(result).producer = n;
    g.value(result).producer_output = 0;
    g.value(y).producer = kNoNode;
    ++fused;
  }
  return fused;
}

}  // namespace eng
