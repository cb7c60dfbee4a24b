// See arena.h.
#include "engine/memory/arena.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace eng {
namespace {

struct Placed {
  uint64_t begin, end;
  int first, last;
};

// Offsets for one order of placement; gives up where the block grows beyond `limit`.
uint64_t place(const std::vector<Interval>& intervals, const std::vector<uint64_t>& sizes, const std::vector<size_t>& order, uint64_t limit,
               std::vector<uint64_t>& offsets) {
  std::vector<Placed> placed;  // by begin
  uint64_t total = 0;
  for (size_t i : order) {
    const Interval& wanted = intervals[i];
    uint64_t at = 0, best = 0, best_gap = UINT64_MAX;
    bool found = false;
    for (const Placed& p : placed) {
      if (p.last < wanted.first || p.first > wanted.last) continue;
      if (p.begin > at && p.begin - at >= sizes[i] && p.begin - at < best_gap) best = at, best_gap = p.begin - at, found = true;
      at = std::max(at, p.end);
    }
    offsets[i] = found ? best : at;
    total = std::max(total, offsets[i] + sizes[i]);
    if (total >= limit) return total;
    const Placed mine{offsets[i], offsets[i] + sizes[i], wanted.first, wanted.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine, [](const Placed& a, const Placed& b) { return a.begin < b.begin; }), mine);
  }
  return total;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Interval>& intervals, int steps, uint64_t alignment) {
  ArenaPlan plan;
  plan.live.assign(static_cast<size_t>(steps), 0);
  std::vector<uint64_t> sizes;
  for (const Interval& i : intervals) sizes.push_back((i.bytes + alignment - 1) / alignment * alignment);
  for (size_t i = 0; i < intervals.size(); ++i)
    for (int s = intervals[i].first; s <= intervals[i].last; ++s) plan.live[static_cast<size_t>(s)] += sizes[i];
  if (steps > 0) {
    plan.peak_step = static_cast<int>(std::max_element(plan.live.begin(), plan.live.end()) - plan.live.begin());
    plan.lower_bound = plan.live[static_cast<size_t>(plan.peak_step)];
  }
  auto length = [&](size_t i) { return static_cast<uint64_t>(intervals[i].last - intervals[i].first + 1); };
  auto at_peak = [&](size_t i) { return intervals[i].first <= plan.peak_step && plan.peak_step <= intervals[i].last; };
  const std::vector<std::function<bool(size_t, size_t)>> orders = {
      [&](size_t a, size_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : length(a) > length(b); },
      [&](size_t a, size_t b) { return length(a) != length(b) ? length(a) > length(b) : sizes[a] > sizes[b]; },
      [&](size_t a, size_t b) { return sizes[a] * length(a) > sizes[b] * length(b); },
      [&](size_t a, size_t b) { return at_peak(a) != at_peak(b) ? at_peak(a) : sizes[a] > sizes[b]; },
      [&](size_t a, size_t b) { return at_peak(a) != at_peak(b) ? at_peak(a) : length(a) > length(b); },
      [&](size_t a, size_t b) { return intervals[a].first < intervals[b].first; },
  };
  plan.bytes = UINT64_MAX;
  for (const auto& before : orders) {
    std::vector<size_t> order(intervals.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), before);
    std::vector<uint64_t> offsets(intervals.size(), 0);
    const uint64_t bytes = place(intervals, sizes, order, plan.bytes, offsets);
    if (bytes < plan.bytes) plan.bytes = bytes, plan.offsets = std::move(offsets);
    if (plan.bytes <= plan.lower_bound) break;
  }
  return plan;
}

}  // namespace eng
