// Attaches a loss to a model's output. The tail is recognised, so that the loss is computed from logits whatever the file
// ends in: Softmax, LogSoftmax, Sigmoid (also behind Identity, Reshape, Flatten, Squeeze, Cast) or nothing. Never a softmax twice.
#pragma once

#include <string>

#include "graph/ir/graph.h"

namespace eng {

enum class LossKind { kAuto, kSparseCategorical, kCategorical, kBinary, kMeanSquaredError };

// "sparse_categorical_crossentropy", ... ; an unknown name lists the known ones.
Result<LossKind> parse_loss(const std::string& name);
std::string name_of(LossKind kind);

struct AttachedLoss {
  LossKind kind = LossKind::kAuto;  // what kAuto became
  ValueId labels = kNoValue;        // new graph input: int64 [N] (sparse), float32 [N,C] (categorical), of the output's shape (binary, mse)
  ValueId loss = kNoValue;          // scalar, mean over the batch
  ValueId correct = kNoValue;       // int64 scalar, right predictions in the batch; kNoValue for mse
  int64_t classes = 0;
  std::string note;                 // for the log: what the tail was and what was attached
};

// Shapes must have been inferred. `output` is the model's output that holds one row a sample.
// kAuto: binary for one column or a Sigmoid tail, sparse categorical otherwise.
Result<AttachedLoss> attach_loss(Graph& graph, ValueId output, LossKind kind);

}  // namespace eng
