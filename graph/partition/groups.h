// From a step graph to a partition problem: nodes are fused into groups, and what flows between groups is found.
//  - A forward node joins the group of the node before it where that is its only maker of inputs, it is the only reader, and it
//    has no weight matrix of its own: Conv + BatchNormalization + Relu is one group. The loss is one group. Nodes that other devices
//    refuse than those that refuse the rest stay apart.
//  - Backward nodes sit with their forward node.
//  - A parameter or state belongs to the first forward group that reads it, and its update node runs there. Other groups that
//    read it get a copy at the start of each step; their gradients are summed by the owner before its update.
//  - Update nodes that belong to no parameter (the norm of all gradients, a step counter) are a group of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/partition/placement.h"
#include "graph/partition/problem.h"

namespace eng {

struct NodeCost {
  double seconds = 0;
  uint64_t scratch_bytes = 0;  // workspace of the kernel
  std::string refusal;         // not empty: the device cannot run the node
};
// Of one node on one device of the machine.
using NodeCosts = std::function<NodeCost(const Graph& graph, NodeId node, int device)>;

// The longer of FLOPs at full speed and bytes at full bandwidth (graph/ops/op.h); nothing is refused.
NodeCosts roofline_costs(const Machine& machine);

// `step` has shapes (graph/surgery/training_step.h). `places`: what the placement file says, or empty. The problem is finished.
// Errors: nodes that no device can run, nodes forced where they cannot run.
Result<Problem> make_problem(const Graph& step, const Machine& machine, const NodeCosts& costs, const NodePlaces& places = {});

}  // namespace eng
