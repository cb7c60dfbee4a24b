// Two models side by side: what differs in inputs, outputs, nodes and weights. For engine-graph diff.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng::tools {

// One line a difference; empty: the same. Nodes are matched by name (by their first output where they have none), weights by name; of
// weights with the same shape the largest difference is given.
std::vector<std::string> differences(const Graph& a, const Graph& b);

// The graph as GraphViz DOT: nodes, edges with shapes where known; parameters are listed in their node.
std::string to_dot(const Graph& graph);
// The same as SVG, laid out in layers by distance from the inputs.
std::string to_svg(const Graph& graph);

}  // namespace eng::tools
