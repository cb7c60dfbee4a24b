// Random partition problems, the same for the same seed everywhere: series-parallel and general graphs of groups, with times,
// sizes, links and memory limits over ranges in which splitting, not splitting and refusing are all right answers; and a
// search through all placements, the oracle.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "graph/partition/simulate.h"

namespace eng::test {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  double log_between(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  int number(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }
  bool chance(double p) { return unit() < p; }

 private:
  std::mt19937_64 engine_;
};

struct Arrow { int from, to; };

// Series-parallel between two new groups: an edge is replaced by two in a row or gets a second one beside it.
inline std::vector<Arrow> series_parallel(Dice& dice, int groups) {
  std::vector<Arrow> arrows{{0, 1}};
  for (int n = 2; n < groups; ++n) {
    Arrow& a = arrows[static_cast<size_t>(dice.number(0, static_cast<int>(arrows.size()) - 1))];
    const Arrow old = a;
    if (dice.chance(0.4)) {  // in a row
      a = {old.from, n};
      arrows.push_back({n, old.to});
    } else {                 // beside
      arrows.push_back({old.from, n});
      arrows.push_back({n, old.to});
    }
  }
  return arrows;
}

inline std::vector<Arrow> general(Dice& dice, int groups) {
  std::vector<Arrow> arrows;
  const double density = dice.between(0.15, 0.5);
  for (int j = 1; j < groups; ++j) {
    const size_t before = arrows.size();
    for (int i = 0; i < j; ++i)
      if (dice.chance(density)) arrows.push_back({i, j});
    if (arrows.size() == before && dice.chance(0.8)) arrows.push_back({dice.number(0, j - 1), j});
  }
  return arrows;
}

inline Problem random_problem(uint64_t seed, bool is_series_parallel, int most_groups = 10, int most_devices = 3) {
  Dice dice(seed);
  const int groups = dice.number(3, most_groups), devices = dice.number(2, most_devices);
  Problem p;
  for (int d = 0; d < devices; ++d) p.machine.devices.push_back({"cpu:" + std::to_string(d), {}, 0, 0});
  p.machine.connect_all({});
  const double speed_of_links = dice.log_between(1, 100);  // a transfer of 100 bytes: 1 to 100 s, computation about 10 s
  for (auto& link : p.machine.links) link = {dice.between(0, 2), speed_of_links * dice.between(0.5, 2) * 2};
  std::vector<double> slower(static_cast<size_t>(devices), 1.0);
  if (dice.chance(0.5))
    for (double& s : slower) s = dice.log_between(0.5, 2);

  for (int g = 0; g < groups; ++g) {
    const double work = dice.log_between(1, 30), back = dice.between(1, 3);
    std::vector<double> forward, backward, update;
    for (int d = 0; d < devices; ++d) {
      const double here = work * slower[static_cast<size_t>(d)] * dice.between(0.8, 1.25);
      forward.push_back(here);
      backward.push_back(here * back);
      update.push_back(here * 0.1);
    }
    p.add_group("g" + std::to_string(g), forward, backward, update);
    Group& group = p.groups.back();
    group.resident_bytes = static_cast<uint64_t>(dice.number(0, 200));
    group.kept_bytes = static_cast<uint64_t>(dice.number(0, 100));
    group.gradient_bytes = group.resident_bytes / 2;
    group.scratch_bytes[0] = static_cast<uint64_t>(dice.number(0, 50));
    group.scratch_bytes[1] = static_cast<uint64_t>(dice.number(0, 100));
    if (dice.chance(0.05)) {  // one device cannot run it
      const size_t d = static_cast<size_t>(dice.number(0, devices - 1));
      for (auto& seconds : group.seconds) seconds[d] = kCannotRun;
      group.refusal.assign(static_cast<size_t>(devices), "no kernel");
    }
    for (int d = 0; d < devices; ++d)
      if (dice.chance(0.02) && group.can_run(d)) group.forced = d, group.forced_reason = "forced by placement line 1";
  }
  std::vector<std::vector<int>> readers(static_cast<size_t>(groups));
  for (Arrow a : is_series_parallel ? series_parallel(dice, groups) : general(dice, groups)) {
    auto& list = readers[static_cast<size_t>(a.from)];
    if (std::find(list.begin(), list.end(), a.to) == list.end()) list.push_back(a.to);
  }
  for (int g = 0; g < groups; ++g) {
    const uint64_t bytes = static_cast<uint64_t>(dice.number(10, 100));
    if (!readers[static_cast<size_t>(g)].empty()) p.add_edge("x" + std::to_string(g), g, readers[static_cast<size_t>(g)], bytes, bytes);
  }
  if (dice.chance(0.15)) {
    const int owner = dice.number(0, groups - 1), user = dice.number(0, groups - 1);
    if (owner != user) p.add_shared_weight("shared", owner, {user}, static_cast<uint64_t>(dice.number(10, 200)));
  }
  if (dice.chance(0.2)) p.shards = dice.number(2, 4);
  if (dice.chance(0.2)) p.all_reduce = {dice.between(0, 2), dice.between(0, 0.1)};
  if (!p.finish().ok()) return p;

  if (dice.chance(0.7)) {  // limits around what one device or an even share needs
    uint64_t all = 0;
    for (const Group& g : p.groups) all += g.resident_bytes + g.kept_bytes + g.gradient_bytes + 50;
    for (auto& d : p.machine.devices)
      if (dice.chance(0.8)) d.memory_limit = static_cast<uint64_t>(static_cast<double>(all) * dice.between(0.2, 1.1));
  }
  return p;
}

struct BruteForce {
  bool fits = false;
  Placement placement;
  Score score;
  int64_t placements = 0;
};

// Every placement on devices that may run the groups, judged by simulate().
inline BruteForce search_all(const Problem& p) {
  BruteForce best;
  Simulator simulator(p);
  Placement at(p.groups.size(), 0);
  while (true) {
    bool allowed = true;
    for (size_t g = 0; g < at.size() && allowed; ++g) allowed = p.groups[g].allowed(at[g]);
    if (allowed) {
      ++best.placements;
      const Score score = simulator.run(at);
      if (score.fits() && (!best.fits || better(score, at, best.score, best.placement))) best.fits = true, best.score = score, best.placement = at;
    }
    size_t g = 0;
    while (g < at.size() && ++at[g] == p.device_count()) at[g++] = 0;
    if (g == at.size()) return best;
  }
}

}  // namespace eng::test
