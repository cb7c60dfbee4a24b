// A plan as a file: versioned JSON in a stable order with a line a node, so that two plans can be compared line by line and one can be
// edited by hand and given back. Devices go by name. docs/plans.md describes the members.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/partition/plan.h"

namespace eng {

// Reads back to the same plan (but for PlanNode::node, which is an index of a graph in memory).
std::string to_json(const Plan& plan);

// `where` names the text in messages. Every member is checked: malformed JSON is refused with line and column, everything else
// (types, ranges, names of devices, members that are missing, unknown or given twice, another version) with the lines and what
// was wanted, at most 20 findings at once. `node_lines`: the line of each of Plan::nodes.
Result<Plan> parse_plan(const std::string& text, const std::string& where, std::vector<int>* node_lines = nullptr);
Result<Plan> read_plan(const std::string& path, std::vector<int>* node_lines = nullptr);

}  // namespace eng
