// Lays buffers whose lifetimes are known into one block, so that buffers that are alive at the same time do not overlap.
// Greedy: biggest first, each at the lowest gap that is free over its whole lifetime. Several orders are tried; the smallest
// block wins, and the search ends early where the bound (most bytes alive at once) is reached.
#pragma once

#include <cstdint>
#include <vector>

namespace eng {

struct Interval {
  int first = 0, last = 0;  // steps during which the buffer is alive, both inclusive
  uint64_t bytes = 0;
};

struct ArenaPlan {
  std::vector<uint64_t> offsets;  // per interval
  uint64_t bytes = 0;
  uint64_t lower_bound = 0;
  int peak_step = 0;
  std::vector<uint64_t> live;     // per step, sizes rounded up to the alignment
};

ArenaPlan plan_arena(const std::vector<Interval>& intervals, int steps, uint64_t alignment);

}  // namespace eng
