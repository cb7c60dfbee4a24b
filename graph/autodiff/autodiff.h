// Reverse-mode differentiation of a graph by walking it backwards and asking each operator's rule for nodes.
// What every rule would otherwise repeat is done here once: summing broadcast axes away, adding up the gradients of several
// uses, pruning what no wanted gradient needs, casting back. The walk knows no operator by name.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// Appends to `graph` (shapes inferred, acyclic) the nodes that compute d loss / d w for each w of `wanted`; `loss` must
// hold one element. Returns one value per wanted, of w's shape, kNoValue where the loss does not depend on w.
// Errors: all nodes without a gradient that stand between a wanted value and the loss, in one message, with the reasons.
Result<std::vector<ValueId>> differentiate(Graph& graph, ValueId loss, const std::vector<ValueId>& wanted);

// The same from given output gradients (one per output value; kNoValue: zero), for gradient checks and ONNX's Gradient.
Result<std::vector<ValueId>> differentiate_from(Graph& graph, const std::vector<ValueId>& outputs,
                                                const std::vector<ValueId>& output_gradients, const std::vector<ValueId>& wanted);

// One node that stops gradients between the wanted values and the targets.
struct Blocker {
  NodeId node;
  std::string reason;
};
std::vector<Blocker> find_blockers(const Graph& graph, const std::vector<ValueId>& targets, const std::vector<ValueId>& wanted);

}  // namespace eng
