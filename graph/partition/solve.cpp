// See solve.h.
#include "graph/partition/solve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "graph/partition/bound.h"
#include "graph/partition/heft.h"
#include "graph/partition/search.h"
#include "graph/partition/series_search.h"

namespace eng {
namespace {

constexpr double kExactPlacements = 70000;   // up to as many the small search goes through all
// What parts of the search may cost: simulations * tasks.
constexpr int64_t kSeriesVisits = 12'000'000;
constexpr int64_t kPricedVisits = 2'000'000;  // each round
constexpr int64_t kImproveVisits = 20'000'000;
constexpr size_t kBestStarts = 4;            // that are improved
constexpr int64_t kExchangeRuns = 1500;
constexpr int kPriceRounds = 6;
constexpr double kPriceStep = 0.5;
constexpr size_t kWindow = 8;                // groups of a sliding window

OneDevice try_alone(const Problem& p, Simulator& simulator, int d) {
  OneDevice one{d, {}, {}};
  for (const Group& g : p.groups) {
    if (!g.can_run(d)) one.note = cat("cannot run '", g.name, "'", static_cast<size_t>(d) < g.refusal.size() ? ": " + g.refusal[static_cast<size_t>(d)] : "");
    else if (!g.allowed(d)) one.note = cat("'", g.name, "' is ", g.forced_reason, " on ", p.machine.devices[static_cast<size_t>(g.forced)].name);
    if (!one.note.empty()) return one;
  }
  one.score = simulator.run(Placement(p.groups.size(), d));
  if (one.score.excess > 0)
    one.note = cat("needs ", bytes_text(simulator.peaks()[static_cast<size_t>(d)]), ", has ", bytes_text(*p.machine.devices[static_cast<size_t>(d)].memory_limit));
  return one;
}

class Solver {
 public:
  Solver(const Problem& problem, const SolveOptions& options) : p_(problem), options_(options), simulator_(problem), pieces_(find_pieces(problem)) {
    std::vector<int> place(p_.groups.size());
    for (size_t i = 0; i < pieces_.order.size(); ++i) place[static_cast<size_t>(pieces_.order[i])] = static_cast<int>(i);
    for (int g : pieces_.order) units_.push_back({g});
    units_.insert(units_.end(), pieces_.units.begin(), pieces_.units.end());
    std::stable_sort(units_.begin(), units_.end(), [&](const auto& a, const auto& b) {
      return place[static_cast<size_t>(a.front())] < place[static_cast<size_t>(b.front())];
    });
    run_limit_ = std::max<int64_t>(2000, kImproveVisits / (p_.group_count() * kTaskKinds));
  }

  Result<Solution> run() {
    Solution s;
    s.one_device = each_device_alone(p_);
    s.bound = lower_bound(p_);
    const double placements = std::pow(p_.device_count(), p_.group_count());
    Judged best;
    if (p_.device_count() == 1) {
      best = judge(simulator_, all_on(0));
      s.method = "one device";
    } else if (options_.exact_small && placements <= kExactPlacements) {
      best = judge(simulator_, all_on(0));
      search_exactly(simulator_, pieces_.order, std::numeric_limits<int64_t>::max(), {}, best);
      s.method = cat("all placements of ", p_.group_count(), " groups");
    } else {
      best = search();
      s.method = cat("series of ", pieces_.blocks.size(), " blocks, ", p_.group_count(), " groups");
    }
    s.simulations = simulator_.runs() + series_runs_;
    if (!best.score.fits()) return refusal(best);
    s.placement = std::move(best.placement);
    s.score = best.score;
    return s;
  }

 private:
  // Everything on one device, but groups that may not be there.
  Placement all_on(int device) const {
    Placement placement(p_.groups.size(), device);
    for (size_t g = 0; g < placement.size(); ++g)
      for (int d = 0; !p_.groups[g].allowed(placement[g]); ++d) placement[g] = d;
    return placement;
  }

