// engine-train's ways to look at a step instead of training: --dry-run (memory), --check-gradients, --profile.
#pragma once

#include "tools/common/prepare.h"

namespace eng::tools {

Status inspect_step(const TrainOptions& options, Prepared& prepared, const Console& console);

}  // namespace eng::tools
