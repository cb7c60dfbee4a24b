// See training_step.h.
#include "graph/surgery/training_step.h"

#include <algorithm>

#include "graph/autodiff/autodiff.h"
#include "graph/ops/op.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/free_batch.h"
#include "graph/passes/fuse_batch_norm_relu.h"
#include "graph/passes/sync_batch_norm.h"
#include "graph/passes/training_form.h"
#include "graph/passes/training_form_rnn.h"
#include "graph/surgery/sharded_step.h"

namespace eng {
namespace {

// Values that depend on a parameter, front to back.
std::vector<char> depends_on_parameters(const Graph& g, const std::vector<NodeId>& order) {
  std::vector<char> depends(static_cast<size_t>(g.value_count()), 0);
  for (ValueId v = 0; v < g.value_count(); ++v) depends[static_cast<size_t>(v)] = g.value(v).role == Role::kParameter;
  for (NodeId n : order) {
    bool any = false;
    for (ValueId v : g.node(n).inputs) any |= v != kNoValue && depends[static_cast<size_t>(v)];
    for (ValueId v : g.node(n).outputs)
      if (v != kNoValue) depends[static_cast<size_t>(v)] = any;
  }
  return depends;
}

// Every node that the target needs and nobody supports, in one message.
Status check_operators(const Graph& g) {
  std::string all;
  int count = 0;
  for (NodeId n : g.live_nodes()) {
    const Node& node = g.node(n);
    if (find_op(node.domain, node.op_type)) continue;
    const auto& opsets = g.file_opsets.empty() ? g.opsets : g.file_opsets;
    auto version = opsets.find(node.domain);
    ++count;
    all += "\n  " + node.op_type + " (domain '" + (node.domain.empty() ? "ai.onnx" : node.domain) + "', opset " +
           (version == opsets.end() ? "not imported" : std::to_string(version->second)) + "), " + g.label(n);
  }
  if (count == 0) return {};
  return unsupported(count, " node(s) of the model have operators that are not supported:", all);
}

// Keeps what leads to `target`, binds sizes, infers shapes.
Status prepare(Graph& g, ValueId target, const ShapeBinding& binding, const Evaluator& evaluator) {
  g.outputs = {target};
  // Updates of statistics outside the target's part go with it.
  std::vector<ValueId> roots{target};
  for (auto [state, next] : g.updates) roots.push_back(next);
  ENG_TRY(dead_code(g, roots).status());
  std::vector<ValueId> used;
  const auto uses = g.uses();
  for (ValueId v : g.inputs)
    if (!uses[static_cast<size_t>(v)].empty() || v == target) used.push_back(v);
  g.inputs = used;
  ENG_TRY(check_operators(g));
  zero_unbatched_inputs(g, binding);
  ENG_TRY(free_batch(g, binding, evaluator).status());
  ENG_TRY(bind_shapes(g, binding));
  return infer_shapes(g, evaluator);
}

// Running statistics that the target does not need are not updated: their nodes would only keep other branches alive.
void drop_foreign_updates(Graph& g, ValueId target, const std::vector<NodeId>& order) {
  std::vector<char> needed(static_cast<size_t>(g.node_count()), 0), value_needed(static_cast<size_t>(g.value_count()), 0);
  value_needed[static_cast<size_t>(target)] = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    bool any = false;
    for (ValueId v : g.node(*it).outputs) any |= v != kNoValue && value_needed[static_cast<size_t>(v)];
    if (!any) continue;
    needed[static_cast<size_t>(*it)] = 1;
    for (ValueId v : g.node(*it).inputs)
      if (v != kNoValue) value_needed[static_cast<size_t>(v)] = 1;
  }
  std::erase_if(g.updates, [&](const auto& u) {
    const NodeId p = g.value(u.second).producer;
    return p != kNoNode && g.node(p).phase == Phase::kForward && !needed[static_cast<size_t>(p)];
  });
}

void copy_loss(const AttachedLoss& loss, Step& step) {
  step.labels = loss.labels;
  step.loss = loss.loss;
  step.correct = loss.correct;
  step.loss_kind = loss.kind;
  step.classes = loss.classes;
  step.loss_note = loss.note;
  step.graph.outputs.push_back(loss.loss);
  if (loss.correct != kNoValue) step.graph.outputs.push_back(loss.correct);
}

}  // namespace