  Judged search() {
    std::vector<Judged> starts;
    auto add = [&](Placement placement) { starts.push_back(judge(simulator_, std::move(placement))); };
    for (int d = 0; d < p_.device_count(); ++d) add(all_on(d));
    add(place_by_finish_time(p_));
    SeriesSearch series(p_, pieces_, options_.exact_groups);
    add(series.run(kSeriesVisits));
    if (const Judged& free = starts.back(); !free.score.fits()) {
      const Judged from = free;
      add_priced(series, from, starts);
      for (size_t i = static_cast<size_t>(p_.device_count()); i < starts.size(); ++i) exchange(starts[i], kExchangeRuns);
      add_cuts(starts);
    }
    series_runs_ = series.runs();
    for (Judged& start : promising(starts)) starts.push_back(start);
    keep_best(starts);
    Judged best = starts[0];
    for (Judged& start : starts) {
      rename_devices(start);
      polish(start, run_limit_ / static_cast<int64_t>(2 * starts.size()));
      if (better(start, best)) best = start;
    }
    polish(best, run_limit_ / 2);
    rename_devices(best);
    return best;
  }

  // Devices that can be exchanged for each other are used from the lowest number on.
  void rename_devices(Judged& best) {
    for (int a = 0; a < p_.device_count(); ++a) {
      for (int b = a + 1; b < p_.device_count(); ++b) {
        Placement placement = best.placement;
        bool allowed = true;
        for (size_t g = 0; g < placement.size(); ++g) {
          if (placement[g] == a || placement[g] == b) placement[g] = a + b - placement[g];
          allowed &= p_.groups[g].allowed(placement[g]);
        }
        if (!allowed) continue;
        if (Judged changed = judge(simulator_, std::move(placement)); better(changed, best)) best = std::move(changed);
      }
    }
  }

  static void keep_best(std::vector<Judged>& starts) {
    std::stable_sort(starts.begin(), starts.end(), [](const Judged& a, const Judged& b) { return better(a, b); });
    starts.erase(std::unique(starts.begin(), starts.end(), [](const Judged& a, const Judged& b) { return a.placement == b.placement; }), starts.end());
    if (starts.size() > kBestStarts) starts.resize(kBestStarts);
  }

  // Of the starts that do not fit, the fastest for what they lack, made to fit.
  std::vector<Judged> promising(const std::vector<Judged>& starts) {
    std::vector<Judged> some;
    for (const Judged& s : starts)
      if (s.score.excess > 0 && s.score.makespan != kCannotRun) some.push_back(s);
    double limits = 1;
    for (const DeviceSpec& d : p_.machine.devices) limits += static_cast<double>(d.memory_limit.value_or(0));
    auto rank = [&](const Judged& j) { return j.score.makespan * (1 + static_cast<double>(j.score.excess) / limits); };
    std::stable_sort(some.begin(), some.end(), [&](const Judged& a, const Judged& b) { return rank(a) < rank(b); });
    some.erase(std::unique(some.begin(), some.end(), [](const Judged& a, const Judged& b) { return a.placement == b.placement; }), some.end());
    if (some.size() > kBestStarts) some.resize(kBestStarts);
    for (Judged& s : some) make_fit(s, run_limit_ / 8);
    return some;
  }

  // Takes, again and again, the move that frees most memory for the time that it costs.
  void make_fit(Judged& best, int64_t runs) {
    const int64_t end = simulator_.runs() + runs;
    while (best.score.excess > 0) {
      Judged chosen;
      double most = 0;
      for (const auto& unit : units_) {
        for (int d = 0; d < p_.device_count(); ++d) {
          if (simulator_.runs() >= end) return;
          Placement placement = best.placement;
          for (int g : unit)
            if (p_.groups[static_cast<size_t>(g)].allowed(d)) placement[static_cast<size_t>(g)] = d;
          if (placement == best.placement) continue;
          const Score score = simulator_.run(placement);
          if (score.excess >= best.score.excess) continue;
          const double freed = static_cast<double>(best.score.excess - score.excess) / static_cast<double>(best.score.excess);
          const double worth = freed / (std::max(0.0, score.makespan / best.score.makespan - 1) + 1e-3);
          if (worth > most) most = worth, chosen = {std::move(placement), score};
        }
      }
      if (most == 0) return;
      best = std::move(chosen);
    }
  }

