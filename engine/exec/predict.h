// The time of a step whose nodes have places, as a Program runs it: node by node, in its order, with its transfers. Finer than
// graph/partition/simulate.h, which plans by groups: here a gradient crosses as soon as its own node is done, copies of shared weights take
// their reader's time, and a device that works beside another is slower than one that works alone.
#pragma once

#include <vector>

#include "engine/exec/costs.h"
#include "graph/partition/plan.h"

namespace eng {

struct StepCosts {
  Machine machine;
  NodeCosts alone;      // measured_costs with concurrent = 1
  NodeCosts together;   // with concurrent = the number of devices; between the two the times lie on a line
  double overhead = 0;  // measured_overhead
};

// All of it for these devices and steps.
Result<StepCosts> measured_step_costs(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<const Graph*>& graphs, CostOptions options = {});

struct StepPrediction {
  double seconds = 0;                // of the step, with the overhead
  std::vector<NodeId> nodes;         // of the given graph, in the given order
  std::vector<Span> spans;           // of them, from the beginning of the step
  std::vector<double> busy;          // per device
};

// `step`: Node::place of every forward node set (others follow, see place_rest); nodes in the order of the plan.
Result<StepPrediction> predict_step(const Graph& step, const StepCosts& costs);

}  // namespace eng
