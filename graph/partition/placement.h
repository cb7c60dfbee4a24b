// The placement file: which device runs which nodes, as the device scopes of other frameworks.
//   # the two towers
//   tower_a/* = cpu:0
//   tower_b/* = cpu:1
// A pattern (graph/base/glob.h) is compared with the names of forward and loss nodes; a node without a name answers to its
// first output's. Backward and update nodes follow their forward node. Nodes that no line names are left to the planner.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/ir/graph.h"

namespace eng {

struct NodePlaces {
  std::vector<int> device;  // per NodeId: index into the device names; -1 where no line names the node
  std::vector<int> line;    // per NodeId: the line of the file; 0 where none
};

// `where` names the file in messages. All errors at once, with their lines: lines of another form, devices that are not
// there, patterns that match no node, nodes that two lines give to different devices. `absorbed`: names of nodes of the model that the
// step has no longer (a closing softmax is part of the loss): a pattern may match these alone.
Result<NodePlaces> read_placement(const std::string& text, const std::string& where, const Graph& graph,
                                  const std::vector<std::string>& devices, const std::vector<std::string>& absorbed = {});

// The name that patterns are compared with.
std::string placement_name(const Graph& graph, const Node& node);

}  // namespace eng
