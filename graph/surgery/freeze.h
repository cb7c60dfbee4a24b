// Freezing: which parameters a training step leaves alone.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// Marks as frozen every parameter whose name, or the name of a node that reads it, matches one of the globs (graph/base/glob.h).
// Batch normalisations whose scale and bias are frozen then keep their running statistics (Keras's rule for frozen layers).
// Returns the frozen names in graph order. A glob that matches nothing is an error that lists some parameter names.
Result<std::vector<std::string>> freeze(Graph& graph, const std::vector<std::string>& globs);

// All parameters train again.
void unfreeze_all(Graph& graph);

}  // namespace eng
