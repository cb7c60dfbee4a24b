// See heft.h.
#include "graph/partition/heft.h"

#include <algorithm>

namespace eng {
namespace {

// Busy spans of a device, by start.
double earliest_start(const std::vector<Span>& busy, double ready, double seconds) {
  double at = ready;
  for (const Span& span : busy) {
    if (span.start - at >= seconds) break;
    at = std::max(at, span.end);
  }
  return at;
}

void occupy(std::vector<Span>& busy, Span span) {
  busy.insert(std::upper_bound(busy.begin(), busy.end(), span, [](const Span& a, const Span& b) { return a.start < b.start; }), span);
}

}  // namespace

Placement place_by_finish_time(const Problem& p, const Placement& fixed) {
  struct Input { int group; uint64_t bytes; };
  std::vector<std::vector<Input>> inputs(p.groups.size());
  for (const Flow& f : p.flows)
    if (!f.at_start && f.made_by == TaskKind::kForward)
      for (Task reader : f.readers)
        if (reader.kind == TaskKind::kForward) inputs[static_cast<size_t>(reader.group)].push_back({f.group, f.bytes});
  Placement placement(p.groups.size(), 0);
  std::vector<double> end(p.groups.size(), 0);
  std::vector<std::vector<Span>> busy(p.machine.devices.size());
  for (Task t : p.order) {
    if (t.kind != TaskKind::kForward) continue;
    const size_t g = static_cast<size_t>(t.group);
    double best = kCannotRun, best_start = 0;
    for (int d = 0; d < p.device_count(); ++d) {
      if (!p.groups[g].allowed(d) || (!fixed.empty() && fixed[g] >= 0 && fixed[g] != d)) continue;
      double ready = 0;
      for (const Input& in : inputs[g]) {
        const int from = placement[static_cast<size_t>(in.group)];
        ready = std::max(ready, end[static_cast<size_t>(in.group)] + (from == d ? 0 : p.machine.link(from, d).seconds(in.bytes)));
      }
      const double seconds = p.groups[g].seconds[0][static_cast<size_t>(d)];
      const double start = earliest_start(busy[static_cast<size_t>(d)], ready, seconds);
      if (start + seconds < best) best = start + seconds, best_start = start, placement[g] = d;
    }
    end[g] = best;
    occupy(busy[static_cast<size_t>(placement[g])], {best_start, best});
  }
  return placement;
}

}  // namespace eng
