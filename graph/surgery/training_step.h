// From a model (inference form, roles marked, head and freezing settled) to one graph that is a whole step:
//   training    forward in training form, loss, backward, updates
//   evaluation  forward in inference form, loss, right predictions
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
};

// Errors: unsupported nodes, nodes without a gradient (all at once), shapes that do not fit, nothing to train.
Result<Step> build_training_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator);
Result<Step> build_evaluation_step(const Graph& model, const ShapeBinding& binding, const StepOptions& options, const Evaluator& evaluator);

// The target output alone, for engine-predict: no labels, no loss. `predictions` is set.
Result<Step> build_prediction_step(const Graph& model, const ShapeBinding& binding, const std::string& target, const Evaluator& evaluator);

// The output that `target` names, or the first floating output that depends on a parameter. Errors list the outputs.
Result<ValueId> find_target(const Graph& model, const std::string& target);

}  // namespace eng
