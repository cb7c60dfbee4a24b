// A plan as one page that needs nothing from outside: the pictures of plan_svg.h, and tables that a click on a heading sorts.
#pragma once

#include <string>

#include "graph/partition/plan.h"

namespace eng {

// Well-formed XML too.
std::string to_html(const Plan& plan, const Graph& step);

}  // namespace eng
