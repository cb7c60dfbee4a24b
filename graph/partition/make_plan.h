// Writes a solution out as a plan: per node device, reason and times, transfers, memory, candidates, bound.
#pragma once

#include "graph/partition/placement.h"
#include "graph/partition/plan.h"
#include "graph/partition/solve.h"

namespace eng {

// `problem` comes from make_problem(step, ...), `solution` from solve(problem). Candidates: each device alone, and the
// placement itself where it uses several devices. The plan's devices are the problem's.
Plan make_plan(const Graph& step, const Problem& problem, const Solution& solution);

// Device by node (index: NodeId) of a plan that was made for this graph; nodes are found by node number, or by output name in
// a plan that was read from a file. Errors list the nodes of the graph that the plan lacks and its nodes that the graph lacks.
Result<std::vector<int>> devices_of(const Plan& plan, const Graph& step);

// The same as what a placement file would say, to predict a plan that was given (make_problem, solve, make_plan): its nodes stay
// where they are. An error lists backward nodes that the plan has elsewhere than their forward node.
Result<NodePlaces> places_of(const Plan& plan, const Graph& step);

// Takes devices that no node runs on out of the plan's replicas.
void drop_idle_devices(Plan& plan);

}  // namespace eng
