// The compiled steps of one model on the devices of a run: training and evaluation for each batch size that occurs, compiled when first
// asked for and kept. One device and one shard: a step is one program. Else every shard is a program (engine/exec/sharded_step.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/pipeline.h"
#include "engine/exec/fleet.h"
#include "engine/exec/program.h"
#include "engine/exec/sharded_step.h"
#include "engine/exec/state_store.h"
#include "engine/plugin/device.h"
#include "engine/train/checkpoint.h"
#include "graph/ir/graph.h"
#include "graph/surgery/training_step.h"

namespace eng {

// A whole step as one program.
struct CompiledStep {
  Step step;
  std::vector<size_t> feeds;  // step.inputs[i] is the data's input feeds[i]
  std::unique_ptr<Program> program;

  // Inputs and (where the step has them) labels; labels may lack or have a dimension of 1 against what the loss takes. The batch must
  // stay until the next fetch.
  Status feed(const Batch& batch);
};

class ModelSteps {
 public:
  // Gives the nodes of a step their places, among the devices of a replica (Node::place); unset: all on the first.
  using Placer = std::function<Status(Graph& step)>;

  // `model`: shapes not yet bound, parameters marked. `inputs`: what the data deliver for the model's inputs, with concrete sample shapes.
  // `evaluator` folds constants (see graph/passes/infer_shapes.h). With sync_batch_norm in the options the fleet has several shards.
  ModelSteps(Graph model, std::shared_ptr<Fleet> fleet, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs, Placer placer = nullptr);
  // On one device.
  ModelSteps(Graph model, std::shared_ptr<Device> device, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs);

  // A whole step, waiting for its end; `stop`: this rank wants to end after it (see StepOutcome).
  Status train(const Batch& batch, double learning_rate, bool stop, StepOutcome& outcome);
  Status evaluate(const Batch& batch, bool stop, StepOutcome& outcome);
  // After train(): the gradient of each of plan().parameters; fetch_gradients(true) must have been said before.
  Result<std::vector<Tensor>> gradients();
  // After evaluate(): the target output, row by row of what this rank had: rows [first_row, ...) of the batch.
  Result<std::vector<Tensor>> predictions(int64_t batch, int64_t& first_row);

  // The step as one program on the first replica's devices, whatever the fleet has: to look at, and for the single case. Valid until unfreeze().
  Result<CompiledStep*> training(int64_t batch);
  Result<CompiledStep*> evaluation(int64_t batch);
  // The step of a batch size as a graph, not compiled: to look at labels, parameters and the loss form before data are read.
  Result<Step> plan(int64_t batch) const;
  // Compiles what a batch of that size needs. Bytes that the fullest device holds then.
  Result<uint64_t> prepare(int64_t batch);
  // From now on training steps are compiled to take at most so many bytes of each device; before the first is. What is not kept is made again
  // in the backward phase; the bits stay the same. prepare() says where that is not enough.
  void limit_memory(uint64_t bytes) { memory_limit_ = bytes; }
  struct MemoryChoice {
    int64_t recomputed = 0;      // activations
    double slow_down = 1;        // predicted
    uint64_t bytes = 0, bytes_without = 0, smallest = 0;  // predicted for a device; smallest: that could be met
  };
  const MemoryChoice& memory_choice() const { return memory_choice_; }

  // From now on every parameter is trained. Optimiser slots of those that were frozen start at their first content.
  void unfreeze();
  bool any_frozen() const;
  // Whether training programs also hand out the gradients.
  void fetch_gradients(bool wanted);

  // Everything that a checkpoint holds, with its present content: the model's parameters and running statistics and the states of its
  // training step (the same for every batch size and any number of devices; `batch` is any that occurs).
  Result<std::map<std::string, Tensor>> contents(int64_t batch);
  Status restore(const std::map<std::string, Tensor>& contents);
  // The model as it came, with the present weights and running statistics.
  Result<Graph> trained_model() const;

  const Graph& model() const { return model_; }
  const StepOptions& options() const { return options_; }
  const std::vector<SampleSpec>& inputs() const { return inputs_; }
  StateStore& store() { return *fleet_->replicas[0].store; }
  const StateStore& store() const { return *fleet_->replicas[0].store; }
  Fleet& fleet() { return *fleet_; }

 private:
  ShapeBinding binding(int64_t batch) const;
  void adopt(Graph& graph) const;  // restored contents that not every store has yet
  void forget_restored();          // those that every store has
  Status place(Graph& graph) const;
  Result<CompiledStep*> compile(Step step, bool training, std::unique_ptr<CompiledStep>& slot);
  Result<ShardedStep*> sharded(bool training);
  Status run_sharded(bool training, const Batch& batch, double learning_rate, bool stop, StepOutcome& outcome);
  Result<std::vector<size_t>> feeds_of(const Step& step) const;
  Status fit(Step& step, const std::vector<ValueId>& fetches, const std::vector<ValueId>& external, uint64_t beside);
  Result<uint64_t> beside_a_shard(const Step& shard) const;
  Status collect_initial(int64_t batch);

  Graph model_;
  std::shared_ptr<Fleet> fleet_;
  Evaluator evaluator_;
  StepOptions options_;
  std::vector<SampleSpec> inputs_;
  Placer placer_;
  std::map<int64_t, std::unique_ptr<CompiledStep>> training_, evaluation_;
  std::unique_ptr<ShardedStep> sharded_training_, sharded_evaluation_;
  std::vector<size_t> sharded_feeds_;
  std::vector<ShardFeed> feed_list_;
  CompiledStep* last_ = nullptr;
  uint64_t memory_limit_ = 0;
  MemoryChoice memory_choice_;
  Tensor loss_, correct_;
  struct Initial {
    DType dtype;
    Shape shape;
    std::shared_ptr<const Tensor> data;  // null: zeros
  };
  std::map<std::string, Initial> initial_;  // what a checkpoint holds; empty: not asked for since the last change
  std::map<std::string, std::shared_ptr<const Tensor>> restored_;
};

}  // namespace eng
