// A plan on one page of text: where each part runs, why, what it costs, the memory of each device over the step, what was refused and
// by what margin, what crosses, how far it is from the lower bound; measured beside predicted where there is a measurement.
#pragma once

#include <string>

#include "graph/partition/plan.h"

namespace eng {

// `step` is the graph that the plan is of. Blocks that look the same share a line; at most about 60 lines, however big the graph.
std::string to_text(const Plan& plan, const Graph& step);

}  // namespace eng
