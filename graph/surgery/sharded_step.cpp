// See sharded_step.h.
#include "graph/surgery/sharded_step.h"

#include <set>

#include "graph/ops/op.h"
#include "graph/passes/training_form.h"

namespace eng {
namespace {

ValueId add_input(Graph& g, const std::string& name, DType type, const Shape& shape) {
  const ValueId v = g.add_value(name, type, shape);
  g.value(v).role = Role::kInput;
  g.inputs.push_back(v);
  return v;
}

bool is_state(const Value& v) { return v.role == Role::kParameter || v.role == Role::kState; }

// Whether a state's next content needs nothing of the batch: counters, the random state.
bool from_states_alone(const Graph& g, ValueId next) {
  const NodeId maker = g.value(next).producer;
  if (maker == kNoNode) return false;
  for (ValueId v : g.node(maker).inputs)
    if (v != kNoValue && !is_state(g.value(v)) && g.value(v).role != Role::kConstant) return false;
  return true;
}

// A value with the same name, form and first content in another graph.
ValueId copy_value(const Graph& from, ValueId v, Graph& to) {
  const Value& source = from.value(v);
  if (const ValueId known = to.find_value(source.name); known != kNoValue) return known;
  const ValueId out = to.add_value(source.name, source.dtype, source.shape);
  Value& copy = to.value(out);
  copy.role = source.role;
  copy.data = source.data;
  copy.frozen = source.frozen;
  return out;
}

}  // namespace

Tensor random_offset_of(int64_t shard) { return Tensor::ints({static_cast<int64_t>(static_cast<uint64_t>(shard) * 0x632be59bd9b4e019ULL >> 1), 0}); }

Result<ValueId> open_shard(Graph& g, ValueId loss, Step& step) {
  Builder b(g, Phase::kLoss);
  step.share = add_input(g, "shard/share", g.value(loss).dtype, g.value(loss).shape);
  b.set_name_hint("loss/share");
  const ValueId scaled = b.op("Mul", {loss, step.share});
  const ValueId random = g.find_value(kRandomStateName);
  const auto uses = g.uses();
  if (random != kNoValue && !uses[static_cast<size_t>(random)].empty()) {
    step.random_offset = add_input(g, "shard/random_offset", DType::kInt64, {2});
    b.set_origin(Phase::kForward, kNoNode);
    b.set_name_hint("shard/random");
    const ValueId own = b.op("Add", {random, step.random_offset});
    for (NodeId n : uses[static_cast<size_t>(random)])
      if (g.node(n).phase != Phase::kUpdate)
        for (ValueId& v : g.node(n).inputs)
          if (v == random) v = own;
  }
  if (!b.status().ok()) return b.status();
  ENG_TRY(g.compact());  // the new node stands before its readers
  return scaled;
}

Status close_shard(Graph& g, Step& step) {
  Builder b(g, Phase::kBackward);
  std::set<ValueId> taken;
  for (size_t i = 0; i < step.gradients.size(); ++i) {
    ValueId& gradient = step.gradients[i];
    if (g.value(gradient).producer == kNoNode || !taken.insert(gradient).second) {  // a constant, or the gradient of another weight too
      b.set_name_hint("grad/" + g.value(step.parameters[i]).name);
      gradient = b.op("Identity", {gradient});
    }
    g.outputs.push_back(gradient);
  }
  b.set_origin(Phase::kUpdate, kNoNode);
  for (const auto& [state, next] : g.updates) {
    if (from_states_alone(g, next)) {
      step.counters.emplace_back(state, next);
      continue;
    }
    b.set_name_hint(g.value(state).name + "/part");
    const ValueId share = g.value(next).dtype == g.value(step.share).dtype ? step.share : [&] {
      Attributes to;
      to.set("to", static_cast<int64_t>(g.value(next).dtype));
      return b.op("Cast", {step.share}, to);
    }();
    step.statistics.emplace_back(state, b.op("Mul", {next, share}));
    g.outputs.push_back(step.statistics.back().second);
  }
  g.updates.clear();
  return b.status();
}

Result<UpdateStep> build_update_step(const Step& sharded, const OptimizerSpec& optimizer) {
  UpdateStep out;
  Graph& g = out.graph;
  const Graph& from = sharded.graph;
  std::vector<ValueId> parameters, gradients;
  for (ValueId w : sharded.parameters) {
    parameters.push_back(copy_value(from, w, g));
    gradients.push_back(add_input(g, from.value(w).name + "/gradient", from.value(w).dtype, Shape(from.value(w).shape)));
  }
  ENG_ASSIGN(out.learning_rate, attach_optimizer(g, parameters, gradients, optimizer));
  out.sums = gradients;
  Builder b(g, Phase::kUpdate);
  for (const auto& [state, part] : sharded.statistics) {
    const ValueId own = copy_value(from, state, g);
    const ValueId sum = add_input(g, from.value(state).name + "/sum", from.value(state).dtype, Shape(from.value(state).shape));
    out.sums.push_back(sum);
    b.set_name_hint(from.value(state).name + "/next");
    g.updates.emplace_back(own, b.op("Identity", {sum}));
  }
  for (const auto& [state, next] : sharded.counters) {
    Node n = from.node(from.value(next).producer);
    for (ValueId& v : n.inputs)
      if (v != kNoValue) v = copy_value(from, v, g);
    for (ValueId& v : n.outputs)
      if (v != kNoValue) v = g.add_value(from.value(v).name, from.value(v).dtype, Shape(from.value(v).shape));
    const size_t at = static_cast<size_t>(from.value(next).producer_output);
    const NodeId made = g.add_node(std::move(n));
    g.updates.emplace_back(copy_value(from, state, g), g.node(made).outputs[at]);
  }
  if (!b.status().ok()) return b.status();
  ENG_TRY(g.compact());
  return out;
}

}  // namespace eng
