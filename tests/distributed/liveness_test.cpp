// Liveness by itself: processes as /proc shows them, silence on a clock that the test moves, and who speaks. And the launchers' variables.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "engine/distributed/liveness.h"

using namespace eng;
using std::chrono::milliseconds;

namespace {

RankIdentity elsewhere(int leader) {
  RankIdentity r;
  std::strcpy(r.host, "elsewhere");
  r.pid = 1;
  r.host_leader = leader;
  return r;
}

// Rank 0 here, the others each on a host of its own.
Liveness three_hosts(Clock::time_point now) {
  Liveness l;
  RankIdentity me = own_identity();
  me.host_leader = 0;
  l.start(0, {me, elsewhere(1), elsewhere(2)}, {true, true, true}, RankOptions(), now);
  return l;
}

}  // namespace

TEST_CASE("a process is alive, stopped, gone as a zombie, gone; and never mistaken for a later one") {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const uint64_t start = process_start_time(child);
  REQUIRE(start > 0);
  CHECK_FALSE(look_up_process(child, start).gone);
  CHECK_FALSE(look_up_process(child, start).stopped);
  CHECK(look_up_process(child, start + 1).gone);
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  CHECK(look_up_process(child, start).stopped);
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK(look_up_process(child, start).gone);
  waitpid(child, &status, 0);
  CHECK(look_up_process(child, start).gone);
}

TEST_CASE("a rank is lost after 8 silent seconds, not before") {
  const Clock::time_point start = Clock::now();
  Liveness l = three_hosts(start);
  for (int ms = 500; ms <= 8000; ms += 500) {
    l.heard(2, start + milliseconds(ms));
    CHECK(l.check(start + milliseconds(ms)).rank == -1);
  }
  const Liveness::Loss loss = l.check(start + milliseconds(8500));
  CHECK(loss.rank == 1);
  CHECK(loss.what.find("has not answered for 8 seconds") == 0);
  CHECK(l.speaker(loss) == 0);
}

TEST_CASE("a process that was itself held up gives the others their time again") {
  const Clock::time_point start = Clock::now();
  Liveness l = three_hosts(start);
  CHECK(l.check(start + milliseconds(500)).rank == -1);
  CHECK(l.check(start + milliseconds(60000)).rank == -1);
  CHECK(l.check(start + milliseconds(61000)).rank == -1);
}

TEST_CASE("a rank that does not answer a question is found, the others are not suspected") {
  const Clock::time_point start = Clock::now();
  Liveness l = three_hosts(start);
  l.heard(1, start + milliseconds(20));
  CHECK(l.unheard_since(start + milliseconds(10)).rank == 2);
  l.heard(2, start + milliseconds(30));
  CHECK(l.unheard_since(start + milliseconds(10)).rank == -1);
}

TEST_CASE("the lowest rank that sees a loss speaks") {
  Liveness l;
  RankIdentity me = own_identity();
  me.host_leader = 0;
  l.start(0, {me, elsewhere(1), me, elsewhere(1), elsewhere(1)}, {true, true, true, true, true}, RankOptions(), Clock::now());
  CHECK(l.speaker({3, "", true}) == 1);
  CHECK(l.speaker({1, "", true}) == 3);
  CHECK(l.speaker({0, "", true}) == 2);
  CHECK(l.speaker({3, "", false}) == 0);
  CHECK(l.speaker({0, "", false}) == 1);
}

TEST_CASE("a process of this host that is gone is lost at once") {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  RankIdentity me = own_identity(), other = me;
  other.pid = child;
  other.start_time = process_start_time(child);
  Liveness l;
  l.start(0, {me, other}, {true, true}, RankOptions(), Clock::now());
  CHECK(l.check_host(Clock::now()).rank == -1);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  const Liveness::Loss loss = l.check_host(Clock::now());
  CHECK(loss.rank == 1);
  CHECK(loss.on_host);
}
