// Scores of predictions against class numbers, in double precision.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng::tools {

// Rows of class probabilities. One column p means two classes, 1-p and p.
struct Probabilities {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
};

// Makes probabilities of a model's output [N,C] (or [N], [N,1,1], ...): rows that are probabilities already (all in [0,1], summing to 1 within
// 1e-3; one column in [0,1]) are taken as they are, rows that sum to 1 after exp() are log-probabilities, others are logits (softmax, or
// sigmoid of one column). `note` says which.
Result<Probabilities> to_probabilities(const Tensor& output, std::string& note);

// Rows of a model's output that hold something that is no number (NaN); the first of them in `first`.
int64_t rows_without_numbers(const Tensor& output, int64_t& first);
// -1 where the row holds a NaN.
int64_t predicted_class(const Probabilities& p, int64_t row);
double accuracy(const Probabilities& p, const std::vector<int64_t>& labels);
// Mean of -log p(label), p clipped to [1e-15, 1-1e-15] as scikit-learn once did and Keras users know it.
double log_loss(const Probabilities& p, const std::vector<int64_t>& labels);
// Area under the ROC curve of class 1 for two classes (ties count one half), the mean of one-against-rest areas otherwise. An error where a
// class that is needed has no sample or nothing else has.
Result<double> area_under_curve(const Probabilities& p, const std::vector<int64_t>& labels);

}  // namespace eng::tools
