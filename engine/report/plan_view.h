// What people want to see of a plan's nodes: fused groups, blocks of groups that lie between two values through which everything
// passes, and rows in which blocks that look the same stand once ("inception_b_1 .. inception_b_7 x 7"). Text and drawings share it.
#pragma once

#include <string>
#include <vector>

#include "graph/partition/plan.h"

namespace eng {

struct ViewGroup {
  std::string name;        // of its costliest forward node, or of what it updates
  std::string label;       // the last part of the name
  std::string operators;   // "Conv 3x3, BatchNormalization"
  std::string reason;      // of the node that gave the name
  int number = 0, device = 0;
  std::vector<size_t> nodes;  // in Plan::nodes
  double seconds[3] = {};  // forward (with loss), backward, update
  double flops = 0;
  std::vector<int> inputs; // places in PlanView::groups whose results its forward nodes read
  double total() const { return seconds[0] + seconds[1] + seconds[2]; }
};

struct ViewBlock {
  std::string name;
  std::vector<int> groups;  // places in PlanView::groups, in forward order
};

// Equal blocks, one after the other: same operators, same arithmetic, same connections, same devices.
struct ViewRow {
  std::string name;         // of the first one, or "first .. last"
  int first = 0, count = 1; // in PlanView::blocks
};

struct PlanView {
  std::vector<ViewGroup> groups;  // with forward nodes first, in forward order
  std::vector<ViewBlock> blocks;
  std::vector<ViewRow> rows;
};

// `step` is the graph that the plan is of (nodes are found by number, else by the name of their first output).
PlanView view_of(const Plan& plan, const Graph& step);

}  // namespace eng
