// The graph: values (tensors with a name, type, shape and role) and nodes (operator applications). Pure data: it knows no
// operator, device or file format. Ids are indices and stay valid until compact(); a removed node is only marked.
// A training step is one graph too: gradients and optimiser updates are nodes, and `updates` says which value a parameter,
// running statistic or optimiser slot takes when the step is over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/tensor.h"
#include "graph/ir/attribute.h"

namespace eng {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an omitted optional input or output
inline constexpr NodeId kNoNode = -1;

// What a value is for. kConstant, kParameter and kState have no producer and carry their first content in `data`.
enum class Role : uint8_t {
  kActivation,  // made by a node
  kInput,       // fed at each step
  kConstant,    // never changes
  kParameter,   // a weight: trained, unless frozen
  kState,       // kept from step to step and not trained by gradient: running statistics, optimiser slots, random state
};

// How a value lies in memory; its shape is always the logical (ONNX) one. See graph/passes/assign_layouts.h.
enum class Layout : uint8_t { kRowMajor, kChannelsLast };

// Which part of a step a node belongs to.
enum class Phase : uint8_t { kForward, kLoss, kBackward, kUpdate };

struct Value {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;             // meaningful where has_shape
  bool has_shape = false;
  Role role = Role::kActivation;
  Layout layout = Layout::kRowMajor;
  bool frozen = false;     // a parameter that is not to be trained
  std::shared_ptr<const Tensor> data;  // content of constants, first content of parameters and states; else null
  // For graph inputs and outputs: the file's dimensions, -1 with a name (or empty) where symbolic. Kept for re-export.
  std::vector<int64_t> declared_dims;
  std::vector<std::string> declared_dim_names;
  NodeId producer = kNoNode;
  int32_t producer_output = 0;
  std::string doc;
};

struct Node {
  std::string domain;  // "" is ONNX's own; "ai.engine" ours (gradients, losses, updates)
  std::string op_type;
  std::string name;    // may be empty; label() never is
  std::string doc;
  std::vector<ValueId> inputs, outputs;  // kNoValue where omitted
  Attributes attributes;
  Phase phase = Phase::kForward;
  NodeId forward_node = kNoNode;  // for a backward node: the forward node whose gradient it helps to compute
  int32_t place = -1;             // which of the step's devices runs it; -1: not decided (one device: without meaning)
  bool removed = false;
};

inline constexpr const char* kEngineDomain = "ai.engine";
// The opset whose forms nodes have in memory: importers raise older nodes to it (axes as inputs, ...).
inline constexpr int64_t kCanonicalOpset = 21;

class Graph {
 public:
  std::string name = "graph";
  std::string doc;
  std::map<std::string, int64_t> opsets{{"", kCanonicalOpset}};  // domain -> version, as re-exported
  std::map<std::string, int64_t> file_opsets;  // as the file declared them, for messages; empty where there was no file
  int64_t ir_version = 10;
  std::map<std::string, std::string> metadata;
  std::string producer_name, producer_version, model_domain;
  int64_t model_version = 0;
  std::vector<ValueId> inputs, outputs;
  // After a step, `first` takes the content of `second`. `second` is made by a node of the graph.
  std::vector<std::pair<ValueId, ValueId>> updates;

  // A new value; an empty or taken name is made unique ("name", "name_1", ...).
  ValueId add_value(const std::string& wanted_name, DType dtype = DType::kUndefined);
  ValueId add_value(const std::string& wanted_name, DType dtype, Shape shape);
  // A value with content; role is kConstant, kParameter or kState.
  ValueId add_tensor(const std::string& wanted_name, Tensor content, Role role);
  // Appends a node that makes `outputs` (their producer is set).
  NodeId add_node(Node node);
  // Appends a node with `output_count` new outputs named after `name_hint`.
  NodeId add_node(const std::string& domain, const std::string& op_type, std::vector<ValueId> inputs, int output_count,
                  Attributes attributes = {}, const std::string& name_hint = "");

  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  int32_t value_count() const { return static_cast<int32_t>(values_.size()); }
  int32_t node_count() const { return static_cast<int32_t>(nodes_.size()); }  // removed ones included
  ValueId find_value(const std::string& name) const;  // kNoValue where there is none
  bool is_output(ValueId id) const;

  void remove_node(NodeId id);  // its outputs stay as values without a producer
  // Every use of `from` (node inputs, graph outputs, second of updates) becomes `to`.
  void replace_uses(ValueId from, ValueId to);
  void rename_value(ValueId id, const std::string& new_name);  // the name must be free
  // For each value the live nodes that read it, in node order, once per use.
  std::vector<std::vector<NodeId>> uses() const;
  // Live nodes, producers first; ties keep node order. An error names the nodes of a cycle.
  Result<std::vector<NodeId>> topological_order() const;
  // Live nodes in stored order.
  std::vector<NodeId> live_nodes() const;
  // Drops removed nodes and renumbers the rest in topological order; values keep their ids.
  Status compact();
  // The same in the given order, which holds every live node once, producers first.
  void renumber(const std::vector<NodeId>& order);
  // "Conv 'block1/conv'", or "Conv with output 'x'" where the node has no name.
  std::string label(NodeId id) const;
  std::string label(const Node& node) const;

  // Content of a constant (not of parameters or states); null otherwise.
  const Tensor* constant(ValueId id) const;

 private:
  std::string unique_name(const std::string& wanted);
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, ValueId> by_name_;
  std::unordered_map<std::string, int64_t> next_suffix_;
};

// Structure: ids in range, one producer per value, outputs produced, no cycle, no value both given and produced.
Status verify(const Graph& graph);
// One line a node, for people and for tests.
std::string print(const Graph& graph);

}  // namespace eng
