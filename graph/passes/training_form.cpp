// See training_form.h.
#include "graph/passes/training_form.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

bool fixed(const Graph& g, ValueId v) { return v == kNoValue || g.value(v).role != Role::kParameter || g.value(v).frozen; }

// The node's outputs taken over by a new node of another operator, so that readers need not change.
NodeId replace_node(Graph& g, NodeId old, Node fresh) {
  fresh.name = g.node(old).name;
  fresh.doc = g.node(old).doc;
  fresh.phase = Phase::kForward;
  g.remove_node(old);
  return g.add_node(std::move(fresh));
}

Status dropout(Graph& g, NodeId n, ValueId& random_state, int64_t& stream, const TrainingForm& options) {
  const Node node = g.node(n);
  double ratio = 0.5;
  if (node.inputs.size() > 1 && node.inputs[1] != kNoValue) {
    const Tensor* t = g.value(node.inputs[1]).data.get();  // whatever its role: an initializer that no gradient reaches
    if (!t) return unsupported(g.label(n), ": the dropout ratio is computed by the graph; a constant is needed");
    ratio = t->at(0);
  }
  if (ratio < 0 || ratio >= 1) return invalid(g.label(n), ": the dropout ratio is ", ratio, "; wanted 0 <= ratio < 1");
  Node fresh;
  if (ratio == 0) {
    fresh.op_type = "Identity";
    fresh.inputs = {node.inputs[0]};
    fresh.outputs = {node.outputs[0]};
    replace_node(g, n, std::move(fresh));
    return {};
  }
  if (random_state == kNoValue) {
    random_state = g.add_tensor(kRandomStateName, Tensor::ints({static_cast<int64_t>(options.seed), 0}), Role::kState);
    NodeId advance = g.add_node(kEngineDomain, "AdvanceRandom", {random_state}, 1, {}, "random/next");
    g.node(advance).phase = Phase::kUpdate;
    g.updates.emplace_back(random_state, g.node(advance).outputs[0]);
  }
  fresh.domain = kEngineDomain;
  fresh.op_type = "RandomDropout";
  fresh.inputs = {node.inputs[0], random_state};
  fresh.outputs = {node.outputs[0], node.outputs.size() > 1 && node.outputs[1] != kNoValue ? node.outputs[1] : g.add_value(g.value(node.outputs[0]).name + "/mask")};
  fresh.attributes.set("ratio", static_cast<float>(ratio));
  fresh.attributes.set("stream", stream++);
  replace_node(g, n, std::move(fresh));
  return {};
}

void batch_norm(Graph& g, NodeId n, const TrainingForm& options) {
  const Node node = g.node(n);
  if (node.attributes.get_int("training_mode", 0) == 0 &&
      (options.freeze_statistics || (fixed(g, node.inputs[1]) && fixed(g, node.inputs[2])))) return;
  // Statistics that the graph computes, or that several normalisations share, cannot be kept as running ones.
  for (int i : {3, 4})
    if (g.value(node.inputs[static_cast<size_t>(i)]).role != Role::kState) return;
  Node fresh;
  fresh.domain = kEngineDomain;
  fresh.op_type = "BatchNormTraining";
  fresh.inputs = node.inputs;
  fresh.attributes.set("epsilon", node.attributes.get_float("epsilon", 1e-5F));
  fresh.attributes.set("momentum", node.attributes.get_float("momentum", 0.9F));
  const std::string name = g.value(node.outputs[0]).name;
  fresh.outputs = {node.outputs[0]};
  for (size_t i : {1u, 2u})
    fresh.outputs.push_back(node.outputs.size() > i && node.outputs[i] != kNoValue ? node.outputs[i] : g.add_value(name + (i == 1 ? "/next_mean" : "/next_var")));
  fresh.outputs.push_back(g.add_value(name + "/batch_mean"));
  fresh.outputs.push_back(g.add_value(name + "/batch_inv_std"));
  const ValueId mean = fresh.outputs[1], var = fresh.outputs[2];
  // Statistics used by several normalisations (a sub-network applied twice) pass from one to the next, in graph order.
  auto chain = [&](ValueId& state, ValueId next) {
    for (auto& [known, last] : g.updates) {
      if (known != state) continue;
      state = last;
      last = next;
      return;
    }
    g.updates.emplace_back(state, next);
  };
  chain(fresh.inputs[3], mean);
  chain(fresh.inputs[4], var);
  replace_node(g, n, std::move(fresh));
}

}  // namespace

Status training_form(Graph& g, const TrainingForm& options) {
  ValueId random_state = kNoValue;
  int64_t stream = 0;
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  for (NodeId n : order) {
    if (!g.node(n).domain.empty()) continue;
    if (g.node(n).op_type == "Dropout") ENG_TRY(dropout(g, n, random_state, stream, options));
    else if (g.node(n).op_type == "BatchNormalization") batch_norm(g, n, options);
  }
  return g.compact();
}

}  // namespace eng
