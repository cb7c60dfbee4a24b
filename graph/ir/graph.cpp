// See graph.h.
#include "graph/ir/graph.h"

#include <algorithm>
#include <queue>

namespace eng {

std::string Graph::unique_name(const std::string& wanted) {
  const std::string base = wanted.empty() ? "t" : wanted;
  if (!wanted.empty() && !by_name_.count(base)) return base;
  int64_t& suffix = next_suffix_[base];
  std::string candidate;
  do candidate = base + "_" + std::to_string(++suffix);
  while (by_name_.count(candidate));
  return candidate;
}

ValueId Graph::add_value(const std::string& wanted_name, DType dtype) {
  Value v;
  v.name = unique_name(wanted_name);
  v.dtype = dtype;
  ValueId id = value_count();
  by_name_[v.name] = id;
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::add_value(const std::string& wanted_name, DType dtype, Shape shape) {
  ValueId id = add_value(wanted_name, dtype);
  value(id).shape = std::move(shape);
  value(id).has_shape = true;
  return id;
}

ValueId Graph::add_tensor(const std::string& wanted_name, Tensor content, Role role) {
  ValueId id = add_value(wanted_name, content.dtype(), content.shape());
  value(id).role = role;
  value(id).data = std::make_shared<const Tensor>(std::move(content));
  return id;
}

NodeId Graph::add_node(Node node) {
  NodeId id = node_count();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    value(node.outputs[i]).producer = id;
    value(node.outputs[i]).producer_output = static_cast<int32_t>(i);
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::add_node(const std::string& domain, const std::string& op_type, std::vector<ValueId> inputs, int output_count,
                       Attributes attributes, const std::string& name_hint) {
  Node n;
  n.domain = domain;
  n.op_type = op_type;
  n.name = name_hint;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
  for (int i = 0; i < output_count; ++i) n.outputs.push_back(add_value(name_hint.empty() ? op_type : name_hint));
  return add_node(std::move(n));
}

ValueId Graph::find_value(const std::string& wanted) const {
  auto it = by_name_.find(wanted);
  return it == by_name_.end() ? kNoValue : it->second;
}

bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }

void Graph::remove_node(NodeId id) {
  Node& n = node(id);
  n.removed = true;
  for (ValueId v : n.outputs)
    if (v != kNoValue && value(v).producer == id) value(v).producer = kNoNode;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& n : nodes_)
    if (!n.removed) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
  for (auto& u : updates)
    if (u.second == from) u.second = to;
}

void Graph::rename_value(ValueId id, const std::string& new_name) {
  by_name_.erase(value(id).name);
  value(id).name = new_name;
  by_name_[new_name] = id;
}

std::vector<std::vector<NodeId>> Graph::uses() const {
  std::vector<std::vector<NodeId>> out(values_.size());
  for (NodeId n = 0; n < node_count(); ++n) {
    if (node(n).removed) continue;
    for (ValueId v : node(n).inputs)
      if (v != kNoValue) out[static_cast<size_t>(v)].push_back(n);
  }
  return out;
}

std::vector<NodeId> Graph::live_nodes() const {
  std::vector<NodeId> out;
  for (NodeId n = 0; n < node_count(); ++n)
    if (!node(n).removed) out.push_back(n);
  return out;
}

Result<std::vector<NodeId>> Graph::topological_order() const {
  std::vector<int32_t> waiting(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> consumers(nodes_.size());
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  size_t live = 0;
  for (NodeId n = 0; n < node_count(); ++n) {
    if (node(n).removed) continue;
    ++live;
    for (ValueId v : node(n).inputs) {
      if (v == kNoValue) continue;
      NodeId p = value(v).producer;
      if (p == kNoNode) continue;
      consumers[static_cast<size_t>(p)].push_back(n);
      ++waiting[static_cast<size_t>(n)];
    }
    if (waiting[static_cast<size_t>(n)] == 0) ready.push(n);
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    NodeId n = ready.top();
    ready.pop();
    order.push_back(n);
    for (NodeId c : consumers[static_cast<size_t>(n)])
      if (--waiting[static_cast<size_t>(c)] == 0) ready.push(c);
  }
  if (order.size() == live) return order;
  std::string names;
  int shown = 0;
  for (NodeId n = 0; n < node_count() && shown < 8; ++n)
    if (!node(n).removed && waiting[static_cast<size_t>(n)] > 0) names += (shown++ ? ", " : "") + label(n);
  return invalid("the graph has a cycle; it runs through or feeds: ", names);
}

Status Graph::compact() {
  ENG_ASSIGN(std::vector<NodeId> order, topological_order());
  renumber(order);
  return {};
}

void Graph::renumber(const std::vector<NodeId>& order) {
  std::vector<NodeId> renumbered(nodes_.size(), kNoNode);
  std::vector<Node> kept;
  kept.reserve(order.size());
  for (NodeId n : order) {
    renumbered[static_cast<size_t>(n)] = static_cast<NodeId>(kept.size());
    kept.push_back(std::move(node(n)));
  }
  nodes_ = std::move(kept);
  for (Node& n : nodes_)
    if (n.forward_node != kNoNode) n.forward_node = renumbered[static_cast<size_t>(n.forward_node)];
  for (Value& v : values_)
    if (v.producer != kNoNode) v.producer = renumbered[static_cast<size_t>(v.producer)];
}

// A name may hold line ends and tabs; in a message they would look like lines of its own.
static std::string on_one_line(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else out += c;
  }
  return out;
}

std::string Graph::label(NodeId id) const { return label(node(id)); }

std::string Graph::label(const Node& n) const {
  const std::string op = on_one_line((n.domain.empty() ? "" : n.domain + "::") + n.op_type);
  if (!n.name.empty()) return op + " '" + on_one_line(n.name) + "'";
  for (ValueId v : n.outputs)
    if (v != kNoValue) return op + " with output '" + on_one_line(value(v).name) + "'";
  return op + " without outputs";
}

const Tensor* Graph::constant(ValueId id) const {
  if (id == kNoValue || value(id).role != Role::kConstant) return nullptr;
  return value(id).data.get();
}

Status verify(const Graph& g) {
  std::vector<char> produced(static_cast<size_t>(g.value_count()), 0);
  auto in_range = [&](ValueId v) { return v >= 0 && v < g.value_count(); };
  for (NodeId n : g.live_nodes()) {
    for (ValueId v : g.node(n).inputs)
      if (v != kNoValue && !in_range(v)) return internal_error(g.label(n), " reads a value that does not exist");
    for (ValueId v : g.node(n).outputs) {
      if (v == kNoValue) continue;
      if (!in_range(v)) return internal_error(g.label(n), " writes a value that does not exist");
      const Value& value = g.value(v);
      if (produced[static_cast<size_t>(v)]++) return invalid("'", value.name, "' is written by two nodes; the second is ", g.label(n));
      if (value.role != Role::kActivation) return invalid("'", value.name, "' is given with the graph and also written by ", g.label(n));
      if (value.producer != n) return internal_error("'", value.name, "' does not know that ", g.label(n), " writes it");
    }
  }
  for (NodeId n : g.live_nodes())
    for (ValueId v : g.node(n).inputs)
      if (v != kNoValue && g.value(v).role == Role::kActivation && !produced[static_cast<size_t>(v)])
        return invalid(g.label(n), " reads '", g.value(v).name, "', which no node, input or initializer gives");
  for (ValueId v : g.outputs)
    if (!in_range(v) || (g.value(v).role == Role::kActivation && !produced[static_cast<size_t>(v)]))
      return invalid("graph output '", in_range(v) ? g.value(v).name : "?", "' is given by no node, input or initializer");
  auto order = g.topological_order();
  return order.ok() ? Status() : order.status();
}

std::string print(const Graph& g) {
  std::ostringstream out;
  auto show = [&](ValueId v) {
    if (v == kNoValue) return std::string("-");
    const Value& value = g.value(v);
    return value.name + (value.has_shape ? ":" + name_of(value.dtype) + to_string(value.shape) : "");
  };
  out << "graph " << g.name << "\n";
  for (ValueId v : g.inputs) out << "input " << show(v) << "\n";
  auto order = g.topological_order();
  for (NodeId n : order.ok() ? *order : g.live_nodes()) {
    const Node& node = g.node(n);
    for (size_t i = 0; i < node.outputs.size(); ++i) out << (i ? ", " : "") << show(node.outputs[i]);
    out << " = " << (node.domain.empty() ? "" : node.domain + "::") << node.op_type << "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) out << (i ? ", " : "") << (node.inputs[i] == kNoValue ? "-" : g.value(node.inputs[i]).name);
    out << ")\n";
  }
  for (auto [state, next] : g.updates) out << "update " << g.value(state).name << " <- " << g.value(next).name << "\n";
  for (ValueId v : g.outputs) out << "output " << show(v) << "\n";
  return out.str();
}

}  // namespace eng