Result<ValueId> find_target(const Graph& model, const std::string& target) {
  std::string names;
  for (ValueId v : model.outputs) {
    names += (names.empty() ? "" : ", ") + model.value(v).name;
    if (!target.empty() && model.value(v).name == target) return v;
  }
  if (!target.empty()) return not_found("the model has no output '", target, "'; its outputs are: ", names);
  ENG_ASSIGN(std::vector<NodeId> order, model.topological_order());
  const auto depends = depends_on_parameters(model, order);
  for (ValueId v : model.outputs)
    if (depends[static_cast<size_t>(v)] && (model.value(v).dtype == DType::kUndefined || is_floating(model.value(v).dtype))) return v;
  ENG_TRY(check_operators(model));  // an unknown node in the way says more than what follows
  return invalid("none of the model's outputs (", names, ") depends on a weight that can be trained");
}

Result<Step> build_training_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator) {
  Step step;
  Graph& g = step.graph;
  g = model;
  ENG_ASSIGN(ValueId target, find_target(g, options.target));
  ENG_TRY(training_form(g, {options.seed, options.freeze_bn}));
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  drop_foreign_updates(g, target, order);
  ENG_TRY(prepare(g, target, binding, evaluator));
  step.inputs = g.inputs;
  ENG_ASSIGN(AttachedLoss loss, attach_loss(g, target, options.loss));
  g.outputs.clear();
  copy_loss(loss, step);
  std::vector<ValueId> roots = g.outputs;
  for (auto [state, next] : g.updates) roots.push_back(next);
  ENG_TRY(dead_code(g, roots).status());
  fuse_batch_norm_relu(g);

  std::vector<ValueId> candidates;
  const auto uses = g.uses();
  int frozen = 0;
  for (ValueId v = 0; v < g.value_count(); ++v) {
    if (g.value(v).role != Role::kParameter || uses[static_cast<size_t>(v)].empty()) continue;
    if (g.value(v).frozen) ++frozen;
    else candidates.push_back(v);
  }
  ENG_TRY(rnn_training_form(g));
  ValueId objective = loss.loss;
  if (options.sharded) {
    ENG_ASSIGN(objective, open_shard(g, loss.loss, step));
  }
  if (options.sync_batch_norm) ENG_TRY(sync_batch_norm(g, step.share).status());
  ENG_ASSIGN(std::vector<ValueId> gradients, differentiate(g, objective, candidates));
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (gradients[i] == kNoValue) continue;
    step.parameters.push_back(candidates[i]);
    step.gradients.push_back(gradients[i]);
  }
  if (step.parameters.empty())
    return invalid("there is nothing to train: ", candidates.size() + static_cast<size_t>(frozen), " weights, ", frozen, " of them frozen, and the loss depends on none of the rest");
  if (options.sharded) {
    ENG_TRY(close_shard(g, step));
    ENG_TRY(g.compact());
    return step;
  }
  ENG_ASSIGN(step.learning_rate, attach_optimizer(g, step.parameters, step.gradients, options.optimizer));
  if (options.gradients_as_outputs) g.outputs.insert(g.outputs.end(), step.gradients.begin(), step.gradients.end());
  ENG_TRY(g.compact());
  return step;
}

Result<Step> build_evaluation_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator) {
  ENG_ASSIGN(Step step, build_prediction_step(model, binding, options.target, evaluator));
  ENG_ASSIGN(AttachedLoss loss, attach_loss(step.graph, step.predictions, options.loss));
  copy_loss(loss, step);
  return step;
}

Result<Step> build_prediction_step(const Graph& model, const ShapeBinding& binding, const std::string& target_name, const Evaluator& evaluator) {
  Step step;
  step.graph = model;
  ENG_ASSIGN(ValueId target, find_target(step.graph, target_name));
  step.graph.updates.clear();
  ENG_TRY(prepare(step.graph, target, binding, evaluator));
  step.inputs = step.graph.inputs;
  step.predictions = target;
  return step;
}

}  // namespace eng
