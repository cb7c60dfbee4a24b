// Everything in a graph that the engine cannot run, found before anything is tried: nodes whose operator is not in the catalogue, tensors of
// element types that are not computed with, inputs that are not tensors.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// One line a finding, in node order: operator, domain, opset, the node's name or (where it has none) its first output.
std::vector<std::string> unsupported_nodes(const Graph& graph);

// The same as one error, all lines in it; fine where there are none.
Status check_supported(const Graph& graph);

}  // namespace eng
