// See bound.h.
//
// work: for weights y >= 0 that sum to 1 over devices, makespan >= sum over groups of min over devices of y[d] * seconds[d]
// (the makespan is at least every device's load, so at least any mean of loads). Any y gives a bound; good ones are found by
// shifting weight to the devices that the minimum loads most.
#include "graph/partition/bound.h"

#include <algorithm>
#include <cmath>

namespace eng {
namespace {

constexpr int kWorkRounds = 200;

// Bytes that the group alone needs at least.
uint64_t least_memory(const Group& g) {
  const uint64_t kept = g.resident_bytes + g.kept_bytes;
  return std::max({kept + g.scratch_bytes[0], kept + g.gradient_bytes + g.scratch_bytes[1], g.resident_bytes + g.gradient_bytes + g.scratch_bytes[2]});
}

// Allowed, and not too big for the device.
std::vector<char> usable(const Problem& p) {
  std::vector<char> can;
  for (const Group& g : p.groups) {
    for (int d = 0; d < p.device_count(); ++d) {
      const auto& limit = p.machine.devices[static_cast<size_t>(d)].memory_limit;
      can.push_back(g.allowed(d) && (!limit || least_memory(g) <= *limit));
    }
  }
  return can;
}

// Longest chain by task, per device on which its last task runs. With transfers, each input comes from where that is
// cheapest, but from its own group without a choice.
struct Chains {
  double end = 0, forward_and_backward = 0;
};
Chains longest_chain(const Problem& p, const std::vector<char>& can, bool transfers) {
  const size_t n = p.groups.size(), devices = p.machine.devices.size();
  std::vector<double> ready(n * kTaskKinds * devices, 0), end = ready;
  auto at = [&](Task t, size_t d) { return (static_cast<size_t>(t.kind) * n + static_cast<size_t>(t.group)) * devices + d; };
  std::vector<std::vector<const Flow*>> made(n * kTaskKinds);
  Chains chains;
  auto raise = [&](Task t, size_t d, double time) { ready[at(t, d)] = std::max(ready[at(t, d)], time); };
  auto arrive = [&](const Flow& f, auto&& ends_at) {
    for (Task reader : f.readers) {
      for (size_t to = 0; to < devices; ++to) {
        double earliest = kCannotRun;
        for (size_t from = 0; from < devices; ++from) {
          if (!can[static_cast<size_t>(f.group) * devices + from] || (reader.group == f.group && from != to)) continue;
          const double move = transfers && from != to ? p.machine.link(static_cast<int>(from), static_cast<int>(to)).seconds(f.bytes) : 0;
          earliest = std::min(earliest, ends_at(from) + move);
        }
        raise(reader, to, earliest);
      }
    }
  };
  for (const Flow& f : p.flows) {
    if (f.at_start) arrive(f, [](size_t) { return 0.0; });
    else made[static_cast<size_t>(f.made_by) * n + static_cast<size_t>(f.group)].push_back(&f);
  }
  for (Task t : p.order) {
    double least = kCannotRun;
    for (size_t d = 0; d < devices; ++d) {
      double& e = end[at(t, d)];
      e = kCannotRun;
      if (!can[static_cast<size_t>(t.group) * devices + d]) continue;
      e = ready[at(t, d)] + p.groups[static_cast<size_t>(t.group)].seconds[static_cast<int>(t.kind)][d];
      least = std::min(least, e);
      // The group's next task runs on the same device, after this one.
      if (t.kind != TaskKind::kUpdate) raise({t.group, static_cast<TaskKind>(static_cast<int>(t.kind) + 1)}, d, e);
    }
    chains.end = std::max(chains.end, least);
    if (t.kind != TaskKind::kUpdate) chains.forward_and_backward = std::max(chains.forward_and_backward, least);
    for (const Flow* f : made[static_cast<size_t>(t.kind) * n + static_cast<size_t>(t.group)]) arrive(*f, [&](size_t d) { return end[at(t, d)]; });
  }
  return chains;
}

double least_work(const Problem& p, const std::vector<char>& can, int shards) {
  const size_t devices = p.machine.devices.size(), n = p.groups.size();
  std::vector<double> y(devices, 1.0 / static_cast<double>(devices)), load(devices);
  double best = 0;
  for (int round = 0; round < kWorkRounds; ++round) {
    double bound = 0, total = 0;
    std::fill(load.begin(), load.end(), 0.0);
    for (size_t g = 0; g < n; ++g) {
      double least = kCannotRun, its = 0;
      size_t where = devices;
      for (size_t d = 0; d < devices; ++d) {
        if (!can[g * devices + d]) continue;
        const Group& group = p.groups[g];
        const double seconds = shards * (group.seconds[0][d] + group.seconds[1][d]) + group.seconds[2][d];
        if (y[d] * seconds < least) least = y[d] * seconds, where = d, its = seconds;
      }
      if (where == devices) return best;  // fits nowhere: the solver says so
      bound += least;
      load[where] += its;
      total += its;
    }
    best = std::max(best, bound);
    double sum = 0;
    for (size_t d = 0; d < devices; ++d) {  // a device that gets much should count more
      y[d] *= std::exp((total > 0 ? load[d] / total : 0) * 2 / std::sqrt(1.0 + round));
      sum += y[d];
    }
    for (double& w : y) w /= sum;
  }
  return best;
}

}  // namespace

PlanBound lower_bound(const Problem& p) {
  const auto can = usable(p);
  auto total = [&](Chains c) { return c.end == kCannotRun ? 0 : c.end + (p.shards - 1) * c.forward_and_backward; };
  PlanBound bound;
  bound.critical_path = total(longest_chain(p, can, false));
  bound.crossings = total(longest_chain(p, can, true));
  bound.work = least_work(p, can, p.shards);
  // Sums are made in another order than the simulation makes them.
  for (double* b : {&bound.critical_path, &bound.crossings, &bound.work}) *b *= 1 - 1e-9;
  return bound;
}

}  // namespace eng
