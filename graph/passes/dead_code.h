// Removes nodes that nothing wanted depends on. Wanted are the graph's outputs, its updates and `extra`.
#pragma once

#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// Returns the number of removed nodes.
Result<int> dead_code(Graph& graph, const std::vector<ValueId>& extra = {});

}  // namespace eng
