// A lower bound of the makespan of every placement that fits, so that a plan can say how far it may be from the best.
#pragma once

#include "graph/partition/plan.h"
#include "graph/partition/problem.h"

namespace eng {

// critical_path  the longest chain of tasks, each on its best device, nothing transferred
// work           the least time in which the devices can do all tasks, each task split at will over those that may run it
// crossings      as critical_path, but each task on its best device in view of what its inputs must pay to come there
PlanBound lower_bound(const Problem& problem);

}  // namespace eng
