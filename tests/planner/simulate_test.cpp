// Step times and memory of small cases, computed by hand.
#include "graph/partition/simulate.h"

#include <doctest/doctest.h>

using namespace eng;

namespace {

Machine two_devices(double latency, double bytes_per_second) {
  Machine m;
  m.devices = {{"cpu:0"}, {"cpu:1"}};
  m.connect_all({latency, bytes_per_second});
  return m;
}

// a -> b, a -> c, (b, c) -> d. Forward 1, 2, 3, 1 s; backward twice that; updates 0.5 s.
Problem diamond(double latency, double bytes_per_second) {
  Problem p;
  p.machine = two_devices(latency, bytes_per_second);
  const double forward[] = {1, 2, 3, 1};
  const char* names[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; ++i) p.add_group(names[i], {forward[i], forward[i]}, {2 * forward[i], 2 * forward[i]}, {0.5, 0.5});
  p.add_edge("x", 0, {1, 2}, 100, 100);
  p.add_edge("y", 1, {3}, 100, 100);
  p.add_edge("z", 2, {3}, 100, 100);
  REQUIRE(p.finish().ok());
  return p;
}

}  // namespace

TEST_CASE("simulate: one device does everything one after the other") {
  const Problem p = diamond(0.25, 100);
  Simulator s(p);
  const Score score = s.run(Placement{0, 0, 0, 0});
  CHECK(score.makespan == doctest::Approx(7 + 14 + 2));
  CHECK(score.backward_end == doctest::Approx(21));
  CHECK(score.crossings == 0);
}

TEST_CASE("simulate: branches run side by side, transfers take latency and bandwidth") {
  const Problem p = diamond(0.25, 100);  // a transfer: 1.25 s
  Simulator s(p);
  const Timeline t = s.timeline(Placement{0, 1, 0, 0});
  CHECK(t.task(0, TaskKind::kForward).end == doctest::Approx(1));
  CHECK(t.task(1, TaskKind::kForward).start == doctest::Approx(2.25));  // after the transfer
  CHECK(t.task(2, TaskKind::kForward).end == doctest::Approx(4));       // meanwhile
  CHECK(t.task(3, TaskKind::kForward).start == doctest::Approx(5.5));   // b ends at 4.25, its value comes at 5.5
  CHECK(t.task(3, TaskKind::kBackward).end == doctest::Approx(8.5));
  CHECK(t.task(2, TaskKind::kBackward).end == doctest::Approx(14.5));
  CHECK(t.task(1, TaskKind::kBackward).start == doctest::Approx(9.75));
  CHECK(t.task(1, TaskKind::kBackward).end == doctest::Approx(13.75));
  CHECK(t.task(0, TaskKind::kBackward).start == doctest::Approx(15));  // b's gradient comes last
  CHECK(t.score.backward_end == doctest::Approx(17));
  CHECK(t.score.makespan == doctest::Approx(18.5));                    // three updates on cpu:0
  REQUIRE(t.transfers.size() == 4);
  CHECK(t.transfers[0].span.start == doctest::Approx(1));
  CHECK(t.transfers[3].span.end == doctest::Approx(15));
}

TEST_CASE("simulate: a value that two groups of one device read crosses once, gradients come back one by one") {
  const Problem p = diamond(0.25, 100);
  Simulator s(p);
  const Timeline t = s.timeline(Placement{0, 1, 1, 1});
  CHECK(t.score.crossings == 3);
  // d, c and b forward on cpu:1: 2.25 + 6 = 8.25; d backward until 10.25; the longer branch c until 16.25, b until 20.25.
  CHECK(t.task(2, TaskKind::kBackward).end == doctest::Approx(16.25));
  CHECK(t.task(1, TaskKind::kBackward).end == doctest::Approx(20.25));
  CHECK(t.task(0, TaskKind::kBackward).start == doctest::Approx(21.5));
}

TEST_CASE("simulate: transfers of one link wait for each other") {
  Problem p;
  p.machine = two_devices(0, 10);
  p.add_group("a", {1, 1}, {0, 0});
  p.add_group("b", {1, 1}, {0, 0});
  p.add_group("c", {1, 1}, {0, 0});
  p.add_edge("x", 0, {2}, 50, 0);  // 5 s
  p.add_edge("y", 1, {2}, 50, 0);
  REQUIRE(p.finish().ok());
  Simulator s(p);
  CHECK(s.run(Placement{0, 0, 1}).makespan == doctest::Approx(1 + 5 + 5 + 1));
  p.machine.link(0, 1).bytes_per_second = 100;  // 0.5 s: the second is sent when it is there
  CHECK(Simulator(p).run(Placement{0, 0, 1}).makespan == doctest::Approx(2 + 0.5 + 1));
}

