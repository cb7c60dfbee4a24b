// Options of the optimiser that engine-train and engine-graph share: their rows, and which of them go together.
#pragma once

#include <string>
#include <vector>

#include "graph/surgery/optimizer.h"
#include "tools/common/option_table.h"

namespace eng::tools {

// The rows point into `spec`, which must outlive them.
OptionRow optimizer_row(OptimizerSpec& spec, const std::string& help);
std::vector<OptionRow> momentum_rows(OptimizerSpec& spec);  // --momentum, --nesterov
std::vector<OptionRow> adaptive_rows(OptimizerSpec& spec);  // --rho, --beta1, --beta2, --epsilon
std::vector<OptionRow> gradient_rows(OptimizerSpec& spec);  // --weight-decay, --clip-norm, --clip-value

// kUsage for an option that would do nothing beside the others, or has no meaning.
Status check_optimizer(const OptimizerSpec& spec);

}  // namespace eng::tools
