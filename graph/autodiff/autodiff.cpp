// See autodiff.h.
#include "graph/autodiff/autodiff.h"

#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

// active[v]: v is floating and depends on a wanted value (through floating values and slots that carry gradients).
std::vector<char> mark_active(const Graph& g, const std::vector<NodeId>& order, const std::vector<ValueId>& wanted) {
  std::vector<char> active(static_cast<size_t>(g.value_count()), 0);
  for (ValueId w : wanted)
    if (w != kNoValue && is_floating(g.value(w).dtype)) active[static_cast<size_t>(w)] = 1;
  for (NodeId n : order) {
    const Node& node = g.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    bool any = false;
    for (size_t i = 0; i < node.inputs.size() && !any; ++i) {
      ValueId v = node.inputs[i];
      if (v == kNoValue || !active[static_cast<size_t>(v)]) continue;
      Slot slot = op ? slot_of(*op, static_cast<int>(i)) : Slot::kData;
      any = slot == Slot::kData || slot == Slot::kWeight;
    }
    if (!any) continue;
    for (ValueId v : node.outputs)  // an unknown type (shape inference has not run) counts as floating
      if (v != kNoValue && (is_floating(g.value(v).dtype) || g.value(v).dtype == DType::kUndefined)) active[static_cast<size_t>(v)] = 1;
  }
  return active;
}

// useful[n]: node n lies between an active value and a target.
std::vector<char> mark_needed(const Graph& g, const std::vector<NodeId>& order, const std::vector<char>& active,
                              const std::vector<ValueId>& targets) {
  std::vector<char> reaches(static_cast<size_t>(g.value_count()), 0), needed(static_cast<size_t>(g.node_count()), 0);
  for (ValueId t : targets)
    if (active[static_cast<size_t>(t)]) reaches[static_cast<size_t>(t)] = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = g.node(*it);
    bool out = false;
    for (ValueId v : node.outputs) out |= v != kNoValue && reaches[static_cast<size_t>(v)] && active[static_cast<size_t>(v)];
    if (!out) continue;
    const OpDef* op = find_op(node.domain, node.op_type);
    bool in = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId v = node.inputs[i];
      if (v == kNoValue || !active[static_cast<size_t>(v)]) continue;
      Slot slot = op ? slot_of(*op, static_cast<int>(i)) : Slot::kData;
      if (slot != Slot::kData && slot != Slot::kWeight) continue;
      reaches[static_cast<size_t>(v)] = 1;
      in = true;
    }
    needed[static_cast<size_t>(*it)] = in;
  }
  return needed;
}

}  // namespace

std::vector<Blocker> find_blockers(const Graph& g, const std::vector<ValueId>& targets, const std::vector<ValueId>& wanted) {
  std::vector<Blocker> out;
  auto order = g.topological_order();
  if (!order.ok()) return out;
  auto active = mark_active(g, *order, wanted);
  auto needed = mark_needed(g, *order, active, targets);
  for (NodeId n : *order) {
    if (!needed[static_cast<size_t>(n)]) continue;
    const Node& node = g.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    if (!op) out.push_back({n, "the operator is not supported"});
    else if (!op->gradient) out.push_back({n, op->no_gradient ? op->no_gradient : "it has no gradient"});
  }
  return out;
}

Result<std::vector<ValueId>> differentiate_from(Graph& g, const std::vector<ValueId>& outputs,
                                                const std::vector<ValueId>& output_gradients, const std::vector<ValueId>& wanted) {
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  auto active = mark_active(g, order, wanted);
  auto needed = mark_needed(g, order, active, outputs);
  auto blockers = find_blockers(g, outputs, wanted);
  if (!blockers.empty()) {
    std::string all;
    for (const Blocker& b : blockers) all += "\n  no gradient for " + g.label(b.node) + ": " + b.reason;
    return unsupported(blockers.size(), " node(s) stand between the trained weights and the loss and cannot be differentiated:", all);
  }

  // Gradients found so far, per value; more than one where the value has several uses.
  std::vector<std::vector<ValueId>> pending(static_cast<size_t>(g.value_count()));
  auto push = [&](ValueId v, ValueId gradient) {
    if (pending.size() <= static_cast<size_t>(v)) pending.resize(static_cast<size_t>(v) + 1);
    pending[static_cast<size_t>(v)].push_back(gradient);
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    if (output_gradients[i] != kNoValue) push(outputs[i], output_gradients[i]);

  Builder b(g, Phase::kBackward);
  auto collect = [&](ValueId v) -> ValueId {
    auto& list = pending[static_cast<size_t>(v)];
    if (list.empty()) return kNoValue;
    if (list.size() > 1) {
      b.set_name_hint("grad/" + g.value(v).name);
      list = {b.op("Sum", list)};
    }
    return list[0];
  };

  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const NodeId n = *it;
    if (!needed[static_cast<size_t>(n)]) continue;
    const std::vector<ValueId> node_inputs = g.node(n).inputs, node_outputs = g.node(n).outputs;
    const OpDef* op = find_op(g.node(n).domain, g.node(n).op_type);
    b.set_origin(Phase::kBackward, n);
    std::vector<ValueId> dy;
    bool any = false;
    for (ValueId v : node_outputs) {
      dy.push_back(v == kNoValue ? kNoValue : collect(v));
      any |= dy.back() != kNoValue;
    }
    if (!any) continue;
    std::vector<bool> needs;
    for (size_t i = 0; i < node_inputs.size(); ++i) {
      ValueId v = node_inputs[i];
      Slot slot = slot_of(*op, static_cast<int>(i));
      needs.push_back(v != kNoValue && active[static_cast<size_t>(v)] && (slot == Slot::kData || slot == Slot::kWeight));
    }
    for (ValueId v : node_outputs)
      if (v != kNoValue) { b.set_name_hint("grad/" + g.value(v).name); break; }
    GradContext context(b, n, dy, needs);
    Status s = op->gradient(context);
    if (s.ok()) s = b.status();
    if (!s.ok()) return s.in("gradient of " + g.label(n));
    for (size_t i = 0; i < node_inputs.size(); ++i) {
      ValueId gradient = context.results()[i], v = node_inputs[i];
      if (gradient == kNoValue || !needs[i]) continue;
      gradient = b.sum_to(gradient, Shape(g.value(v).shape));
      if (g.value(gradient).dtype != g.value(v).dtype) {
        Attributes to;
        to.set("to", static_cast<int64_t>(g.value(v).dtype));
        gradient = b.op("Cast", {gradient}, to);
      }
      push(v, gradient);
    }
    if (!b.status().ok()) return b.status().in("gradient of " + g.label(n));
  }

  std::vector<ValueId> result;
  b.set_origin(Phase::kBackward, kNoNode);
  pending.resize(static_cast<size_t>(g.value_count()) + 1);
  for (ValueId w : wanted) result.push_back(w == kNoValue ? kNoValue : collect(w));
  if (!b.status().ok()) return b.status();
  return result;
}

Result<std::vector<ValueId>> differentiate(Graph& g, ValueId loss, const std::vector<ValueId>& wanted) {
  if (element_count(g.value(loss).shape) != 1)
    return invalid("the loss '", g.value(loss).name, "' has shape ", g.value(loss).shape, "; one element is needed");
  Tensor one(g.value(loss).dtype, g.value(loss).shape);
  one.set(0, 1);
  ValueId seed = g.add_tensor("grad/" + g.value(loss).name, std::move(one), Role::kConstant);
  return differentiate_from(g, {loss}, {seed}, wanted);
}

}  // namespace eng