TEST_CASE("simulate: a shared weight is copied when the step begins and its gradient goes to the owner's update") {
  Problem p;
  p.machine = two_devices(1, 10);
  p.add_group("owner", {1, 1}, {1, 1}, {2, 2});
  p.add_group("user", {1, 1}, {1, 1}, {0, 0});
  p.add_shared_weight("w", 0, {1}, 10);  // 2 s
  REQUIRE(p.finish().ok());
  Simulator s(p);
  const Timeline t = s.timeline(Placement{0, 1});
  CHECK(t.task(1, TaskKind::kForward).start == doctest::Approx(2));
  CHECK(t.task(0, TaskKind::kUpdate).start == doctest::Approx(2 + 1 + 1 + 2));
  CHECK(t.score.makespan == doctest::Approx(8));
  CHECK(t.score.crossings == 2);
}

TEST_CASE("simulate: several shards repeat forward and backward, the all-reduce comes before the updates") {
  Problem p = diamond(0.25, 100);
  p.shards = 3;
  CHECK(Simulator(p).run(Placement{0, 0, 0, 0}).makespan == doctest::Approx(3 * 21 + 2));
  p.all_reduce = {1, 0.01};
  p.groups[0].gradient_bytes = 100;
  p.groups[1].gradient_bytes = 200;
  CHECK(Simulator(p).run(Placement{0, 0, 0, 0}).makespan == doctest::Approx(3 * 21 + 1 + 3 + 2));
}

TEST_CASE("simulate: memory is what is alive at once") {
  Problem p;
  p.machine = two_devices(0, 1);
  for (const char* name : {"a", "b", "c"}) p.add_group(name, {1, 1}, {1, 1});
  p.add_edge("x", 0, {1}, 100, 40);
  p.add_edge("y", 1, {2}, 30, 20);
  p.groups[0].resident_bytes = 1000;
  p.groups[1].kept_bytes = 7;
  p.groups[2].scratch_bytes[1] = 500;
  p.groups[0].gradient_bytes = 3;
  REQUIRE(p.finish().ok());
  Simulator s(p);
  s.run(Placement{0, 0, 0});
  // a: 1000+100; b: +7 +30, then x dies; c: 1037, y dies; c backward: 1007+20+500; b backward: 1007 + 40 + 20
  CHECK(s.peaks()[0] == 1000 + 7 + 20 + 500);
  p.groups[2].scratch_bytes[1] = 0;
  Simulator t(p);
  t.run(Placement{0, 0, 0});
  CHECK(t.peaks()[0] == 1000 + 100 + 7 + 30);
  t.run(Placement{0, 1, 0});
  CHECK(t.peaks()[0] == 1000 + 100);         // x goes when it was sent; later y, its gradient, a's gradient
  CHECK(t.peaks()[1] == 100 + 7 + 30);
  p.machine.devices[1].memory_limit = 130;
  CHECK(Simulator(p).run(Placement{0, 1, 0}).excess == 7);
  const Timeline line = Simulator(p).timeline(Placement{0, 1, 0});
  CHECK(line.memory[1].resident == 0);
  uint64_t most = 0;
  for (const auto& point : line.memory[1].curve) most = std::max(most, point.bytes);
  CHECK(most == 137);
  CHECK(line.memory[1].curve.back().bytes == 0);
  CHECK(line.memory[0].curve.back().bytes == 1000);
}

TEST_CASE("problem: what cannot be placed is refused when it is finished") {
  Problem p;
  p.machine = two_devices(0, 1);
  p.add_group("a", {kCannotRun, kCannotRun}, {kCannotRun, kCannotRun}, {kCannotRun, kCannotRun});
  p.groups[0].refusal = {"no Conv of float64", "no such operator"};
  CHECK(p.finish().message() == "no device can run 'a':\n  cpu:0: no Conv of float64\n  cpu:1: no such operator");
  p.groups[0].seconds[0] = {1, kCannotRun};
  p.groups[0].forced = 1;
  p.groups[0].forced_reason = "forced by placement line 3";
  CHECK(p.finish().message() == "'a' is forced by placement line 3 on cpu:1, which cannot run it: no such operator");
  Problem circle;
  circle.machine = two_devices(0, 1);
  circle.add_group("a", {1, 1}, {1, 1});
  circle.add_group("b", {1, 1}, {1, 1});
  circle.add_edge("x", 0, {1}, 1, 0);
  circle.add_edge("y", 1, {0}, 1, 0);
  CHECK(circle.finish().message() == "the groups depend on each other in a circle: a, b");
}
