// Attaches an optimiser: one update node a parameter, its slots as states, gradient clipping before it.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

// Names and defaults are Keras's; weight_decay is decoupled for adamw (w -= lr * weight_decay * w) and added to the gradient
// otherwise. The rate is fed at each step: schedules and time decay are the training loop's.
struct OptimizerSpec {
  std::string kind = "sgd";  // sgd, rmsprop, adam, adamw
  double momentum = 0;       // sgd
  bool nesterov = false;     // sgd
  double rho = 0.9;          // rmsprop
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clip_norm = 0;      // of all gradients together; 0: off
  double clip_value = 0;     // of each element; 0: off
};

inline constexpr const char* kOptimizerStepName = "optimizer/step";

// Adds the nodes, states "<parameter>/<slot>" (without data: they start at zero) and graph.updates.
// gradients[i] is d loss / d parameters[i]. Returns the float32 scalar graph input "learning_rate".
Result<ValueId> attach_optimizer(Graph& graph, const std::vector<ValueId>& parameters, const std::vector<ValueId>& gradients, const OptimizerSpec& spec);

}  // namespace eng
