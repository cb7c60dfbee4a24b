// What weights.cpp, keras_match.cpp share: a list of assignments that is made and checked before anything is changed.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "importers/keras/keras.h"
#include "importers/weights/weights.h"

namespace eng {

struct Assignment {
  ValueId value = kNoValue;
  std::string layer, tensor_name;  // file's
  Tensor content;                  // in the model's arrangement, where it fits
  Shape file_shape;
  std::string group;               // tensors of a group are skipped together
  bool freeze = false;             // a default for something that the file lacks
};

struct LoadPlan {
  std::vector<Assignment> assignments;
  LoadReport report;
};

// A weight of the graph: has content, and is a parameter, state, or float constant.
bool is_weight(const Graph& graph, ValueId id);
// Keras's layers to nodes: fills assignments, defaults and only_in_file.
Status plan_keras(const Graph& graph, const KerasWeights& weights, LoadPlan& plan);

}  // namespace eng
