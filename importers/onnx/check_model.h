// Structure of a ModelProto before anything is built from it: versions, names given once and before they are read, no cycles, operators
// called as their schema says, in the graph, its sub-graphs and the functions. All problems come back in one error.
// Policy: nodes must be sorted, as ONNX demands; an unsorted graph is refused with the two nodes that should change places.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace onnx {
class ModelProto;
class NodeProto;
}

namespace eng {

Status check_model(const onnx::ModelProto& model, std::vector<std::string>* warnings);

// "Conv 'block1/conv'", or "Conv with output 'x'", as Graph::label() writes it.
std::string label_of(const onnx::NodeProto& node);
// ONNX's own domain has two spellings, "" and "ai.onnx"; this gives "".
std::string plain_domain(const std::string& domain);

}  // namespace eng