  // Places the series in two parts: all before a group on one device, the rest on another; and the devices filled one after
  // the other up to their limits.
  void add_cuts(std::vector<Judged>& starts) {
    const int n = p_.group_count(), devices = p_.device_count();
    for (int a = 0; a < devices; ++a) {
      for (int b = 0; b < devices; ++b) {
        if (a == b) continue;
        Placement placement = all_on(b);
        Judged best;
        best.score.makespan = kCannotRun;
        for (int i = 0; i < n; ++i) {
          const size_t g = static_cast<size_t>(pieces_.order[static_cast<size_t>(i)]);
          if (p_.groups[g].allowed(a)) placement[g] = a;
          if (Judged cut = judge(simulator_, placement); best.placement.empty() || better(cut, best)) best = std::move(cut);
        }
        starts.push_back(std::move(best));
      }
    }
    for (int first = 0; first < devices; ++first) {
      Placement placement(p_.groups.size(), simulator_.unplaced());
      int device = first;
      for (int g : pieces_.order) {
        for (int tried = 0; tried < devices; ++tried) {
          const int d = (device + tried) % devices;
          if (!p_.groups[static_cast<size_t>(g)].allowed(d)) continue;
          placement[static_cast<size_t>(g)] = d;
          if (simulator_.run(placement).excess == 0) {
            device = d;
            break;
          }
        }
      }
      starts.push_back(judge(simulator_, std::move(placement)));
    }
  }

  // Series again with a price on memory, raised on devices that are too full until they are not.
  void add_priced(SeriesSearch& series, const Judged& from, std::vector<Judged>& starts) {
    const size_t devices = p_.machine.devices.size();
    const auto memory = memory_by_group();
    std::vector<double> price(devices, 0);
    simulator_.run(from.placement);
    const double time = from.score.makespan;
    for (int round = 0; round < kPriceRounds; ++round) {
      for (size_t d = 0; d < devices; ++d) {
        const auto& limit = p_.machine.devices[d].memory_limit;
        if (!limit) continue;
        const double full = static_cast<double>(simulator_.peaks()[d]) / static_cast<double>(*limit + 1) - 1;
        price[d] = std::max(0.0, price[d] + kPriceStep / std::sqrt(round + 1.0) * full * time / static_cast<double>(*limit + 1));
      }
      Prices prices(p_.groups.size() * devices);
      for (size_t g = 0; g < p_.groups.size(); ++g)
        for (size_t d = 0; d < devices; ++d) prices[g * devices + d] = price[d] * memory[g];
      starts.push_back(judge(simulator_, series.run(kPricedVisits, prices)));
    }
  }

  // Exchanges two devices over a range of blocks, as long as that helps: it costs a crossing at each end at most, and moves as
  // much memory as nothing else does.
  void exchange(Judged& best, int64_t runs) {
    const int64_t end = simulator_.runs() + runs;
    const int blocks = static_cast<int>(pieces_.blocks.size()), devices = p_.device_count();
    std::vector<std::pair<int, int>> ranges;  // tails first
    for (int first = 1; first < blocks; ++first) ranges.emplace_back(first, blocks - 1);
    for (int first = 0; first < blocks; ++first)
      for (int last = first; last + 1 < blocks; ++last) ranges.emplace_back(first, last);
    for (bool again = true; again;) {
      again = false;
      for (auto [first, last] : ranges) {
        for (int a = 0; a < devices; ++a) {
          for (int b = a + 1; b < devices; ++b) {
            if (simulator_.runs() >= end) return;
            Placement placement = best.placement;
            for (size_t g = 0; g < placement.size(); ++g) {
              if (pieces_.block_of[g] < first || pieces_.block_of[g] > last || (placement[g] != a && placement[g] != b)) continue;
              if (const int to = placement[g] == a ? b : a; p_.groups[g].allowed(to)) placement[g] = to;
            }
            Judged changed = judge(simulator_, std::move(placement));
            if (better(changed, best)) best = std::move(changed), again = true;
          }
        }
      }
    }
  }

