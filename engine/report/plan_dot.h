// A plan as GraphViz DOT: a box a group of nodes that stay together, coloured by device, blocks that look the same drawn once.
#pragma once

#include <string>

#include "graph/partition/plan.h"

namespace eng {

std::string to_dot(const Plan& plan, const Graph& step);

}  // namespace eng
