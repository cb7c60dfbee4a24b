// The parts of build_training_step that make a step a shard's: the loss scaled by the shard's share, random bits of its own, and the scaled
// running statistics as results. build_update_step (training_step.h) is in the same file.
#pragma once

#include "graph/ir/graph.h"
#include "graph/surgery/training_step.h"

namespace eng {

// Before differentiation: adds the inputs `share` and `random_offset`; returns share * loss, the value to differentiate.
Result<ValueId> open_shard(Graph& graph, ValueId loss, Step& step);
// After it: each of step.gradients and step.statistics becomes an output that a node of its own makes; the graph has no updates any more.
Status close_shard(Graph& graph, Step& step);

}  // namespace eng
