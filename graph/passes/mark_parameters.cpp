// See mark_parameters.h.
#include "graph/passes/mark_parameters.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

struct Use {
  NodeId node;
  size_t input;
};

// How a constant is read, over all its uses.
struct Reading {
  bool weight = false;   // as a weight, whatever its size
  bool data = false;     // as data that a gradient exists for
  bool early = false;    // on the host or as an index
  std::vector<Use> states;
};

std::vector<Reading> read_slots(const Graph& graph) {
  std::vector<Reading> readings(static_cast<size_t>(graph.value_count()));
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    const OpDef* op = find_op(node.domain, node.op_type);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue || !op) continue;
      Reading& r = readings[static_cast<size_t>(node.inputs[i])];
      switch (slot_of(*op, static_cast<int>(i))) {
        case Slot::kWeight: r.weight |= op->gradient != nullptr; break;
        case Slot::kData: r.data |= op->gradient != nullptr; break;
        case Slot::kState: r.states.push_back({id, i}); break;
        case Slot::kHost:
        case Slot::kIndex: r.early = true; break;
      }
    }
  }
  return readings;
}

// Whether a node does nothing but bring its one operand into another form (Reshape of a weight): all other inputs are read early.
bool has_one_operand(const Node& node) {
  const OpDef* op = find_op(node.domain, node.op_type);
  int operands = 0;
  for (size_t i = 0; op && i < node.inputs.size(); ++i) {
    const Slot slot = slot_of(*op, static_cast<int>(i));
    operands += node.inputs[i] != kNoValue && slot != Slot::kHost && slot != Slot::kIndex;
  }
  return operands == 1;
}

// ConstantOfShape of a constant shape that stands for a weight or a running statistic becomes a tensor.
Status fill_constants(Graph& graph, const std::vector<Reading>& readings) {
  const auto uses = graph.uses();
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op_type != "ConstantOfShape" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    const Tensor* sizes = graph.constant(node.inputs[0]);
    const Tensor* fill = node.attributes.find<Tensor>("value");
    const ValueId out = node.outputs[0];
    if (!sizes || sizes->dtype() != DType::kInt64 || (fill && (!is_floating(fill->dtype()) || fill->element_count() != 1))) continue;
    const Reading& r = readings[static_cast<size_t>(out)];
    bool reformed = false;
    for (NodeId user : uses[static_cast<size_t>(out)]) reformed |= has_one_operand(graph.node(user));
    if (!r.weight && r.states.empty() && !(r.data && reformed)) continue;
    const Shape shape = sizes->to_ints();
    auto count = checked_element_count(shape);
    if (!count.ok()) return count.status().in(graph.label(id));
    if (*count > (int64_t{1} << 31)) return invalid(graph.label(id), ": a weight of shape ", to_string(shape), " is too large");
    Tensor content(fill ? fill->dtype() : DType::kFloat32, shape);
    if (fill)
      for (int64_t i = 0; i < *count; ++i) content.set(i, fill->at(0));
    graph.remove_node(id);
    Value& value = graph.value(out);
    value.role = Role::kConstant;
    value.dtype = content.dtype();
    value.shape = shape;
    value.has_shape = true;
    value.data = std::make_shared<const Tensor>(std::move(content));
  }
  return {};
}

bool all_equal(const Tensor& t) {
  for (int64_t i = 1; i < t.element_count(); ++i)
    if (t.at(i) != t.at(0)) return false;
  return true;
}

// Exporters that store equal tensors once write Identity(a) -> b for the others: a fresh batch normalisation's bias then doubles as its running
// mean, and all scales of one width as each other. Such a copy becomes a tensor of its own again, under its own name. A copy whose elements
// differ among themselves and that is read as a weight is left alone: that is a weight used twice, not an accident of initialisation.
void separate_copies(Graph& graph, const std::vector<Reading>& readings) {
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op_type != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    const Tensor* content = graph.constant(node.inputs[0]);
    const ValueId copy = node.outputs[0];
    if (!content || !is_floating(content->dtype()) || graph.is_output(copy)) continue;
    const Reading& r = readings[static_cast<size_t>(copy)];
    const bool only_state = !r.states.empty() && !r.weight && !r.data;
    if (!only_state && !all_equal(*content)) continue;
    const std::shared_ptr<const Tensor> shared = graph.value(node.inputs[0]).data;
    graph.remove_node(id);
    Value& value = graph.value(copy);
    value.role = Role::kConstant;
    value.dtype = shared->dtype();
    value.shape = shared->shape();
    value.has_shape = true;
    value.data = shared;
  }
}

// A bias of one element behind a product with one column: MatMul(x, W[K,1]) + b[1], as exporters write a dense layer with one output.
// Any other single element added to a tensor is a constant of a formula.
std::vector<char> single_biases(const Graph& graph) {
  std::vector<char> bias(static_cast<size_t>(graph.value_count()), 0);
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (!node.domain.empty() || node.op_type != "Add" || node.inputs.size() != 2) continue;
    for (size_t i = 0; i < 2; ++i) {
      const Tensor* b = graph.constant(node.inputs[i]);
      const NodeId product = node.inputs[1 - i] == kNoValue ? kNoNode : graph.value(node.inputs[1 - i]).producer;
      if (!b || b->shape().empty() || b->element_count() != 1 || product == kNoNode || graph.node(product).op_type != "MatMul") continue;
      const ValueId w = graph.node(product).inputs[1];
      const Tensor* weight = w == kNoValue ? nullptr : graph.value(w).data.get();
      if (weight && !weight->shape().empty() && weight->shape().back() == 1) bias[static_cast<size_t>(node.inputs[i])] = 1;
    }
  }
  return bias;
}

// The first reader keeps the value, each further one gets a copy (which shares the bytes).
void split_states(Graph& graph, ValueId v, const Reading& r) {
  const bool also_weight = r.weight || r.data || r.early;
  for (size_t i = 0; i < r.states.size(); ++i) {
    ValueId own = v;
    if (i > 0 || also_weight) {
      own = graph.add_tensor(graph.value(v).name, *graph.value(v).data, Role::kState);
      graph.node(r.states[i].node).inputs[r.states[i].input] = own;
    }
    graph.value(own).role = Role::kState;
  }
}

}  // namespace

Status mark_parameters(Graph& graph) {
  ENG_TRY(fill_constants(graph, read_slots(graph)));
  separate_copies(graph, read_slots(graph));
  const std::vector<Reading> readings = read_slots(graph);
  const std::vector<char> biases = single_biases(graph);
  const ValueId count = graph.value_count();
  for (ValueId v = 0; v < count; ++v) {
    const Value& value = graph.value(v);
    const Reading& r = readings[static_cast<size_t>(v)];
    if (value.role != Role::kConstant || !value.data || !is_floating(value.dtype)) continue;
    const bool several = !value.shape.empty() && value.data->element_count() > 1;
    const bool parameter = !r.early && (r.weight || (r.data && (several || biases[static_cast<size_t>(v)])));
    split_states(graph, v, r);
    if (parameter) graph.value(v).role = Role::kParameter;
  }
  return {};
}

}  // namespace eng
