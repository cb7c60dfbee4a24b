// Binds the symbolic dimensions of the graph's inputs: the first dimension of an input is the batch; equal names get equal
// sizes. Where some inputs have a symbolic first dimension, one that is fixed is no batch (an initial state [1,1,128]) and stays;
// where all are fixed, the file was exported with that batch, and `rebatch` replaces it. After it every input has a concrete shape and infer_shapes can run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct ShapeBinding {
  int64_t batch = 1;                    // for a symbolic first dimension (and for a fixed first dimension of 1 where rebatch is set)
  bool rebatch = true;                  // a file exported with a fixed batch (first dimension) is run with `batch` instead
  std::map<std::string, Shape> shapes;  // by input name: the whole shape, -1 for "as declared"; wins over the rest
};

// The batch that all inputs declare as a number; -1 where one is symbolic, an input is a scalar, or they differ.
int64_t fixed_batch(const Graph& graph);

// Whether input v has a batch as its first dimension, by the rule above.
bool is_batched(const Graph& graph, ValueId input);

// Inputs that are no batch and that `binding` does not mention (initial states of a recurrence) become constant zeros. Returns their names.
std::vector<std::string> zero_unbatched_inputs(Graph& graph, const ShapeBinding& binding);

// Errors name the input and its unknown dimensions.
Status bind_shapes(Graph& graph, const ShapeBinding& binding);

}  // namespace eng
