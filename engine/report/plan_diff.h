// Two plans side by side: what differs in arrangement, predicted times, memory, transfers, candidates and in where nodes run.
#pragma once

#include <string>
#include <vector>

#include "graph/partition/plan.h"

namespace eng {

// One line a difference; empty: the plans say the same. Nodes that moved alike stand together under the part of the name that they,
// and nobody else, share.
std::vector<std::string> differences(const Plan& a, const Plan& b);

}  // namespace eng
