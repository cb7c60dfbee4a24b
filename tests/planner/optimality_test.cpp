// Goals L1 and L2 (short; all of it with PLANNER_FULL=1): plans of random problems against the best of all placements, memory
// limits never passed, what fits nowhere refused, and the printed lower bound never above the optimum. The way of big
// problems is judged by itself (exact_small off), and so is the search through all placements.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "graph/partition/bound.h"
#include "graph/partition/solve.h"
#include "random_problem.h"

using namespace eng;
using namespace eng::test;

namespace {

bool full() { return std::getenv("PLANNER_FULL") != nullptr; }

struct Tally {
  int problems = 0, fitting = 0, optimal = 0, refused = 0, wrongly_refused = 0, over_memory = 0, not_refused = 0, bound_above = 0, exact_differs = 0, slower_than_one = 0;
  int split = 0;
  double worst = 0, gap = 0;

  void add(const Problem& p, uint64_t seed, size_t exact_groups = 24) {
    ++problems;
    const BruteForce best = search_all(p);
    const auto way = solve(p, {.exact_small = false, .exact_groups = exact_groups}), exact = solve(p, {.exact_small = true});
    if (!best.fits) {
      refused += !way.ok() && !exact.ok();
      not_refused += way.ok() || exact.ok();
      return;
    }
    ++fitting;
    const PlanBound bound = lower_bound(p);
    bound_above += bound.best() > best.score.makespan;
    gap += best.score.makespan / bound.best() - 1;
    exact_differs += !exact.ok() || exact->placement != best.placement;
    if (!way.ok()) {
      ++wrongly_refused;
      std::printf("seed %llu: refused, but a placement fits\n", static_cast<unsigned long long>(seed));
      return;
    }
    Simulator simulator(p);
    const Score judged = simulator.run(way->placement);
    CHECK(judged.makespan == way->score.makespan);
    for (int d = 0; d < p.device_count(); ++d) {
      const auto& limit = p.machine.devices[static_cast<size_t>(d)].memory_limit;
      over_memory += limit && simulator.peaks()[static_cast<size_t>(d)] > *limit;
    }
    for (const OneDevice& one : way->one_device) slower_than_one += one.note.empty() && one.score.makespan < way->score.makespan * (1 - 1e-12);
    split += way->score.crossings > 0;
    const double over = judged.makespan / best.score.makespan - 1;
    optimal += over < 1e-9;
    worst = std::max(worst, over);
    if (over > 1e-9) std::printf("seed %llu: %.2f %% over\n", static_cast<unsigned long long>(seed), 100 * over);
  }

  void check(const char* what, double share_optimal = 0.95, double most_over = 0.05) const {
    std::printf("L1 %s: %d problems, %d fit somewhere (%d of the plans split): optimal %.1f %%, worst over %.2f %%, refused though one fits %d, over memory %d; "
                "infeasible refused %d of %d; L2 bound above the optimum %d (mean gap of the optimum to it %.0f %%)\n",
                what, problems, fitting, split, 100.0 * optimal / fitting, 100 * worst, wrongly_refused, over_memory, refused, problems - fitting, bound_above,
                100 * gap / fitting);
    CHECK(optimal >= share_optimal * fitting);
    CHECK(worst <= most_over);
    CHECK(wrongly_refused == 0);
    CHECK(over_memory == 0);
    CHECK(not_refused == 0);
    CHECK(bound_above == 0);
    CHECK(exact_differs == 0);
    CHECK(slower_than_one == 0);
  }
};

}  // namespace

TEST_CASE("plans of random series-parallel graphs are optimal, fit, and are above the bound") {
  Tally tally;
  for (uint64_t seed = 0; seed < (full() ? 1000u : 100u); ++seed) tally.add(random_problem(seed, true), seed);
  tally.check("series-parallel");
}

TEST_CASE("plans of random general graphs are optimal, fit, and are above the bound") {
  Tally tally;
  for (uint64_t seed = 0; seed < (full() ? 200u : 30u); ++seed) tally.add(random_problem(1'000'000 + seed, false), 1'000'000 + seed);
  tally.check("general");
}

// What is left of the way when no set of more than five groups may be searched at once: moves, swaps, the series, finish times.
TEST_CASE("plans without exact search are nearly optimal") {
  Tally tally;
  for (uint64_t seed = 0; seed < (full() ? 500u : 60u); ++seed) tally.add(random_problem(2'000'000 + seed, seed % 4 != 0), 2'000'000 + seed, 5);
  tally.check("without exact search of more than 5 groups", 0.9, 0.2);
}

TEST_CASE("plans of graphs of up to 16 groups on two devices" * doctest::skip(!full())) {
  Tally tally;
  for (uint64_t seed = 0; seed < 200; ++seed) tally.add(random_problem(3'000'000 + seed, seed % 4 != 0, 16, 2), 3'000'000 + seed);
  tally.check("up to 16 groups, 2 devices");
}
