// Cuts a model's classifier off and puts a new one with another number of classes there, and says what it did.
// The last weight-bearing node before the output (Gemm, MatMul + Add, or a convolution whose result is only pooled) is the head: it gets
// fresh weights, everything after it (activation, reshapes, softmax) stays. With cut_at, the model is cut behind that node instead
// and pooling (for rank 4), dropout if asked, a dense layer and Softmax are added.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/passes/bind_shapes.h"
#include "graph/passes/infer_shapes.h"

namespace eng {

struct HeadOptions {
  int64_t classes = 0;
  std::string cut_at;   // node name or value name; empty: the head is found
  double dropout = 0;   // in front of the new dense layer
  uint64_t seed = 0;    // of the fresh weights: Glorot uniform, bias zero (Keras's Dense)
  std::string target;   // output; empty: see find_target
};

struct HeadReport {
  std::string found, cut, put;         // one line each, for people
  int64_t old_classes = 0;
  std::vector<std::string> new_parameters, old_parameters;
};

// `binding` gives sizes that the file leaves open, so that shapes are known. Roles must be marked.
// Errors say what the tail looked like and suggest --cut-at; the model is unchanged then.
Result<HeadReport> replace_head(Graph& model, const HeadOptions& options, const ShapeBinding& binding, const Evaluator& evaluator);

}  // namespace eng
