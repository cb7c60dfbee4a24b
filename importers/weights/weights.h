// Weights by name into a graph, from Keras's HDF5, safetensors or another ONNX file (told apart by content). Call it after import and
// before any pass: it looks for Conv, Gemm, BatchNormalization and so on as the file has them.
//
// safetensors and ONNX: a tensor goes to the initializer of the same name.
// Keras: the layer "conv1" goes to the node of that name, else to the one node of a fitting operator that has "conv1" as a part of
//   its name between '/' ("model/conv1/Conv2D"), or whose weight's name begins with "conv1" and one of . / _ : (as "conv1.weight",
//   "conv1/kernel:0"), tried in this order. kernel HWIO becomes OIHW, depthwise HWIM becomes (I*M)1HW, dense (in,out) becomes what Gemm or
//   MatMul wants; Theano's OIHW is taken as it is, turned by 180 degrees if the file says backend theano. A dense layer's bias may be
//   the Add behind its MatMul. Batch norm without gamma gets 1, without beta 0, frozen and listed in `defaults`.
// A tensor of another shape is an error that names the layer and both shapes, or, with skip_mismatch, is left out together with
// the other tensors of its layer. Nothing is changed in the graph when an error is returned.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct LoadOptions {
  bool skip_mismatch = false;
  // A head whose file has exactly one class more loses the file's first (background) row: row k is the file's row k+1.
  bool drop_background = false;
};

struct LoadReport {
  struct Skipped {
    std::string layer, tensor;       // file's layer or tensor name; the graph's initializer
    Shape file_shape, model_shape;   // as stored on each side
    ValueId value = kNoValue;        // to be initialised anew by the caller
  };
  std::vector<std::string> loaded;        // the graph's initializers
  std::vector<Skipped> skipped;           // of a layer with a mismatch: all its tensors
  std::vector<std::string> defaults;      // "bn1: no gamma in the file, 1 is used and not trained"
  std::vector<std::string> only_in_file;  // layers or tensors without a place
  std::vector<std::string> only_in_model; // weights that the file has nothing for
  std::vector<std::string> summary() const;  // lines for the log
};

Result<LoadReport> load_weights(Graph& graph, const std::string& path, const LoadOptions& options = {});

}  // namespace eng
