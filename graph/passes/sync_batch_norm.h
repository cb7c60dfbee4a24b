// Batch normalisation over all shards of a batch (--sync-bn): every BatchNormTraining becomes plain operators whose sums go over the shards.
//   m = ShardSum(share mean(x)),  c = x - m,  v = ShardSum(share mean(c c)),  y = scale c / sqrt(v + epsilon) + B, then the ReLU where one was fused
// share is the shard's part of the batch (rows / all rows), so m and v are the batch's own. Running statistics take m and v. The gradient
// follows from the operators: the gradient of ShardSum is the ShardSum of the gradients.
#pragma once

#include "graph/ir/graph.h"

namespace eng {

// Before differentiation; shapes known. `share`: scalar graph input. Gives the number of nodes replaced.
Result<int> sync_batch_norm(Graph& graph, ValueId share);

}  // namespace eng
