// ai.engine::BatchNormTraining followed by a Relu that alone reads it becomes one node with activation="Relu". Run before
// differentiation, so that the gradient is the fused one too, which recomputes the mask and needs neither intermediate.
#pragma once

#include "graph/ir/graph.h"

namespace eng {

// Returns the number of fused pairs.
int fuse_batch_norm_relu(Graph& graph);

}  // namespace eng