  // What a group adds to its device's memory around the end of the forward tasks.
  std::vector<double> memory_by_group() const {
    std::vector<double> memory;
    for (const Group& g : p_.groups) memory.push_back(static_cast<double>(g.resident_bytes + g.kept_bytes + g.gradient_bytes));
    for (const Flow& f : p_.flows)
      if (f.made_by == TaskKind::kForward && !f.at_start) memory[static_cast<size_t>(f.group)] += static_cast<double>(f.bytes);
    return memory;
  }

  // Improvement by moves and swaps, then exact search of every block and of windows over the series, until nothing helps.
  void polish(Judged& best, int64_t runs) {
    const int64_t end = simulator_.runs() + runs;
    const int reach = p_.group_count() <= 40 ? static_cast<int>(units_.size()) : 12;
    for (bool again = true; again && simulator_.runs() < end;) {
      improve(simulator_, units_, reach, end - simulator_.runs(), {}, best);
      const Judged before = best;
      for (const auto& window : windows()) {
        const int64_t left = end - simulator_.runs();
        if (left <= 0) break;
        search_exactly(simulator_, window, std::min(left, std::max<int64_t>(1000, runs / 8)), {}, best);
      }
      again = better(best, before);
    }
  }

  // Blocks with their boundaries, and sliding windows across them.
  std::vector<std::vector<int>> windows() const {
    std::set<std::vector<int>> seen;
    std::vector<std::vector<int>> all;
    auto add = [&](std::vector<int> window) {
      if (window.size() <= options_.exact_groups && seen.insert(window).second) all.push_back(std::move(window));
    };
    if (pieces_.order.size() <= options_.exact_groups) add(pieces_.order);
    for (const Block& block : pieces_.blocks) {
      std::vector<int> window;
      if (block.entry >= 0) window.push_back(block.entry);
      window.insert(window.end(), block.inside.begin(), block.inside.end());
      if (block.exit >= 0) window.push_back(block.exit);
      add(window);
    }
    for (size_t at = 0; kWindow <= options_.exact_groups && at + kWindow <= pieces_.order.size(); at += kWindow / 2)
      add({pieces_.order.begin() + static_cast<std::ptrdiff_t>(at), pieces_.order.begin() + static_cast<std::ptrdiff_t>(at + kWindow)});
    return all;
  }

  Status refusal(const Judged& best) {
    simulator_.run(best.placement);
    std::string all;
    uint64_t needed = 0, there = 0;
    for (size_t d = 0; d < p_.machine.devices.size(); ++d) {
      const auto& device = p_.machine.devices[d];
      if (!device.memory_limit) continue;
      const uint64_t peak = simulator_.peaks()[d];
      needed += peak;
      there += *device.memory_limit;
      all += cat("\n  ", device.name, ": limit ", bytes_text(*device.memory_limit), ", needed ", bytes_text(peak),
                 peak > *device.memory_limit ? cat(" (", bytes_text(peak - *device.memory_limit), " too much)") : "");
    }
    return device_error("no placement found that fits in memory; the closest is ", bytes_text(best.score.excess), " too big (needs ", bytes_text(needed), " where ",
                        bytes_text(there), " are allowed). Raise the limits, lower the batch, or add a device.", all);
  }

  const Problem& p_;
  const SolveOptions options_;
  Simulator simulator_;
  Pieces pieces_;
  std::vector<std::vector<int>> units_;  // single groups too, by where they begin
  int64_t run_limit_ = 0, series_runs_ = 0;
};

}  // namespace

std::vector<OneDevice> each_device_alone(const Problem& problem) {
  Simulator simulator(problem);
  std::vector<OneDevice> all;
  for (int d = 0; d < problem.device_count(); ++d) all.push_back(try_alone(problem, simulator, d));
  return all;
}

Result<Solution> solve(const Problem& problem, const SolveOptions& options) {
  if (problem.order.empty()) return internal_error("the partition problem is not finished");
  return Solver(problem, options).run();
}

std::string bytes_text(uint64_t bytes) {
  const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  return text;
}

std::string seconds_text(double seconds) {
  const double value = seconds < 1e-3 ? seconds * 1e6 : seconds < 1 ? seconds * 1e3 : seconds;
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s");
  return text;
}

}  // namespace eng
