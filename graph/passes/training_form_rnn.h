// Turns LSTM and GRU nodes into ai.engine::LstmTraining and GruTraining, which keep what their gradient needs; run it before
// differentiating, so that the gradient does not run the forward pass once more. What the nodes compute does not change.
#pragma once

#include "graph/ir/graph.h"

namespace eng {

// Shapes must have been inferred; those of the new outputs are too.
Status rnn_training_form(Graph& graph);

}  // namespace eng
