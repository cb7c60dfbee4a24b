// Where problems fall into blocks, chains and branches; bounds by hand; ties.
#include "graph/partition/series.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/partition/bound.h"
#include "graph/partition/solve.h"

using namespace eng;

namespace {

struct Edge { int from; std::vector<int> to; };

Problem problem_of_edges(int groups, const std::vector<Edge>& edges, int devices = 2, LinkSpec link = {1, 100}) {
  Problem p;
  for (int d = 0; d < devices; ++d) p.machine.devices.push_back({"cpu:" + std::to_string(d), {}, 0, 0});
  p.machine.connect_all(link);
  const std::vector<double> second(static_cast<size_t>(devices), 1.0);
  for (int g = 0; g < groups; ++g) p.add_group(std::string(1, static_cast<char>('a' + g)), second, second);
  for (const Edge& e : edges) p.add_edge("x", e.from, e.to, 100, 100);
  REQUIRE(p.finish().ok());
  return p;
}

}  // namespace

TEST_CASE("series: boundaries are where everything must pass") {
  // a - b - (c - d | e) - f - g
  const Problem p = problem_of_edges(7, {{0, {1}}, {1, {2, 4}}, {2, {3}}, {3, {5}}, {4, {5}}, {5, {6}}});
  const Pieces pieces = find_pieces(p);
  REQUIRE(pieces.blocks.size() == 4);
  CHECK(pieces.blocks[0].entry == -1);
  CHECK(pieces.blocks[0].exit == 0);
  CHECK(pieces.blocks[2].entry == 1);
  CHECK(pieces.blocks[2].exit == 5);
  CHECK(pieces.blocks[2].inside == std::vector<int>{2, 3, 4});
  CHECK(width_of(p, pieces.blocks[2]) == 2);
  CHECK(pieces.blocks[3].exit == 6);
  CHECK(std::count(pieces.units.begin(), pieces.units.end(), std::vector<int>{2, 3}) == 1);
  CHECK(std::count(pieces.units.begin(), pieces.units.end(), std::vector<int>{0, 1}) == 1);
}

TEST_CASE("series: a way around a group, a second source and a second end make it no boundary") {
  CHECK(find_pieces(problem_of_edges(3, {{0, {1, 2}}, {1, {2}}})).blocks.size() == 2);          // a, then b within (a, c)
  CHECK(find_pieces(problem_of_edges(4, {{0, {1}}, {1, {3}}, {2, {3}}})).blocks.size() == 1);   // two towers that meet in d
  const Pieces open = find_pieces(problem_of_edges(4, {{0, {1, 2}}, {2, {3}}}));                // b is an end of its own
  REQUIRE(open.blocks.size() == 2);
  CHECK(open.blocks[1].exit == -1);
}

TEST_CASE("series: a shared weight does not tie the blocks together") {
  Problem p = problem_of_edges(3, {{0, {1}}, {1, {2}}});
  p.add_shared_weight("w", 0, {2}, 1000);
  REQUIRE(p.finish().ok());
  CHECK(find_pieces(p).blocks.size() == 3);
}

TEST_CASE("bound: longest path, work, crossings that cannot be avoided") {
  // a - (b | c | d) - e, a second each way
  Problem p = problem_of_edges(5, {{0, {1, 2, 3}}, {1, {4}}, {2, {4}}, {3, {4}}});
  PlanBound bound = lower_bound(p);
  CHECK(bound.critical_path == doctest::Approx(6));
  CHECK(bound.crossings == doctest::Approx(6));
  CHECK(bound.work == doctest::Approx(5));
  p.groups[0].forced = 0;  // a transfer of 2 s on the way there, and one on the way back
  p.groups[4].forced = 1;
  REQUIRE(p.finish().ok());
  CHECK(lower_bound(p).crossings == doctest::Approx(10));
  p.groups[0].forced = p.groups[4].forced = kAnyDevice;
  for (int g : {1, 2, 3})
    for (auto& seconds : p.groups[static_cast<size_t>(g)].seconds) seconds[1] = kCannotRun;  // six seconds on cpu:0 alone
  REQUIRE(p.finish().ok());
  CHECK(lower_bound(p).work >= 6 * (1 - 1e-4));
  p.shards = 3;
  CHECK(lower_bound(p).critical_path == doctest::Approx(18));
}

TEST_CASE("solve: equal times go to fewer crossings, then to lower device numbers") {
  for (bool exact : {true, false}) {
    const auto chain = solve(problem_of_edges(4, {{0, {1}}, {1, {2}}, {2, {3}}}, 3, {0, 0}), {.exact_small = exact});  // crossings cost no time
    REQUIRE(chain.ok());
    CHECK(chain->placement == Placement{0, 0, 0, 0});
    const auto fork = solve(problem_of_edges(4, {{0, {1, 2}}, {1, {3}}, {2, {3}}}, 3, {0, 0}), {.exact_small = exact});
    REQUIRE(fork.ok());
    CHECK(fork->score.makespan == doctest::Approx(6));
    CHECK(fork->score.crossings == 4);
    CHECK(fork->placement == Placement{0, 0, 1, 0});
  }
}

TEST_CASE("solve: what fits nowhere is refused with the shortage") {
  Problem p = problem_of_edges(2, {{0, {1}}});
  for (Group& g : p.groups) g.resident_bytes = 5000;
  for (DeviceSpec& d : p.machine.devices) d.memory_limit = 4000;
  for (bool exact : {true, false}) {
    const auto refused = solve(p, {.exact_small = exact});
    CHECK(refused.status().code() == Code::kDevice);
    // each device one group with the value between them: 5,100 bytes
    CHECK(refused.status().message().find("no placement found that fits in memory; the closest is ") == 0);
    CHECK(refused.status().message().find("\n  cpu:1: limit 4.00 kB, needed 5.10 kB (1.10 kB too much)") != std::string::npos);
  }
  p.machine.devices[0].memory_limit.reset();
  CHECK(solve(p)->placement == Placement{0, 0});
}
