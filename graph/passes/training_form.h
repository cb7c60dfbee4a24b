// Gives nodes that files hold in inference form their meaning in training:
//   Dropout                -> ai.engine::RandomDropout with the graph's random state (an omitted or zero ratio: Identity)
//   BatchNormalization     -> ai.engine::BatchNormTraining: batch statistics; running ones become updates. Kept as it is where
//                             its scale and bias are frozen, or with freeze_statistics.
// Roles must have been set (graph/passes/mark_parameters.h). Shapes need not be known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct TrainingForm {
  uint64_t seed = 0;               // of the random state, created only where a Dropout needs it
  bool freeze_statistics = false;  // --freeze-bn
};

inline constexpr const char* kRandomStateName = "random/state";

Status training_form(Graph& graph, const TrainingForm& options);

}  // namespace eng
