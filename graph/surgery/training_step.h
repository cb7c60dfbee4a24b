// From a model (inference form, roles marked, head and freezing settled) to one graph that is a whole step:
//   training    forward in training form, loss, backward, updates
//   evaluation  forward in inference form, loss, right predictions
// A sharded training step (StepOptions::sharded) ends with what a shard adds to the sums over all shards; the optimiser is a graph of its
// own, the update step, that every device runs on the sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/bind_shapes.h"
#include "graph/passes/infer_shapes.h"
#include "graph/surgery/loss.h"
#include "graph/surgery/optimizer.h"

namespace eng {

struct StepOptions {
  LossKind loss = LossKind::kAuto;
  OptimizerSpec optimizer;
  bool freeze_bn = false;
  std::string target;                  // name of the output that is trained; empty: the first floating one
  uint64_t seed = 0;                   // of dropout
  bool gradients_as_outputs = false;   // keeps every parameter's gradient until the end, for --write-gradients
  bool sharded = false;
  bool sync_batch_norm = false;        // sharded: statistics of a batch normalisation are those of all shards together
};

struct Step {
  Graph graph;                          // graph.outputs: loss, correct, predictions, gradients as asked for
  std::vector<ValueId> inputs;          // the model's own inputs that the target needs, in model order
  ValueId labels = kNoValue, learning_rate = kNoValue, loss = kNoValue, correct = kNoValue;
  ValueId predictions = kNoValue;       // the target output (evaluation only)
  std::vector<ValueId> parameters, gradients;
  LossKind loss_kind = LossKind::kAuto;
  int64_t classes = 0;
  std::string loss_note;
  // Sharded only. `loss` is the shard's own mean; `gradients` and `statistics` are scaled by the fed share, rows of the shard / rows of the batch.
  ValueId share = kNoValue;             // scalar input of the loss's type
  ValueId random_offset = kNoValue;     // int64 [2] input, added to the random state, so that shards draw different bits; kNoValue without dropout
  // Running statistics and the shard's part of their next content: next = sum over shards of share * (old * momentum + batch's * (1 - momentum)).
  std::vector<std::pair<ValueId, ValueId>> statistics;
  std::vector<std::pair<ValueId, ValueId>> counters;  // states whose next content needs nothing of the batch, left to the update step
};

// The optimiser on sums over shards. Inputs `sums`: a gradient for each of Step::parameters, then what is in Step::statistics.
struct UpdateStep {
  Graph graph;
  std::vector<ValueId> sums;
  ValueId learning_rate = kNoValue;
};

// Errors: unsupported nodes, nodes without a gradient (all at once), shapes that do not fit, nothing to train.
Result<Step> build_training_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator);
Result<Step> build_evaluation_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator);

// Of a sharded step, for any batch size; states and parameters have the names of the step's.
Result<UpdateStep> build_update_step(const Step& sharded, const OptimizerSpec& optimizer);

// What is fed as random_offset for a shard. Shard 0 draws what an unsharded step draws.
Tensor random_offset_of(int64_t shard);

// The target output alone, for engine-predict: no labels, no loss. `predictions` is set.
Result<Step> build_prediction_step(const Graph& model, const ShapeBinding& binding, const std::string& target, const Evaluator& evaluator);

// The output that `target` names, or the first floating output that depends on a parameter. Errors list the outputs.
Result<ValueId> find_target(const Graph& model, const std::string& target);

}  // namespace eng
