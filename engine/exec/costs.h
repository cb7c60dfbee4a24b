// What the planner (graph/partition) needs to know of real devices: seconds of every node, links, and what a step costs beside its nodes.
// Measured where it will run, in the form in which it will run (layouts, kernels, threads), once; kept on disk (cost_cache.h), so a second
// run, or another model with the same layers, measures nothing.
//
//   ENG_ASSIGN(Machine machine, measured_machine(devices, options));
//   ENG_ASSIGN(NodeCosts costs, measured_costs(devices, {&step.graph}, options));
//   ENG_ASSIGN(Problem problem, make_problem(step.graph, machine, costs));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/cost_cache.h"
#include "engine/plugin/device.h"
#include "graph/partition/device.h"
#include "graph/partition/groups.h"

namespace eng {

struct CostOptions {
  // So many alike devices compute at the same time and share memory bandwidth and caches: the others are kept busy with the same work
  // while one is timed. 1: it is timed alone.
  int concurrent = 1;
  std::string cache_folder;  // empty: user_cache_folder()
  bool use_cache = true;
  std::function<void(const std::string&)> warn;  // a damaged cache, a cache that cannot be written; may be empty
};

struct CostReport {
  int nodes = 0;       // on each device
  int signatures = 0;  // that differ, over all devices
  int measured = 0;    // of them now; the others were in the cache
  double seconds = 0;  // that measuring took
};

// Of the nodes of these graphs (steps with concrete shapes) on each of `devices`, also when they are asked for in a copy of a graph. Alike
// devices are measured once. What a device refuses has a refusal; a node of no measured graph costs by the rates that the others reached.
// Errors: the devices' own (memory, a kernel that fails).
Result<NodeCosts> measured_costs(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<const Graph*>& graphs,
                                 const CostOptions& options = {}, CostReport* report = nullptr);

// Names, rates and links. Memory limits are left open. A link's time is that of the transfer as a Program makes it: where the devices see
// each other's memory, passing an event and reading in place; else through host memory.
Result<Machine> measured_machine(const std::vector<std::shared_ptr<Device>>& devices, const CostOptions& options = {});

// All of a device that times depend on: backend, version, processor, threads. Alike devices have the same.
std::string kind_of(const Device& device);
// The cache of the options for times of `what`.
CostCache open_cost_cache(const CostOptions& options, const std::string& what);

// Seconds that a step takes beside what its nodes take: enqueuing, starting the devices, coming back. To be added to a simulated makespan.
Result<double> measured_overhead(const std::vector<std::shared_ptr<Device>>& devices, const CostOptions& options = {});

}  // namespace eng
