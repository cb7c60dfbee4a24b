// The arena planner: no two buffers that are alive together overlap; tight cases are solved; the bound is a bound.
#include <doctest/doctest.h>

#include "engine/memory/arena.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

bool valid(const std::vector<Interval>& intervals, const ArenaPlan& plan, uint64_t alignment) {
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (plan.offsets[i] % alignment || plan.offsets[i] + intervals[i].bytes > plan.bytes) return false;
    for (size_t k = 0; k < i; ++k) {
      const bool together = intervals[i].first <= intervals[k].last && intervals[k].first <= intervals[i].last;
      const bool overlap = plan.offsets[i] < plan.offsets[k] + intervals[k].bytes && plan.offsets[k] < plan.offsets[i] + intervals[i].bytes;
      if (together && overlap) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("arena: a chain needs two buffers, whatever its length") {
  std::vector<Interval> chain;
  for (int i = 0; i < 30; ++i) chain.push_back({i, i + 1, 1000});
  const ArenaPlan plan = plan_arena(chain, 31, 64);
  CHECK(valid(chain, plan, 64));
  CHECK(plan.bytes == 2048);  // 1000 rounded up to 1024
  CHECK(plan.lower_bound == 2048);
  CHECK(plan.live[5] == 2048);
  CHECK(plan.live[0] == 1024);
}

TEST_CASE("arena: nothing, and buffers of no bytes") {
  CHECK(plan_arena({}, 0, 64).bytes == 0);
  const ArenaPlan plan = plan_arena({{0, 3, 0}, {1, 2, 10}}, 4, 64);
  CHECK(plan.bytes == 64);
}

TEST_CASE("arena: random lifetimes never overlap and stay near the bound") {
  double worst = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random r(seed);
    const int steps = static_cast<int>(r.between(1, 60)), count = static_cast<int>(r.between(1, 120));
    std::vector<Interval> intervals;
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(r.between(0, steps - 1));
      intervals.push_back({first, static_cast<int>(r.between(first, std::min(steps - 1, first + 15))), static_cast<uint64_t>(r.between(0, 5000))});
    }
    const ArenaPlan plan = plan_arena(intervals, steps, 64);
    REQUIRE(valid(intervals, plan, 64));
    CHECK(plan.bytes >= plan.lower_bound);
    if (plan.lower_bound) worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound));
  }
  CHECK(worst < 1.4);
}

TEST_CASE("arena: forward buffers that live until their mirror image are packed to the bound") {
  std::vector<Interval> training;  // layer i's activation lives from step i to step 2n - i
  const int n = 40;
  for (int i = 0; i < n; ++i) training.push_back({i, 2 * n - i, static_cast<uint64_t>(1000 + 64 * (i * 7 % 11))});
  const ArenaPlan plan = plan_arena(training, 2 * n + 1, 64);
  CHECK(valid(training, plan, 64));
  CHECK(plan.bytes == plan.lower_bound);
}
