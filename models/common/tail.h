// What both generators do outside of their network: the graph's inputs and outputs, a dense layer, and writing the file with
// errors as the commands give them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "importers/onnx/export.h"
#include "models/common/initialise.h"

namespace eng::models {

inline constexpr int64_t kSymbolicBatch = 0;

// A float32 graph input or output whose first dimension is the batch: a number, or the symbol N for kSymbolicBatch.
inline void declare(Graph& graph, ValueId id, int64_t batch, const Shape& rest) {
  Value& v = graph.value(id);
  v.dtype = DType::kFloat32;
  v.declared_dims = {batch == kSymbolicBatch ? -1 : batch};
  v.declared_dim_names = {batch == kSymbolicBatch ? "N" : ""};
  for (int64_t d : rest) {
    v.declared_dims.push_back(d);
    v.declared_dim_names.emplace_back();
  }
}

inline ValueId add_input(Graph& graph, const std::string& name, int64_t batch, const Shape& rest) {
  const ValueId id = graph.add_value(name, DType::kFloat32);
  graph.value(id).role = Role::kInput;
  declare(graph, id, batch, rest);
  graph.inputs.push_back(id);
  return id;
}

// A node with one float32 output `name`; the node has the same name.
inline ValueId add_named_node(Graph& graph, const std::string& op_type, std::vector<ValueId> inputs, const std::string& name,
                              Attributes attributes = {}) {
  const ValueId out = graph.add_value(name, DType::kFloat32);
  Node node;
  node.op_type = op_type;
  node.name = name;
  node.inputs = std::move(inputs);
  node.outputs = {out};
  node.attributes = std::move(attributes);
  graph.add_node(std::move(node));
  return out;
}

// x [N, in] -> x * kernel [in, out] + bias [out].
inline ValueId dense(Graph& graph, Random& random, ValueId x, int64_t in, int64_t out, const std::string& name) {
  const ValueId kernel = graph.add_tensor(name + "/kernel", glorot_uniform(random, {in, out}, in, out), Role::kParameter);
  const ValueId bias = graph.add_tensor(name + "/bias", filled({out}, 0), Role::kParameter);
  return add_named_node(graph, "Gemm", {x, kernel, bias}, name);
}

// Checks and writes the graph; prints the error to stderr and returns the exit status.
inline int finish(const Graph& graph, const std::string& path) {
  Status status = verify(graph);
  if (status.ok()) status = export_onnx(graph, path);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return exit_status(status.code());
}

}  // namespace eng::models
