// See graph_report.h. Printing is in graph_report_text.cpp.
#include "tools/common/graph_report.h"

#include <algorithm>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "graph/autodiff/autodiff.h"
#include "graph/ops/op.h"
#include "graph/passes/check_supported.h"
#include "graph/surgery/training_step.h"
#include "tools/common/model_source.h"

namespace eng::tools {
namespace {

double flops_of(const Graph& graph) {
  double sum = 0;
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (find_op(node.domain, node.op_type)) sum += cost_of(graph, node).flops;
  }
  return sum;
}

ShapeBinding with_batch(ShapeBinding binding, int64_t batch) {
  binding.batch = batch;
  for (auto& [name, shape] : binding.shapes) {
    if (!shape.empty() && shape[0] < 0) shape[0] = batch;
  }
  return binding;
}

MemoryRow memory_of(const Graph& model, const ShapeBinding& binding, const std::string& target, const std::shared_ptr<Device>& device,
                    const std::string& optimizer, int64_t batch) {
  MemoryRow row;
  row.batch = batch;
  StepOptions options;
  options.target = target;
  options.optimizer.kind = optimizer;
  if (optimizer == "sgd") options.optimizer.momentum = 0.9;
  auto step = build_training_step(model, with_batch(binding, batch), options, evaluator_on(device));
  if (!step.ok()) {
    row.problem = step.status().message();
    return row;
  }
  auto program = Program::compile(step->graph, device, std::make_shared<StateStore>(device), {step->loss});
  if (!program.ok()) {
    row.problem = program.status().message();
    return row;
  }
  const MemoryReport& m = (*program)->memory();
  row.total = m.total();
  row.arena = m.arena;
  row.state = m.state;
  row.inputs = m.inputs;
  row.constants = m.constants;
  row.workspace = m.workspace;
  row.activations = m.activations;
  row.peak_node = m.peak_node;
  return row;
}

std::string value_line(const Value& v) { return cat(v.name, " ", name_of(v.dtype), " ", dims_text(v)); }

}  // namespace

InfoReport info_of(const Graph& model, const std::string& path, const ShapeBinding& binding, const std::string& target,
                   const std::shared_ptr<Device>& device, const std::vector<int64_t>& batches, const std::string& optimizer) {
  InfoReport r;
  r.path = path;
  r.name = model.name;
  r.producer = model.producer_name + (model.producer_version.empty() ? "" : " " + model.producer_version);
  r.ir_version = model.ir_version;
  r.opsets = model.file_opsets.empty() ? model.opsets : model.file_opsets;
  r.metadata = model.metadata;
  for (ValueId id : model.inputs) r.inputs.push_back(value_line(model.value(id)));
  for (ValueId id : model.outputs) r.outputs.push_back(value_line(model.value(id)));
  for (ValueId id = 0; id < model.value_count(); ++id) {
    const Value& v = model.value(id);
    if (!v.data) continue;
    if (v.role == Role::kParameter) r.parameters += v.data->element_count(), ++r.parameter_tensors;
    if (v.role == Role::kState) r.state_values += v.data->element_count(), ++r.state_tensors;
  }
  for (NodeId id : model.live_nodes()) {
    const Node& node = model.node(id);
    ++r.operators[node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type];
    ++r.nodes;
  }
  const auto forward = build_prediction_step(model, with_batch(binding, 1), target, evaluator_on(device));
  if (forward.ok()) r.forward_flops = flops_of(forward->graph);
  else r.flops_problem = forward.status().message();
  StepOptions options;
  options.target = target;
  const auto step = build_training_step(model, with_batch(binding, 1), options, evaluator_on(device));
  if (step.ok()) r.training_flops = flops_of(step->graph);
  else if (r.flops_problem.empty()) r.flops_problem = step.status().message();
  if (step.ok()) {
    for (int64_t batch : batches) r.memory.push_back(memory_of(model, binding, target, device, optimizer, batch));
  }
  return r;
}

TrainableReport trainable_of(const Graph& model, const ShapeBinding& binding, const std::string& target, const std::shared_ptr<Device>& device) {
  TrainableReport r;
  const auto part = part_for(model, target);
  if (!part.ok()) {
    r.problem = part.status().message();
    for (const std::string& finding : unsupported_nodes(model)) r.obstacles.push_back({finding, "without it nothing is known of the weights behind it", "remove or replace it"});
    return r;
  }
  r.target = part->value(part->outputs[0]).name;
  std::vector<ValueId> wanted;
  const auto uses = part->uses();
  for (ValueId id = 0; id < part->value_count(); ++id) {
    const Value& v = part->value(id);
    if (v.role == Role::kParameter && !v.frozen && !uses[static_cast<size_t>(id)].empty()) wanted.push_back(id);
  }
  for (NodeId id : part->live_nodes()) {
    const Node& node = part->node(id);
    if (find_op(node.domain, node.op_type)) continue;
    const std::string op = node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type;
    r.obstacles.push_back({part->label(id), "the operator " + op + " is not supported",
                           "cut the model in front of it: --cut-at a node before, with --replace-head"});
  }
  std::map<std::string, bool> trained;
  if (r.obstacles.empty()) {
    StepOptions options;
    options.target = target;
    const auto step = build_training_step(model, with_batch(binding, 2), options, evaluator_on(device));
    if (step.ok()) {
      r.loss = step->loss_note;
      for (ValueId id : step->parameters) trained[step->graph.value(id).name] = true;
    } else {
      for (const Blocker& b : find_blockers(*part, {part->outputs[0]}, wanted)) {
        r.obstacles.push_back({part->label(b.node), b.reason, "freeze the weights in front of it (--freeze), or cut behind it (--cut-at, --replace-head)"});
      }
      if (r.obstacles.empty()) r.problem = step.status().message();
    }
  }
  for (ValueId id = 0; id < model.value_count(); ++id) {
    const Value& v = model.value(id);
    if (v.role != Role::kParameter || !v.data) continue;
    TrainableReport::Weight w{v.name, "", v.data->shape()};
    const ValueId there = part->find_value(v.name);
    if (trained.count(v.name)) ++r.trained, r.trained_values += v.data->element_count();
    else if (v.frozen) w.why = "frozen";
    else if (there == kNoValue || uses[static_cast<size_t>(there)].empty()) w.why = "output '" + r.target + "' does not depend on it";
    else if (!r.obstacles.empty() || !r.problem.empty()) w.why = "no step can be built";
    else w.why = "the loss does not depend on it";
    r.weights.push_back(std::move(w));
  }
  return r;
}

}  // namespace eng::tools
