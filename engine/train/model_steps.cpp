// See model_steps.h.
#include "engine/train/model_steps.h"

#include <algorithm>

#include "engine/exec/estimate.h"
#include "engine/memory/budget.h"
#include "graph/partition/cut.h"
#include "graph/surgery/freeze.h"

namespace eng {
namespace {

// What a checkpoint holds. States may have no content: they start at zero.
bool kept(const Value& v) { return v.role == Role::kParameter || v.role == Role::kState; }

void add_fetch(std::vector<ValueId>& fetches, ValueId id) {
  if (id != kNoValue) fetches.push_back(id);
}

std::shared_ptr<Fleet> fleet_of(std::shared_ptr<Device> device) {
  auto fleet = std::make_shared<Fleet>();
  fleet->ranks = Ranks::alone();
  Replica whole;
  whole.lanes = {{device}};
  whole.store = std::make_shared<StateStore>(device);
  whole.arenas = {{std::make_shared<SharedArena>(device)}};
  fleet->replicas.push_back(std::move(whole));
  return fleet;
}

}  // namespace

Status CompiledStep::feed(const Batch& batch) {
  for (size_t i = 0; i < feeds.size(); ++i) ENG_TRY(program->feed(step.inputs[i], batch.inputs[feeds[i]]));
  if (step.labels == kNoValue) return {};
  const Shape& wanted = step.graph.value(step.labels).shape;
  const bool same_count = batch.labels.defined() && element_count(wanted) == batch.labels.element_count();
  return program->feed(step.labels, same_count ? batch.labels.reshaped(wanted) : batch.labels);
}

ModelSteps::ModelSteps(Graph model, std::shared_ptr<Fleet> fleet, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs, Placer placer)
    : model_(std::move(model)), fleet_(std::move(fleet)), evaluator_(std::move(evaluator)), options_(std::move(options)), inputs_(std::move(inputs)), placer_(std::move(placer)) {}

ModelSteps::ModelSteps(Graph model, std::shared_ptr<Device> device, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs)
    : ModelSteps(std::move(model), fleet_of(std::move(device)), std::move(evaluator), std::move(options), std::move(inputs)) {}

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

Result<Step> ModelSteps::plan(int64_t batch) const {
  StepOptions whole = options_;
  whole.sync_batch_norm = false;  // of a step that is not cut into shards nothing is to be synchronised
  return build_training_step(model_, binding(batch), whole, evaluator_);
}

void ModelSteps::adopt(Graph& graph) const {
  for (const auto& [name, content] : restored_)
    if (const ValueId v = graph.find_value(name); v != kNoValue && kept(graph.value(v))) graph.value(v).data = content;
}

// The placer knows the training step's nodes. An evaluation has others (LSTM for LstmTraining): they go where their neighbours are, or to the first device of the
// replica that can run them.
Status ModelSteps::place(Graph& graph) const {
  const auto& devices = fleet_->replicas[0].lanes[0];
  if (!placer_) {
    for (NodeId n : graph.live_nodes()) graph.node(n).place = 0;
    return {};
  }
  ENG_TRY(placer_(graph));
  ENG_ASSIGN(const std::vector<NodeId> order, graph.topological_order());
  place_rest(graph, order);
  for (NodeId n : order) {
    Node& node = graph.node(n);
    if (refusal_of(*devices[static_cast<size_t>(node.place)], graph, node).empty()) continue;
    const auto can = std::find_if(devices.begin(), devices.end(), [&](const auto& device) { return refusal_of(*device, graph, node).empty(); });
    if (can != devices.end()) node.place = static_cast<int32_t>(can - devices.begin());
  }
  return {};
}

Result<std::vector<size_t>> ModelSteps::feeds_of(const Step& step) const {
  std::vector<size_t> feeds;
  for (ValueId id : step.inputs) {
    const std::string& name = step.graph.value(id).name;
    size_t i = 0;
    while (i < inputs_.size() && inputs_[i].name != name) ++i;
    if (i == inputs_.size()) return invalid("the model needs input '", name, "', which the data do not have");
    feeds.push_back(i);
  }
  return feeds;
}

Result<CompiledStep*> ModelSteps::compile(Step step, bool training, std::unique_ptr<CompiledStep>& slot) {
  auto made = std::make_unique<CompiledStep>();
  made->step = std::move(step);
  ENG_ASSIGN(made->feeds, feeds_of(made->step));
  adopt(made->step.graph);
  ENG_TRY(place(made->step.graph));
  std::vector<ValueId> fetches{made->step.loss};
  add_fetch(fetches, made->step.correct);
  if (!training) add_fetch(fetches, made->step.predictions);
  if (training && options_.gradients_as_outputs) fetches.insert(fetches.end(), made->step.gradients.begin(), made->step.gradients.end());
  if (training) ENG_TRY(fit(made->step, fetches, {}, 0));
  const Replica& replica = fleet_->replicas[0];
  ProgramOptions program_options;
  program_options.arenas = replica.arenas[0];
  ENG_ASSIGN(made->program, Program::compile(made->step.graph, replica.lanes[0], replica.store, fetches, program_options));
  slot = std::move(made);
  return slot.get();
}

// Makes the step fit into the memory limit less `beside`, what the device holds besides this program.
Status ModelSteps::fit(Step& step, const std::vector<ValueId>& fetches, const std::vector<ValueId>& external, uint64_t beside) {
  if (memory_limit_ == 0 || fleet_->replicas[0].lanes[0].size() > 1) return {};  // branches: the planner has kept to the limit
  MemoryEstimate estimate(fleet_->first_device());
  ProgramOptions o;
  o.external = external;
  const MemoryEstimator estimator = [inner = estimate.for_fetches(fetches, o), beside](const Graph& g) -> Result<MemoryNeed> {
    ENG_ASSIGN(MemoryNeed need, inner(g));
    need.total += beside;
    return need;
  };
  uint64_t smallest = 0;
  auto choice = fit_memory(step.graph, memory_limit_, estimator, &smallest);
  memory_choice_.smallest = std::max(memory_choice_.smallest, smallest);  // shards of a batch may differ in size
  if (!choice.ok()) return choice.status();
  if (choice->bytes >= memory_choice_.bytes)
    memory_choice_ = {static_cast<int64_t>(choice->recomputed.size()), choice->slow_down, choice->bytes, choice->bytes_without, memory_choice_.smallest};
  step.graph = std::move(choice->graph);
  return {};
}

// Bytes of a device that a sharded run holds beside a shard's program: optimiser slots, the update's inputs, and buckets, of which
// shards that run one after the other on a lane need one more each time their number doubles.
Result<uint64_t> ModelSteps::beside_a_shard(const Step& shard) const {
  ENG_ASSIGN(const UpdateStep update, build_update_step(shard, options_.optimizer));
  uint64_t slots = 0, sums = 0;
  const auto bytes_of = [](const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); };
  for (ValueId v = 0; v < update.graph.value_count(); ++v)
    if (kept(update.graph.value(v)) && !update.graph.value(v).data) slots += bytes_of(update.graph.value(v));
  for (ValueId v : update.sums) sums += bytes_of(update.graph.value(v));
  const int64_t lanes = static_cast<int64_t>(fleet_->replicas[0].lanes.size());
  int64_t in_a_row = (fleet_->shards + fleet_->replica_count() * lanes - 1) / (fleet_->replica_count() * lanes);
  uint64_t sets = 1;
  for (; in_a_row > 1; in_a_row = (in_a_row + 1) / 2) ++sets;
  return slots + sums * sets * static_cast<uint64_t>(lanes);
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

Result<ShardedStep*> ModelSteps::sharded(bool training) {
  std::unique_ptr<ShardedStep>& slot = training ? sharded_training_ : sharded_evaluation_;
  if (slot) return slot.get();
  ShardedOptions o;
  o.training = training;
  o.optimizer = options_.optimizer;
  o.keep_predictions = !training;
  o.adopt = [this](Graph& graph) { adopt(graph); };
  const auto make = [this, training](int64_t rows) -> Result<Step> {
    StepOptions step_options = options_;
    step_options.sharded = training;
    step_options.gradients_as_outputs = false;
    Step step;
    if (training) {
      ENG_ASSIGN(step, build_training_step(model_, binding(rows), step_options, evaluator_));
    } else {
      ENG_ASSIGN(step, build_evaluation_step(model_, binding(rows), step_options, evaluator_));
    }
    adopt(step.graph);
    if (training && memory_limit_ > 0) {
      std::vector<ValueId> fetches{step.loss}, external = step.gradients;
      add_fetch(fetches, step.correct);
      for (const auto& [state, part] : step.statistics) external.push_back(part);
      ENG_ASSIGN(const uint64_t beside, beside_a_shard(step));
      ENG_TRY(fit(step, fetches, external, beside));
    }
    ENG_TRY(place(step.graph));
    return step;
  };
  ENG_ASSIGN(slot, ShardedStep::create(*fleet_, make, o));
  ENG_ASSIGN(const Step any, plan(1));
  ENG_ASSIGN(sharded_feeds_, feeds_of(any));
  return slot.get();
}

Status ModelSteps::run_sharded(bool training, const Batch& batch, double learning_rate, bool stop, StepOutcome& outcome) {
  ENG_ASSIGN(ShardedStep * step, sharded(training));
  feed_list_.clear();
  for (size_t at : sharded_feeds_) feed_list_.push_back({batch.inputs[at].bytes(), batch.inputs[at].byte_count() / static_cast<uint64_t>(batch.size)});
  if (batch.labels.defined()) feed_list_.push_back({batch.labels.bytes(), batch.labels.byte_count() / static_cast<uint64_t>(batch.size)});
  return step->run(batch.size, feed_list_, learning_rate, stop, outcome);
}

// Loss and number of right answers of a program that has just been enqueued.
static Status fetch_outcome(CompiledStep& c, Tensor& loss, Tensor& correct, StepOutcome& outcome) {
  ENG_TRY(c.program->fetch(c.step.loss, loss));
  outcome.loss = loss.at(0);
  if (c.step.correct == kNoValue) return {};
  ENG_TRY(c.program->fetch(c.step.correct, correct));
  outcome.correct = static_cast<int64_t>(correct.at(0));
  return {};
}

Status ModelSteps::train(const Batch& batch, double learning_rate, bool stop, StepOutcome& outcome) {
  if (!restored_.empty()) {
    ENG_TRY(prepare(batch.size).status());
    forget_restored();
  }
  if (!fleet_->single()) return run_sharded(true, batch, learning_rate, stop, outcome);
  outcome = {.stop = stop};
  ENG_ASSIGN(last_, training(batch.size));
  const Tensor rate = Tensor::scalar(DType::kFloat32, learning_rate);
  Status status = last_->feed(batch);
  if (status.ok()) status = last_->program->feed(last_->step.learning_rate, rate);
  if (status.ok()) status = last_->program->run();
  if (status.ok()) return fetch_outcome(*last_, loss_, correct_, outcome);
  (void)last_->program->synchronize();  // what was enqueued still reads the batch
  return status;
}

Status ModelSteps::evaluate(const Batch& batch, bool stop, StepOutcome& outcome) {
  if (!fleet_->single()) return run_sharded(false, batch, 0, stop, outcome);
  outcome = {.stop = stop};
  ENG_ASSIGN(last_, evaluation(batch.size));
  Status status = last_->feed(batch);
  if (status.ok()) status = last_->program->run();
  if (status.ok()) return fetch_outcome(*last_, loss_, correct_, outcome);
  (void)last_->program->synchronize();
  return status;
}

Result<std::vector<Tensor>> ModelSteps::gradients() {
  if (!fleet_->single()) return sharded_training_->gradients();
  std::vector<Tensor> out(last_->step.gradients.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (last_->step.gradients[i] != kNoValue) ENG_TRY(last_->program->fetch(last_->step.gradients[i], out[i]));
  return out;
}

Result<std::vector<Tensor>> ModelSteps::predictions(int64_t batch, int64_t& first_row) {
  first_row = 0;
  if (fleet_->single()) {
    std::vector<Tensor> out(1);
    ENG_TRY(last_->program->fetch(last_->step.predictions, out[0]));
    return out;
  }
  first_row = fleet_->rows_of_rank(batch).first;
  return sharded_evaluation_->predictions();
}

Result<uint64_t> ModelSteps::prepare(int64_t batch) {
  const size_t places = fleet_->replicas[0].lanes[0].size();
  uint64_t most = 0;
  if (fleet_->single()) {
    ENG_ASSIGN(const CompiledStep* c, training(batch));
    for (size_t p = 0; p < places; ++p) most = std::max(most, c->program->memory(p).total());
    return most;
  }
  ENG_ASSIGN(ShardedStep * step, sharded(true));
  ENG_TRY(step->prepare(batch));
  for (size_t r = 0; r < fleet_->replicas.size(); ++r)
    for (size_t p = 0; p < places; ++p) most = std::max(most, step->memory(r, p));
  return most;
}

void ModelSteps::forget_restored() {
  std::erase_if(restored_, [this](const auto& entry) {
    return std::all_of(fleet_->replicas.begin(), fleet_->replicas.end(), [&](const Replica& r) { return r.store->has(entry.first); });
  });
}

void ModelSteps::unfreeze() {
  unfreeze_all(model_);
  training_.clear();
  sharded_training_.reset();
  last_ = nullptr;
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
    if (store().has(name)) {
      ENG_ASSIGN(out[name], store().get(name));
    } else if (const auto it = restored_.find(name); it != restored_.end()) {
      out[name] = *it->second;
    } else {  // no program has needed it yet
      out[name] = initial.data ? *initial.data : Tensor(initial.dtype, initial.shape);
    }
  }
  return out;
}

// What no program has needed yet gets its place when one is compiled.
Status ModelSteps::restore(const std::map<std::string, Tensor>& contents) {
  for (const auto& [name, content] : contents) {
    bool everywhere = true;
    for (Replica& r : fleet_->replicas) {
      everywhere &= r.store->has(name);
      if (r.store->has(name)) ENG_TRY(r.store->set(name, content));
    }
    if (!everywhere) restored_[name] = std::make_shared<const Tensor>(content);
  }
  return {};
}

Result<Graph> ModelSteps::trained_model() const {
  Graph graph = model_;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    Value& v = graph.value(id);
    if (!kept(v) || !v.data) continue;
    if (store().has(v.name)) {
      ENG_ASSIGN(Tensor content, store().get(v.name));
      v.data = std::make_shared<const Tensor>(std::move(content));
    } else if (const auto it = restored_.find(v.name); it != restored_.end()) {
      v.data = it->second;
    }
  }
  return graph;
}

}  // namespace eng
