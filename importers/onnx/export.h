// Writes a graph as an ONNX model. Constants, parameters and states become initializers with their `data`; inputs and outputs
// keep their declared dimensions. A step graph can be written too: each update's new value is an extra graph output, and the metadata
// entry "update:<state>" names it. Nodes of the domain ai.engine are written as they are, with an opset import for it.
#pragma once

#include <string>

#include "graph/ir/graph.h"

namespace eng {

// One self-contained model; an error where it would pass protobuf's 2 GiB.
Result<std::string> export_onnx_bytes(const Graph& graph);
// Writes path whole or not at all: a temporary file beside it, fsync, rename, fsync of the folder. Above 1.9 GiB the weights go to a new file
// "<file>.<number>.data" beside it: a data file that is there already is never written to. A symlink at path is replaced, not followed.
Status export_onnx(const Graph& graph, const std::string& path);

}  // namespace eng
