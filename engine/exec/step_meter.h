// Times the nodes of a whole step while it runs: every node finds caches, memory and neighbours as it will find them later. Needs a device
// that takes every node, has the memory for the step, and keeps times of its work (Device::can_trace).
#pragma once

#include <memory>
#include <vector>

#include "engine/exec/node_meter.h"
#include "engine/plugin/device.h"

namespace eng {

struct StepTimes {
  Graph graph;                    // as it ran: after the passes of Program::compile
  std::vector<NodeId> nodes;      // with kernels, in the order in which they ran
  std::vector<NodeTime> times;    // of them
};

// `lanes[0]` is timed while the other lanes run the same step. Inputs get random numbers, scalars and integers zero. The lower quartile of a few
// steps counts: at least two, more where they are short. Errors: those of Program::compile and of the work.
Result<StepTimes> time_step(const std::vector<std::shared_ptr<Device>>& lanes, const Graph& step);

}  // namespace eng
