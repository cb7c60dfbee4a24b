// A checked ModelProto becomes a Graph: every value keeps its name, Constant nodes and sparse initializers become constants, every node
// is raised to canonical form (adapters.h), functions of the model are expanded, and so are operators that the catalogue does
// not know but whose schema has a body of known ones (functions.cpp). Internal to importers/onnx.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/ir/graph.h"
#include "importers/onnx/limits.h"
#include "importers/onnx/tensor_proto.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace eng {

class OnnxConverter {
 public:
  // `model` gives up its tensors. Both must outlive the converter.
  OnnxConverter(onnx::ModelProto& model, ExternalData& external) : model_(model), external_(external) {}
  Result<Graph> run();
  std::vector<std::string> warnings;

 private:
  using Opsets = std::map<std::string, int64_t>;
  using Arguments = std::map<std::string, const onnx::AttributeProto*>;
  // Where names are looked up: a graph, a sub-graph inside `outer`, or the body of a function (which sees nothing outside).
  struct Scope {
    Graph& graph;
    Opsets opsets = {};
    Scope* outer = nullptr;
    std::string prefix = {};                     // of names made in the body of a function
    const Arguments* arguments = nullptr;   // attributes of the call, in the body of a function
    std::unordered_map<std::string, ValueId> results = {};  // outputs of the function -> values of the caller
    std::unordered_map<std::string, ValueId> names = {};
    int function_depth = 0;
  };

  // convert_graph.cpp
  Status convert_graph(const onnx::GraphProto& proto, Scope& scope);
  Status add_initializers(const onnx::GraphProto& proto, Scope& scope);
  Status add_inputs(const onnx::GraphProto& proto, Scope& scope);
  Status set_outputs(const onnx::GraphProto& proto, Scope& scope);
  Status read_dims(const onnx::ValueInfoProto& info, Value& value);
  Status check_unused(const onnx::GraphProto& graph);       // tensors in parts that are not converted are checked all the same
  Status check_unused(const onnx::AttributeProto& attribute);
  void infer_dims();
  void warn_not_finite(const std::string& name, const Tensor& tensor);
  std::optional<std::vector<int64_t>> dims_of(const Graph& graph, ValueId v) const;

  // convert_node.cpp
  Status emit(const onnx::NodeProto& proto, Scope& scope);
  Status emit_constant(const onnx::NodeProto& proto, Scope& scope);
  Status read_constant(const onnx::AttributeProto& attribute, Tensor& out);
  Status read_attributes(const onnx::NodeProto& proto, Scope& scope, Attributes& out);
  Result<Attribute> read_attribute(const onnx::AttributeProto& proto, Scope& scope);
  Result<ValueId> find(const std::string& name, Scope& scope);
  ValueId output(const std::string& name, Scope& scope);
  void set_types(const onnx::NodeProto& proto, const onnx::OpSchema& schema, Graph& graph, const Node& node);
  // The attribute itself, what the call gives for it inside a function, or null where the call leaves it out.
  static const onnx::AttributeProto* resolve(const onnx::AttributeProto& attribute, const Scope& scope);

  // functions.cpp
  const onnx::FunctionProto* local_function(const onnx::NodeProto& proto) const;
  Status expand_local(const onnx::FunctionProto& function, const onnx::NodeProto& call, Scope& scope);
  // False where the operator has no body, or one that leads to operators that are not known either.
  Result<bool> expand_schema(const onnx::OpSchema& schema, int64_t version, const onnx::NodeProto& call, Scope& scope);
  Status expand(const onnx::FunctionProto& function, const Arguments& arguments, const onnx::NodeProto& call, Scope& scope);

  onnx::ModelProto& model_;
  ExternalData& external_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_map<std::string, std::vector<int64_t>> inferred_;  // of the main graph, where an adapter needs ranks
  int64_t emitted_ = 0, sparse_budget_ = onnx_limits::kSparseBytes;
  int64_t newest_opset_ = kCanonicalOpset;
};

}  // namespace eng
