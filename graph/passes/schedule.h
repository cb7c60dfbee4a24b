// The order in which one device runs a step. Starts from the stored order and moves what ends a lifetime forward:
//  - updates run as soon as their gradient is there and everybody else has read the old content, so gradients die early and
//    the update can be made in place;
//  - of the nodes of one gradient rule, those that free more than they make come first (a weight's gradient before an input's).
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// Shapes must be known. Every live node once, producers first.
Result<std::vector<NodeId>> schedule(const Graph& graph);

}  // namespace eng
