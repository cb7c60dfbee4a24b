// engine-train from its options to its run folder: reads the model and the data, settles head, weights, freezing and loss, trains, and
// writes OUT. The command is a call of run_engine_train.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace eng::tools {

// Words after the command's name. Prints results to stdout, the rest to stderr; returns the exit status.
int run_engine_train(const std::vector<std::string>& words);

}  // namespace eng::tools
