// Gives every value its type and shape, front to back, and folds what is known before the step runs: nodes whose inputs are
// all constants are evaluated and dropped, so that shape arithmetic (Shape, Gather, Concat, ... into Reshape) disappears.
// Parameters and states are not constants. The evaluator runs one node on host tensors; graph/ has no kernels of its own, the
// engine passes one that uses the CPU backend (engine/exec/evaluate.h). Without one, only what inference itself knows is folded.
#pragma once

#include <functional>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

using Evaluator = std::function<Result<std::vector<Tensor>>(const Graph&, NodeId, const std::vector<Tensor>& inputs)>;

// Graph inputs must have shapes (graph/passes/bind_shapes.h). Errors of several independent nodes are reported together.
Status infer_shapes(Graph& graph, const Evaluator& evaluator = nullptr);

}  // namespace eng
