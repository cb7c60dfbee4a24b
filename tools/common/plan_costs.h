// What a plan is made from on this machine: seconds of nodes, links between devices. And plans that are given as files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/partition/groups.h"
#include "graph/partition/plan.h"
#include "graph/surgery/training_step.h"
#include "tools/common/console.h"

namespace eng::tools {

struct PlanCosts {
  Machine machine;
  NodeCosts nodes;  // by the machine's device numbers
};

// `how`: "measured" (on the devices, once; kept in the cache folder) or "estimated" (from FLOPs and bytes, no device is used).
Result<PlanCosts> plan_costs(const std::vector<std::string>& devices, int threads, const std::string& how,
                             const std::function<Result<Step>(int64_t rows)>& step_of, const Console& console);

// A plan file for a step: its devices must be those named (in any order), its nodes the step's.
Result<Plan> given_plan(const std::string& path, const std::vector<std::string>& devices, const Graph& step);

}  // namespace eng::tools
