// Reads ONNX files into graphs. This is an edge: every byte is taken as hostile, an error is a Status and names file, node or
// tensor; nothing outside the model's folder is opened. What comes back is in canonical form: nodes at kCanonicalOpset (adapters*.cpp),
// Constant nodes and sparse initializers turned into constant values, function bodies expanded where the operator is not known.
//
// External data is opened beneath the folder of the model file. Where the model's own path is a symlink, that is the folder of
// the file that it leads to; data files may not be reached through links at all unless allow_symlinks is set.
// Nodes whose operator is unknown are kept as they are: graph/passes/check_supported.h lists them all at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct ImportOptions {
  bool allow_symlinks = false;                   // external data may be reached through symlinks and hard links (model stores)
  std::vector<std::string>* warnings = nullptr;  // what was odd but not wrong (NaN weights, unused initializers), if wanted
};

Result<Graph> import_onnx(const std::string& path, const ImportOptions& options = {});
// The same from memory. model_folder is where external data may lie; "" allows none.
Result<Graph> import_onnx_bytes(const void* data, size_t size, const std::string& model_folder, const ImportOptions& options = {});

// One tensor from a file that holds a bare TensorProto (the inputs and outputs of ONNX's node tests).
Result<Tensor> read_tensor_proto(const std::string& path);

}  // namespace eng
