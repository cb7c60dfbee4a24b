// Frees a batch size that an exporter baked into the file: Reshape targets such as [1,2048] behind an input declared [1,3,224,224].
// The graph is inferred once at its own batch; every Reshape whose constant target begins with that batch, and whose data begins with it
// too, then copies the leading dimension (0 in ONNX's Reshape) instead of naming it.
#pragma once

#include "graph/ir/graph.h"
#include "graph/passes/bind_shapes.h"
#include "graph/passes/infer_shapes.h"

namespace eng {

// Does nothing where the batch is symbolic or `binding` asks for the declared one. Returns the number of Reshapes that were changed.
Result<int> free_batch(Graph& graph, const ShapeBinding& binding, const Evaluator& evaluator);

}  // namespace eng
