// What the graph side knows of one operator: inputs and their meaning, shape inference, gradient rule, cost, layout.
// An operator (or a family whose members differ in a table row) is one file graph/ops/<stem>.cpp that defines
// `std::span<const OpDef> <stem>_ops()`, named once in catalogue.cpp. Nothing else in graph/ knows an operator by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/ir/graph.h"

namespace eng {

// ---- shape inference --------------------------------------------------------------------------------------------------

// One node whose inputs have known types and shapes. infer() must set type and shape of every output that is wanted.
// Errors name the node (error() does), the input, what came and what was wanted.
class InferContext {
 public:
  InferContext(Graph& graph, NodeId node) : graph_(graph), id_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return graph_.node(id_); }
  const Attributes& attributes() const { return node().attributes; }
  int input_count() const { return static_cast<int>(node().inputs.size()); }
  int output_count() const { return static_cast<int>(node().outputs.size()); }
  bool has_input(int i) const { return i < input_count() && node().inputs[static_cast<size_t>(i)] != kNoValue; }
  bool has_output(int i) const { return i < output_count() && node().outputs[static_cast<size_t>(i)] != kNoValue; }
  DType dtype(int i) const { return graph_.value(node().inputs[static_cast<size_t>(i)]).dtype; }
  const Shape& shape(int i) const { return graph_.value(node().inputs[static_cast<size_t>(i)]).shape; }
  int64_t rank(int i) const { return static_cast<int64_t>(shape(i).size()); }
  // Content of input i where it is known before the step runs, else null.
  const Tensor* constant(int i) const { return has_input(i) ? graph_.constant(node().inputs[static_cast<size_t>(i)]) : nullptr; }
  // Integers of input i (shape, axes, pads, ...); an error "input 'axes' must be known before the step" where it is not constant.
  Result<std::vector<int64_t>> constant_ints(int i, const char* input_name) const;

  // Does nothing where output i is omitted. Refuses shapes whose element count overflows.
  Status set_output(int i, DType type, Shape shape);
  // Output i is known already (Shape, Size, ...): it becomes a constant and the node is dropped by the folding pass.
  Status set_constant_output(int i, Tensor content);
  Status error(const std::string& what) const;  // kInvalid, "Conv 'name': what"

 private:
  Graph& graph_;
  NodeId id_;
};

// ---- gradients --------------------------------------------------------------------------------------------------------

// Appends nodes whose shapes are inferred at once. Every new node gets the builder's phase and forward node.
// A failing inference is our own bug or a graph that cannot exist; it is kept as the first error and reported by status().
class Builder {
 public:
  explicit Builder(Graph& graph, Phase phase = Phase::kForward, NodeId forward_node = kNoNode)
      : graph_(graph), phase_(phase), forward_node_(forward_node) {}

  Graph& graph() { return graph_; }
  const Status& status() const { return status_; }
  void set_origin(Phase phase, NodeId forward_node) { phase_ = phase; forward_node_ = forward_node; }
  void set_name_hint(const std::string& hint) { hint_ = hint; }  // outputs of the following nodes are named after it

  // ONNX's own operator at the canonical opset, or (op_in_engine) one of domain ai.engine. One output.
  ValueId op(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes = {});
  ValueId engine_op(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes = {});
  // Several outputs; where wanted[i] is false output i is omitted (kNoValue).
  std::vector<ValueId> ops(const std::string& domain, const std::string& op_type, std::vector<ValueId> inputs,
                           const std::vector<bool>& wanted, Attributes attributes = {});
  ValueId scalar(DType type, double value);            // rank-0 constant
  ValueId ints(const std::vector<int64_t>& values);    // rank-1 int64 constant
  ValueId constant(Tensor content);
  ValueId zeros_like(ValueId v);                       // constant zeros of v's type and shape
  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  // Sum of `v` over the axes along which `shape` was broadcast to v's shape, reshaped to `shape`.
  ValueId sum_to(ValueId v, const Shape& shape);

 private:
  Graph& graph_;
  Phase phase_;
  NodeId forward_node_;
  std::string hint_;
  Status status_;
};

// One forward node; the rule calls set() for each input for which needs() holds, or leaves it (zero gradient).
// A gradient may have the broadcast shape of the output: the walk sums it down to the input's shape.
class GradContext {
 public:
  GradContext(Builder& builder, NodeId node, std::vector<ValueId> output_gradients, std::vector<bool> needed)
      : b(builder), id_(node), dy_(std::move(output_gradients)), needed_(std::move(needed)), dx_(needed_.size(), kNoValue) {}

