// Graph to ModelProto, shared by the two forms of export. Internal to importers/onnx.
#pragma once

#include <functional>

#include "graph/ir/graph.h"
#include "onnx/onnx_pb.h"

namespace eng {

// Writes the content of one initializer into its proto (in the file, or a reference to external data).
using TensorWriter = std::function<Status(const Tensor&, const std::string& name, onnx::TensorProto&)>;

Status build_model(const Graph& graph, const TensorWriter& write, onnx::ModelProto& model);
// Bytes of all initializers that build_model would write.
int64_t initializer_bytes(const Graph& graph);
// export_onnx with another limit: more bytes of weights than this go to a data file.
Status export_onnx_split(const Graph& graph, const std::string& path, int64_t inline_bytes);

}  // namespace eng
