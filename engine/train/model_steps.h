// The programs of one model on one device: a training step and an evaluation for each batch size that occurs, compiled when first
// asked for and kept. All share one StateStore, so every weight exists once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/pipeline.h"
#include "engine/exec/program.h"
#include "engine/exec/state_store.h"
#include "engine/plugin/device.h"
#include "engine/train/checkpoint.h"
#include "graph/ir/graph.h"
#include "graph/surgery/training_step.h"

namespace eng {

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
  // `model`: shapes not yet bound, parameters marked. `inputs`: what the data deliver for the model's inputs, with concrete sample shapes.
  // `evaluator` folds constants (see graph/passes/infer_shapes.h).
  ModelSteps(Graph model, std::shared_ptr<Device> device, Evaluator evaluator, StepOptions options, std::vector<SampleSpec> inputs);

  // Valid until unfreeze().
  Result<CompiledStep*> training(int64_t batch);
  Result<CompiledStep*> evaluation(int64_t batch);
  // The step of a batch size as a graph, not compiled: to look at labels, parameters and the loss form before data are read.
  Result<Step> plan(int64_t batch) const;

  // From now on every parameter is trained. Optimiser slots of those that were frozen start at their first content.
  void unfreeze();
  bool any_frozen() const;
  // Whether training programs also hand out the gradients (Step::gradients can be fetched).
  void fetch_gradients(bool wanted);

  // Everything that a checkpoint holds, with its present content: the model's parameters and running statistics and the states of its
  // training step (the same for every batch size; `batch` is any that occurs).
  Result<std::map<std::string, Tensor>> contents(int64_t batch);
  Status restore(const std::map<std::string, Tensor>& contents);
  // The model as it came, with the present weights and running statistics.
  Result<Graph> trained_model() const;

  const Graph& model() const { return model_; }
  const StepOptions& options() const { return options_; }
  const std::vector<SampleSpec>& inputs() const { return inputs_; }
  StateStore& store() { return *store_; }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  ShapeBinding binding(int64_t batch) const;

  Graph model_;
  std::shared_ptr<Device> device_;
  Evaluator evaluator_;
  std::shared_ptr<StateStore> store_;
  StepOptions options_;
  std::vector<SampleSpec> inputs_;
  std::map<int64_t, std::unique_ptr<CompiledStep>> training_, evaluation_;
  struct Initial {
    DType dtype;
    Shape shape;
    std::shared_ptr<const Tensor> data;  // null: zeros
  };
  Result<CompiledStep*> compile(Step step, bool training, std::unique_ptr<CompiledStep>& slot);
  Status collect_initial(int64_t batch);
  std::map<std::string, Initial> initial_;  // what a checkpoint holds; empty: not asked for since the last change
};

}  // namespace eng
