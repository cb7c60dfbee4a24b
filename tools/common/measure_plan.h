// A plan with what really happened beside what was predicted.
#pragma once

#include "tools/common/prepare.h"

namespace eng::tools {

// Runs one more training step on the first batch with the times of everything written down (the weights in memory move on; what was saved stays) and
// fills Plan::nodes' measured times, of the first replica's first shard, and the memory of its devices. Devices whose backend keeps no times stay empty.
Status measure_plan(Prepared& prepared, double learning_rate, Plan& plan);

}  // namespace eng::tools
