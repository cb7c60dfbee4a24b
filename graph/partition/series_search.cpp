// See series_search.h.
#include "graph/partition/series_search.h"

#include <algorithm>
#include <functional>

#include "graph/partition/heft.h"

namespace eng {
namespace {

constexpr int64_t kLeastRuns = 40;  // simulations for one pair of boundary devices, whatever the effort

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// All that the search of a block looks at.
std::string key_of(const Problem& sub, const Block& block, const Prices& prices) {
  std::string key;
  append(key, block.entry >= 0);
  append(key, block.exit >= 0);
  for (const Group& g : sub.groups) {
    for (const auto& seconds : g.seconds)
      for (double s : seconds) append(key, s);
    append(key, g.forced);
  }
  for (const Flow& f : sub.flows) {
    append(key, f.group);
    append(key, f.made_by);
    append(key, f.bytes);
    append(key, f.readers.size());
    for (Task t : f.readers) append(key, t.group), append(key, t.kind);
  }
  for (Task t : sub.order) append(key, t.group), append(key, t.kind);
  for (double price : prices) append(key, price);
  return key;
}

// All groups on one device, where they may be; the ends stay.
Placement all_on(const Problem& p, int device, const Placement& fixed) {
  Placement placement = fixed;
  for (size_t g = 0; g < placement.size(); ++g) {
    if (placement[g] >= 0) continue;
    placement[g] = device;
    for (int d = 0; !p.groups[g].allowed(placement[g]); ++d) placement[g] = d;
  }
  return placement;
}

// Whether devices can be renamed without changing anything.
bool symmetric(const Problem& sub, const Prices& prices) {
  const size_t devices = sub.machine.devices.size();
  auto all_equal = [](const double* begin, const double* end) { return std::adjacent_find(begin, end, std::not_equal_to<>()) == end; };
  for (size_t g = 0; g < sub.groups.size(); ++g) {
    if (sub.groups[g].forced != kAnyDevice) return false;
    for (const auto& seconds : sub.groups[g].seconds)
      if (!all_equal(seconds.data(), seconds.data() + devices)) return false;
    if (!prices.empty() && !all_equal(&prices[g * devices], &prices[g * devices] + devices)) return false;
  }
  const LinkSpec& one = sub.machine.link(0, 1);
  for (int a = 0; a < sub.device_count(); ++a)
    for (int b = 0; b < sub.device_count(); ++b)
      if (a != b && (sub.machine.link(a, b).latency != one.latency || sub.machine.link(a, b).bytes_per_second != one.bytes_per_second)) return false;
  return true;
}

// Device d under the renaming that takes 0 to a and, where b is another, 1 to b; the rest keep their order.
int renamed(int d, int a, int b) {
  const int fixed = a == b ? 1 : 2;
  if (d < fixed) return d == 0 ? a : b;
  int left = d - fixed;
  for (int to = 0;; ++to)
    if (to != a && to != b && left-- == 0) return to;
}

}  // namespace

SeriesSearch::Table SeriesSearch::search(const Problem& sub, const Block& block, int64_t effort, const Prices& prices) {
  const int devices = sub.device_count(), n = sub.group_count();
  const int first = block.entry >= 0 ? 1 : 0, last = block.exit >= 0 ? n - 1 : n;
  const bool exact = block.inside.size() <= exact_groups_ && width_of(problem_, block) <= kExactBlockWidth;
  std::vector<int> free;
  std::vector<std::vector<int>> units;
  for (int g = first; g < last; ++g) free.push_back(g), units.push_back({g});
  for (const auto& unit : find_pieces(sub).units)
    if (unit.front() >= first && unit.back() < last) units.push_back(unit);
  const bool same = devices > 1 && block.entry >= 0 && block.exit >= 0 && symmetric(sub, prices);
  const int64_t pairs = same ? 2 : (block.entry >= 0 ? devices : 1) * (block.exit >= 0 ? devices : 1);
  const int64_t runs = std::max(kLeastRuns, effort / (pairs * n * kTaskKinds));
  Simulator simulator(sub);
  Table table(static_cast<size_t>(devices * devices));
  for (int a = 0; a < (block.entry >= 0 ? devices : 1); ++a) {
    for (int b = 0; b < (block.exit >= 0 ? devices : 1); ++b) {
      if (same && (a > 0 || b > 1)) {
        Between& between = table[static_cast<size_t>(a * devices + b)];
        between = table[a == b ? 0 : 1];
        for (int& d : between.inside) d = renamed(d, a, b);
        continue;
      }
      Placement fixed(static_cast<size_t>(n), -1);
      if (block.entry >= 0) fixed[0] = a;
      if (block.exit >= 0) fixed[static_cast<size_t>(n - 1)] = b;
      if ((block.entry >= 0 && !sub.groups[0].allowed(a)) || (block.exit >= 0 && !sub.groups.back().allowed(b))) continue;
      Judged best = judge(simulator, place_by_finish_time(sub, fixed), prices);
      for (int d = 0; d < devices; ++d)
        if (Judged one = judge(simulator, all_on(sub, d, fixed), prices); better(one, best)) best = one;
      improve(simulator, units, n, runs / 3, prices, best);
      if (exact) search_exactly(simulator, free, runs, prices, best);
      Between& between = table[static_cast<size_t>(a * devices + b)];
      between.seconds = best.score.makespan;
      between.inside.assign(best.placement.begin() + first, best.placement.begin() + last);
    }
  }
  runs_ += simulator.runs();
  return table;
}

const SeriesSearch::Table& SeriesSearch::table_of(const Block& block, int64_t effort, const Prices& prices) {
  std::vector<int> groups;
  const Problem sub = problem_of(problem_, block, &groups);
  Prices part;
  const size_t devices = problem_.machine.devices.size();
  for (size_t i = 0; i < groups.size() && !prices.empty(); ++i)
    for (size_t d = 0; d < devices; ++d)
      part.push_back(i == 0 && block.entry >= 0 ? 0 : prices[static_cast<size_t>(groups[i]) * devices + d]);
  const std::string key = key_of(sub, block, part);
  auto it = known_.find(key);
  if (it == known_.end()) it = known_.emplace(key, search(sub, block, effort, part)).first;
  return it->second;
}

Placement SeriesSearch::run(int64_t effort, const Prices& prices) {
  const size_t devices = problem_.machine.devices.size(), blocks = pieces_.blocks.size();
  std::vector<const Table*> tables;
  std::vector<double> cost(devices, kCannotRun);  // of the best way to a boundary on the device
  cost[0] = 0;
  if (pieces_.blocks[0].entry >= 0) std::fill(cost.begin(), cost.end(), 0.0);
  std::vector<std::vector<size_t>> from(blocks, std::vector<size_t>(devices, 0));
  for (size_t i = 0; i < blocks; ++i) {
    tables.push_back(&table_of(pieces_.blocks[i], effort / static_cast<int64_t>(blocks), prices));
    std::vector<double> next(devices, kCannotRun);
    for (size_t a = 0; a < devices; ++a) {
      for (size_t b = 0; b < devices; ++b) {
        const double seconds = cost[a] + (*tables[i])[a * devices + b].seconds;
        // Equal: the boundary stays on its device.
        if (seconds < next[b] * (1 - 1e-12) || (seconds <= next[b] * (1 + 1e-12) && seconds != kCannotRun && a == b)) next[b] = seconds, from[i][b] = a;
      }
    }
    cost = next;
  }
  size_t at = static_cast<size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  Placement placement(problem_.groups.size(), 0);
  for (size_t i = blocks; i-- > 0;) {
    const Block& block = pieces_.blocks[i];
    const Between& between = (*tables[i])[from[i][at] * devices + at];
    if (block.exit >= 0) placement[static_cast<size_t>(block.exit)] = static_cast<int>(at);
    for (size_t k = 0; k < block.inside.size(); ++k) placement[static_cast<size_t>(block.inside[k])] = between.inside[k];
    at = from[i][at];
  }
  return placement;
}

}  // namespace eng
