// Ranks that were given different things would train together all the same and come out with weights that mean nothing: before the first step they
// compare what they have.
#pragma once

#include "tools/common/prepare.h"

namespace eng::tools {

// Options (but for paths and what does not count), the model with its weights, the data (number, classes and the content of some samples). All ranks
// call it. The error names the first rank that differs from rank 0 and in what. One rank: nothing.
Status check_agreement(TrainOptions options, const Prepared& prepared);

}  // namespace eng::tools
