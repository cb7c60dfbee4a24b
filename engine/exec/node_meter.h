// Times one node by itself on a device: kernel, operands and workspace are made for it, it runs a few times for warming up and then until
// the time is known well enough. Inputs that a step would just have made are warm, weights are read from one of several places in turn.
#pragma once

#include <memory>
#include <vector>

#include "engine/plugin/device.h"

namespace eng {

struct NodeTime {
  double seconds = 0;           // a launch included
  uint64_t workspace = 0;
};

// `lanes[0]` is timed while the other lanes do the same; all are handles of alike devices. The node has the layouts that it will run with.
// An error of code kUnsupported is a refusal of the device.
Result<NodeTime> time_node(const std::vector<std::shared_ptr<Device>>& lanes, const Graph& graph, const Node& node);

}  // namespace eng
