// Binds the symbolic dimensions of the graph's inputs: the first dimension of an input is the batch; equal names get equal
// sizes. After it every input has a concrete shape and infer_shapes can run.
#pragma once

#include <map>
#include <string>

#include "graph/ir/graph.h"

namespace eng {

struct ShapeBinding {
  int64_t batch = 1;                    // for a symbolic first dimension (and for a fixed first dimension of 1 where rebatch is set)
  bool rebatch = true;                  // a file exported with a fixed batch (first dimension) is run with `batch` instead
  std::map<std::string, Shape> shapes;  // by input name: the whole shape, -1 for "as declared"; wins over the rest
};

// Errors name the input and its unknown dimensions.
Status bind_shapes(Graph& graph, const ShapeBinding& binding);

}  // namespace eng
