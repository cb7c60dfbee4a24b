// A node as text, as far as a kernel's work depends on it: operator, version, attributes, types, shapes, layouts and which inputs are known
// beforehand. Two nodes of equal signature take the same time on the same device, in whatever graph and process they are.
#pragma once

#include <string>

#include "graph/ir/graph.h"

namespace eng {

// Shapes must be known. Short texts are readable; constants of more than 64 bytes count by their checksum.
std::string node_signature(const Graph& graph, const Node& node);

}  // namespace eng
