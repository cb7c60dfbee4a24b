// Pictures of a plan. Each is one <svg> element that needs nothing from outside; times and reasons are in tooltips.
#pragma once

#include <string>

#include "graph/partition/plan.h"

namespace eng {

// The graph in blocks, coloured by device; blocks that look the same are drawn once. Red edges cross from one device to another.
std::string graph_picture(const Plan& plan, const Graph& step);
// A lane a device: forward, backward and update tasks over time, transfers between the lanes, the lower bound as a line; measured
// times under the predicted ones where there are any.
std::string timeline_picture(const Plan& plan);
// Bytes alive over the step, a curve a device, with its limit.
std::string memory_picture(const Plan& plan);
// All three, one under the other.
std::string to_svg(const Plan& plan, const Graph& step);

}  // namespace eng
