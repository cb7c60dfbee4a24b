// The joint choice over D devices: how many replicas, and over how many devices each replica's branches are split. Candidates:
// each device alone, one group of all devices, D replicas of one device, and R replicas of D / R devices for every divisor R.
#pragma once

#include <functional>
#include <vector>

#include "graph/partition/plan.h"
#include "graph/partition/solve.h"

namespace eng {

// The problem of one shard of `batch` examples on these devices of the machine (in this order), without the all-reduce. Its
// error means that these devices are no candidate.
using ProblemSource = std::function<Result<Problem>(int64_t batch, const std::vector<int>& devices)>;

struct StrategyOptions {
  int64_t batch = 1;  // of the whole step
  int shards = 0;     // into which it is divided; a replica computes whole ones. 0: one for each replica
  int replicas = 0;   // only this number; 0: free
  // With a free number: what several devices must promise to gain over the best single one. Predictions are not exact, and a plan
  // that turns out slower than one device is worse than one that leaves a little time unused.
  double least_gain = 0.02;
  SolveOptions solve;
};

struct Strategy {
  int replicas = 1, shards_per_replica = 1;
  int64_t shard_batch = 1;
  std::vector<std::vector<int>> replica_devices;
  Problem problem;        // of the first replica
  Solution solution;
  double seconds = 0;     // of a step: that of the slowest replica
  std::vector<PlanCandidate> candidates;
};

// Gradients summed along a binary tree over replicas and handed back the same way, on the slowest links that this uses.
AllReduce tree_all_reduce(const Machine& machine, const std::vector<std::vector<int>>& replica_devices);

// The fastest candidate that fits; ties go to the one named first (fewer replicas). It is never predicted slower than the best
// single device. An error where none is possible lists all candidates with what they lack.
Result<Strategy> choose_strategy(const Machine& machine, const StrategyOptions& options, const ProblemSource& source);

// The chosen strategy as a plan; devices that are left idle are not in it. `step` is the graph of one shard.
Plan make_plan(const Graph& step, const Machine& machine, const StrategyOptions& options, const Strategy& strategy);

}  // namespace eng
