// See model_steps.h.
#include "engine/train/model_steps.h"

#include "graph/surgery/freeze.h"

namespace eng {
namespace {

// What a checkpoint holds. States may have no content: they start at zero.
bool kept(const Value& v) { return v.role == Role::kParameter || v.role == Role::kState; }

void add_fetch(std::vector<ValueId>& fetches, ValueId id) {
  if (id != kNoValue) fetches.push_back(id);
}

}  // namespace

Status CompiledStep::feed(const Batch& batch) {
  for (size_t i = 0; i < feeds.size(); ++i) ENG_TRY(program->feed(step.inputs[i], batch.inputs[feeds[i]]));
  if (step.labels == kNoValue) return {};
  const Shape& wanted = step.graph.value(step.labels).shape;
  const bool same_count = batch.labels.defined() && element_count(wanted) == batch.labels.element_count();
  return program->feed(step.labels, same_count ? batch.labels.reshaped(wanted) : batch.labels);
}

ModelSteps::ModelSteps(Graph model, std::shared_ptr<Device> device, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs)
    : model_(std::move(model)), device_(std::move(device)), evaluator_(std::move(evaluator)), store_(std::make_shared<StateStore>(device_)), options_(std::move(options)),
      inputs_(std::move(inputs)) {}

ShapeBinding ModelSteps::binding(int64_t batch) const {
  ShapeBinding b;
  b.batch = batch;
  for (const SampleSpec& spec : inputs_) {
    Shape shape{batch};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    b.shapes[spec.name] = shape;
  }
  return b;
}

Result<Step> ModelSteps::plan(int64_t batch) const { return build_training_step(model_, binding(batch), options_, evaluator_); }

Result<CompiledStep*> ModelSteps::compile(Step step, bool training, std::unique_ptr<CompiledStep>& slot) {
  auto made = std::make_unique<CompiledStep>();
  made->step = std::move(step);
  for (ValueId id : made->step.inputs) {
    const std::string& name = made->step.graph.value(id).name;
    size_t i = 0;
    while (i < inputs_.size() && inputs_[i].name != name) ++i;
    if (i == inputs_.size()) return invalid("the model needs input '", name, "', which the data do not have");
    made->feeds.push_back(i);
  }
  std::vector<ValueId> fetches{made->step.loss};
  add_fetch(fetches, made->step.correct);
  if (!training) add_fetch(fetches, made->step.predictions);
  if (training && options_.gradients_as_outputs) fetches.insert(fetches.end(), made->step.gradients.begin(), made->step.gradients.end());
  ENG_ASSIGN(made->program, Program::compile(made->step.graph, device_, store_, fetches));
  slot = std::move(made);
  return slot.get();
}

Result<CompiledStep*> ModelSteps::training(int64_t batch) {
  std::unique_ptr<CompiledStep>& slot = training_[batch];
  if (slot) return slot.get();
  ENG_ASSIGN(Step step, plan(batch));
  return compile(std::move(step), true, slot);
}

Result<CompiledStep*> ModelSteps::evaluation(int64_t batch) {
  std::unique_ptr<CompiledStep>& slot = evaluation_[batch];
  if (slot) return slot.get();
  ENG_ASSIGN(Step step, build_evaluation_step(model_, binding(batch), options_, evaluator_));
  return compile(std::move(step), false, slot);
}

void ModelSteps::unfreeze() {
  unfreeze_all(model_);
  training_.clear();
  initial_.clear();
}

bool ModelSteps::any_frozen() const {
  for (ValueId id = 0; id < model_.value_count(); ++id) {
    if (model_.value(id).frozen) return true;
  }
  return false;
}

void ModelSteps::fetch_gradients(bool wanted) {
  if (wanted != options_.gradients_as_outputs) training_.clear();
  options_.gradients_as_outputs = wanted;
}

Status ModelSteps::collect_initial(int64_t batch) {
  if (!initial_.empty()) return {};
  const auto collect = [this](const Graph& graph) {
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& v = graph.value(id);
      if (kept(v)) initial_[v.name] = {v.data ? v.data->dtype() : v.dtype, v.data ? v.data->shape() : v.shape, v.data};
    }
  };
  ENG_ASSIGN(const Step step, plan(batch));
  collect(step.graph);
  collect(model_);
  return {};
}

Result<std::map<std::string, Tensor>> ModelSteps::contents(int64_t batch) {
  ENG_TRY(collect_initial(batch));
  std::map<std::string, Tensor> out;
  for (const auto& [name, initial] : initial_) {
    if (store_->has(name)) {
      ENG_ASSIGN(out[name], store_->get(name));
    } else {  // no program has needed it yet
      out[name] = initial.data ? *initial.data : Tensor(initial.dtype, initial.shape);
    }
  }
  return out;
}

Status ModelSteps::restore(const std::map<std::string, Tensor>& contents) {
  for (const auto& [name, content] : contents) {
    ENG_TRY(store_->has(name) ? store_->set(name, content) : store_->ensure(name, content));
  }
  return {};
}

Result<Graph> ModelSteps::trained_model() const {
  Graph graph = model_;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    Value& v = graph.value(id);
    if (!kept(v) || !v.data || !store_->has(v.name)) continue;
    ENG_ASSIGN(Tensor content, store_->get(v.name));
    v.data = std::make_shared<const Tensor>(std::move(content));
  }
  return graph;
}

}  // namespace eng
