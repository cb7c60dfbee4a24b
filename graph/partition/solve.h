// The placement solver: graph/partition/series_search.h along the series, then global improvement under simulate(), with
// memory as a hard limit. "Everything on device d" is a candidate for every d, so the result is never predicted slower than
// the best single device that has the memory. The same problem gives the same result on every run and machine.
#pragma once

#include <string>
#include <vector>

#include "graph/partition/plan.h"
#include "graph/partition/simulate.h"

namespace eng {

struct SolveOptions {
  bool exact_small = true;  // few groups: all placements are searched, with pruning. Off, the way of big problems is taken
  size_t exact_groups = 24;  // a set of groups that branch and bound may go through at once
};

struct OneDevice {
  int device = 0;
  Score score;       // where `note` is empty
  std::string note;  // why it cannot be: "cannot run 'conv1': ...", "needs 3.2 GB, has 2.0 GB", "'a' is forced to cpu:1"
};

struct Solution {
  Placement placement;
  Score score;
  std::string method;
  std::vector<OneDevice> one_device;  // per device
  PlanBound bound;
  int64_t simulations = 0;
};

// What each device could do alone; Solution::one_device is the same.
std::vector<OneDevice> each_device_alone(const Problem& problem);

// A placement that fits into every device's memory. kDevice error where none was found: it states by how much the closest
// one is too big, and where.
Result<Solution> solve(const Problem& problem, const SolveOptions& options = {});

// "3.2 GB", "17 MB", "512 bytes": for messages and reasons.
std::string bytes_text(uint64_t bytes);
// "3.1 ms", "2.50 s".
std::string seconds_text(double seconds);

}  // namespace eng