  Builder& b;
  const Graph& graph() const { return b.graph(); }
  const Node& node() const { return b.graph().node(id_); }
  const Attributes& attributes() const { return node().attributes; }
  int input_count() const { return static_cast<int>(node().inputs.size()); }
  int output_count() const { return static_cast<int>(node().outputs.size()); }
  bool has_input(int i) const { return i < input_count() && input(i) != kNoValue; }
  ValueId input(int i = 0) const { return i < input_count() ? node().inputs[static_cast<size_t>(i)] : kNoValue; }
  ValueId output(int i = 0) const { return i < output_count() ? node().outputs[static_cast<size_t>(i)] : kNoValue; }
  // A copy, because building nodes moves the graph's values.
  Shape shape(int i) const { return b.graph().value(input(i)).shape; }
  const Tensor* constant(int i) const { return b.graph().constant(input(i)); }
  // Gradient of the loss by output i; kNoValue where it is zero (not on the way to the loss).
  ValueId dy(int i = 0) const { return i < static_cast<int>(dy_.size()) ? dy_[static_cast<size_t>(i)] : kNoValue; }
  bool needs(int i) const { return i < static_cast<int>(needed_.size()) && needed_[static_cast<size_t>(i)]; }
  void set(int i, ValueId gradient) { dx_[static_cast<size_t>(i)] = gradient; }
  const std::vector<ValueId>& results() const { return dx_; }

 private:
  NodeId id_;
  std::vector<ValueId> dy_;
  std::vector<bool> needed_;
  std::vector<ValueId> dx_;
};

// ---- the description --------------------------------------------------------------------------------------------------

// What an input is for, which decides what may be trained and what must be known early.
enum class Slot : uint8_t {
  kData,       // differentiable; a float initializer here with rank >= 1 and more than one element is a parameter
  kWeight,     // differentiable; a float initializer here is a parameter, whatever its size
  kState,      // not trained by gradient (running mean and variance, sequence lengths)
  kHost,       // must be constant when the step is compiled (shapes, axes, pads, scales); read on the host
  kIndex,      // integers that may vary by step (indices, labels); no gradient
};

struct InputSpec {
  const char* name;
  Slot slot = Slot::kData;
  bool optional = false;
};

enum class LayoutRule : uint8_t {
  kRowMajor,      // operands row-major
  kAny,           // elementwise: any layout, all operands of full rank in the same one
  kChannelsLast,  // rank 3-5 data operands and results are best channels-last (convolution, pooling, normalisation)
};

struct Cost {
  double flops = 0;  // a multiply-add counts 2
  double bytes = 0;  // read + written; 0: the sum of inputs and outputs is taken
};

using InferFn = Status (*)(InferContext&);
using GradFn = Status (*)(GradContext&);
using CostFn = Cost (*)(const Graph&, const Node&);

struct OpDef {
  const char* domain = "";
  const char* name = "";
  int64_t since = 1;                       // the version of the canonical form: highest opset <= kCanonicalOpset that changed it
  std::vector<InputSpec> inputs;           // the last one repeats where variadic
  bool variadic = false;
  int min_outputs = 1, max_outputs = 1;    // max_outputs -1: any number
  InferFn infer = nullptr;
  GradFn gradient = nullptr;
  const char* no_gradient = nullptr;       // why there is none; exactly one of gradient and no_gradient is set
  CostFn cost = nullptr;                   // null: elementwise, one flop an output element
  LayoutRule layout = LayoutRule::kRowMajor;
  bool stochastic = false;                 // takes random state; never folded
  bool by_executor = false;                // no kernel: the executor does it between kernels (graph/ops/transfer.cpp)
  uint64_t row_major_outputs = 0;          // kChannelsLast: bit i: output i lies like a weight, row-major (a weight's gradient)
  // Whether the op stands for integer/bool computation only (no gradient is asked for, none is blocked): Shape, Not, ...
};

// null where the operator is not supported.
const OpDef* find_op(const std::string& domain, const std::string& op_type);
// Every operator, ordered by domain then name. Built on first use; thread-safe afterwards.
const std::vector<const OpDef*>& all_ops();
// The slot of input i of a node (variadic inputs repeat the last).
Slot slot_of(const OpDef& op, int input);
// Types and shapes of the node's outputs from those of its inputs; an unknown operator and a missing required input are
// errors too. Input shapes must be known.
Status infer_node(Graph& graph, NodeId node);
Cost cost_of(const Graph& graph, const Node& node);

// ---- helpers shared by rules -------------------------------------------------------------------------------------------

Status infer_same_as_input(InferContext& c);         // output 0 has input 0's type and shape
Status infer_broadcast(InferContext& c);             // output 0 has the broadcast shape of all inputs, input 0's type

}  // namespace eng
