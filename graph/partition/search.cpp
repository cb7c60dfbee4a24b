// See search.h.
#include "graph/partition/search.h"

#include <algorithm>

namespace eng {
namespace {

double price_of(const Prices& prices, const Placement& placement, size_t devices) {
  double sum = 0;
  if (!prices.empty())
    for (size_t g = 0; g < placement.size(); ++g) sum += prices[g * devices + static_cast<size_t>(placement[g])];
  return sum;
}

class BranchAndBound {
 public:
  BranchAndBound(Simulator& simulator, const std::vector<int>& free, int64_t limit, const Prices& prices, Judged& best)
      : simulator_(simulator), free_(free), limit_(limit), prices_(prices), best_(best), at_(best.placement) {
    for (int g : free) at_[static_cast<size_t>(g)] = simulator.unplaced();
  }

  ExactResult run() {
    descend(0);
    return result_;
  }

 private:
  // Price of what is placed, and the least of what is not.
  double price() const {
    if (prices_.empty()) return 0;
    const size_t devices = simulator_.problem().machine.devices.size();
    double sum = 0;
    for (size_t g = 0; g < at_.size(); ++g) {
      const double* row = &prices_[g * devices];
      sum += at_[g] == simulator_.unplaced() ? *std::min_element(row, row + devices) : row[at_[g]];
    }
    return sum;
  }

  void descend(size_t depth) {
    const int g = free_[depth];
    const bool last = depth + 1 == free_.size();
    for (int d = 0; d < simulator_.unplaced(); ++d) {
      if (!simulator_.problem().groups[static_cast<size_t>(g)].allowed(d)) continue;
      if (++result_.nodes > limit_) {
        result_.complete = false;
        break;
      }
      at_[static_cast<size_t>(g)] = d;
      Score score = simulator_.run(at_);
      score.makespan += price();
      if (last) {
        if (better(score, at_, best_.score, best_.placement)) best_ = {at_, score};
      } else if (!better(best_.score, score)) {  // the bound is not worse than the best: there may be better ones below
        descend(depth + 1);
      }
    }
    at_[static_cast<size_t>(g)] = simulator_.unplaced();
  }

  Simulator& simulator_;
  const std::vector<int>& free_;
  const int64_t limit_;
  const Prices& prices_;
  Judged& best_;
  Placement at_;
  ExactResult result_;
};

class Improver {
 public:
  Improver(Simulator& simulator, int64_t limit, const Prices& prices, Judged& best)
      : simulator_(simulator), end_(simulator.runs() + limit), prices_(prices), best_(best), at_(best.placement) {}

  bool spent() const { return simulator_.runs() >= end_; }

  // Puts the units on the devices if that is better.
  bool attempt(const std::vector<int>& a, int device_a, const std::vector<int>* b, int device_b) {
    if (spent()) return false;
    bool same = true;
    auto put = [&](const std::vector<int>& unit, int device) {
      for (int g : unit) {
        if (!simulator_.problem().groups[static_cast<size_t>(g)].allowed(device)) continue;  // a forced group stays
        same &= at_[static_cast<size_t>(g)] == device;
        at_[static_cast<size_t>(g)] = device;
      }
    };
    at_ = best_.placement;
    put(a, device_a);
    if (b) put(*b, device_b);
    if (same) return false;
    Score score = simulator_.run(at_);
    score.makespan += price_of(prices_, at_, static_cast<size_t>(simulator_.unplaced()));
    if (!better(score, at_, best_.score, best_.placement)) return false;
    best_ = {at_, score};
    return true;
  }

 private:
  Simulator& simulator_;
  const int64_t end_;
  const Prices& prices_;
  Judged& best_;
  Placement at_;
};

}  // namespace

Judged judge(Simulator& simulator, Placement placement, const Prices& prices) {
  Judged j{std::move(placement), {}};
  j.score = simulator.run(j.placement);
  j.score.makespan += price_of(prices, j.placement, simulator.problem().machine.devices.size());
  return j;
}

bool better(const Judged& a, const Judged& b) { return better(a.score, a.placement, b.score, b.placement); }

ExactResult search_exactly(Simulator& simulator, const std::vector<int>& free, int64_t node_limit, const Prices& prices, Judged& best) {
  if (free.empty()) return {};
  return BranchAndBound(simulator, free, node_limit, prices, best).run();
}

bool improve(Simulator& simulator, const std::vector<std::vector<int>>& units, int reach, int64_t run_limit, const Prices& prices, Judged& best) {
  Improver improver(simulator, run_limit, prices, best);
  const int devices = simulator.unplaced(), count = static_cast<int>(units.size());
  bool any = false;
  for (bool again = true; again && !improver.spent();) {
    again = false;
    for (const auto& unit : units)
      for (int d = 0; d < devices; ++d) again |= improver.attempt(unit, d, nullptr, 0);
    if (!again) {  // pairs are dearer: only where single moves are exhausted
      for (int i = 0; i < count; ++i)
        for (int j = i + 1; j < count && j <= i + reach; ++j)
          for (int a = 0; a < devices; ++a)
            for (int b = 0; b < devices; ++b)
              if (a != b) again |= improver.attempt(units[static_cast<size_t>(i)], a, &units[static_cast<size_t>(j)], b);
    }
    any |= again;
  }
  return any;
}

}  // namespace eng
