// Searches over placements whose judge is simulate(): exact branch and bound over a few groups while the rest stays, and
// local improvement by moving and swapping whole units. Both end by counts of simulations, never by the clock.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/partition/simulate.h"

namespace eng {

// What the search may add to the makespan: for each group and device, in seconds (group * devices + device). The series
// search prices memory with it. Empty: nothing.
using Prices = std::vector<double>;

struct Judged {
  Placement placement;
  Score score;       // makespan with the prices in it
};

Judged judge(Simulator& simulator, Placement placement, const Prices& prices = {});
bool better(const Judged& a, const Judged& b);

struct ExactResult {
  bool complete = true;  // false: the limit came first, `best` is the best seen
  int64_t nodes = 0;
};

// The best placement of the groups in `free`, given in the order in which they are decided (forward order prunes best);
// all others stay as in best.placement. `best` must hold a judged placement and is replaced by better ones.
ExactResult search_exactly(Simulator& simulator, const std::vector<int>& free, int64_t node_limit, const Prices& prices, Judged& best);

// Moves single groups and whole units to other devices, and swaps units that lie within `reach` of each other in the list,
// as long as it helps and at most `run_limit` simulations are used. Returns whether something became better.
bool improve(Simulator& simulator, const std::vector<std::vector<int>>& units, int reach, int64_t run_limit, const Prices& prices, Judged& best);

}  // namespace eng
