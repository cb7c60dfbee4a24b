// Processes that exchange bytes through MPI, and what happens when one of them is killed, frozen or fails: every run ends within 15 seconds, with an
// error status, with one message that names the rank and the step, and leaves no process behind.
// ENGINE_FAULT_LOOP=50: that many faults of random kind, moment and number of ranks (about 4 minutes).
#include <doctest/doctest.h>

#include <random>

#include "engine/distributed/ranks.h"
#include "tests/distributed/mpi_run.h"

using namespace eng;
using namespace eng::test;

namespace {

constexpr double kLimit = 60;      // a run that works
constexpr double kFaultLimit = 15;

// The end that every fault must have. `message` appears once and is the only line of this kind.
void check_fault(MpiRun& run, const std::string& message) {
  const int status = run.finish(kFaultLimit);
  const std::string err = run.err();
  CAPTURE(err);
  CHECK_MESSAGE(status != -1, "the run has not ended after 15 seconds");
  CHECK(status != 0);
  CHECK(count_of(err, message) == 1);
  CHECK(count_of(err, "error: ") == 1);
  CHECK(err.find("MPI_ABORT was invoked") == std::string::npos);
  CHECK(run.no_orphans(3));
}

void check_fine(MpiRun& run, const std::string& line) {
  const int status = run.finish(kLimit);
  CAPTURE(run.err());
  CHECK(status == 0);
  CHECK(run.err().empty());
  CHECK(run.out().find(line) != std::string::npos);
  CHECK(run.no_orphans(1));
}

}  // namespace

TEST_CASE("every byte of every message arrives, whatever the sizes, the order and the number of ranks") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    MpiRun run(kOneHost, ranks, "transfers");
    check_fine(run, "rank " + std::to_string(ranks - 1) + " pid ");
  }
}

TEST_CASE("records are gathered, values are broadcast and barriers passed on 1 to 4 ranks") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    MpiRun run(kOneHost, ranks, "collectives");
    check_fine(run, "rank " + std::to_string(ranks - 1) + " pid ");
  }
}

TEST_CASE("a run of many steps ends in order") {
  MpiRun run(kOneHost, 4, "steps");
  check_fine(run, "all steps done");
}

TEST_CASE("a rank that takes its time is waited for") {
  MpiRun run(kOneHost, 2, "late 3");
  check_fine(run, "all steps done");
}

TEST_CASE("a process without a launcher is a single rank, also inside a batch script, and can be told to use MPI or not") {
  const std::string probe = std::string("'") + std::getenv("ENGINE_BIN") + "/ranks-probe' collectives";
  for (const char* settings : {"", "SLURM_PROCID=0 SLURM_NTASKS=4", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "ENGINE_RANKS=none OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"}) {
    CAPTURE(settings);
    MpiRun run("exec env " + std::string(settings) + " " + probe);
    check_fine(run, "rank 0 pid ");
  }
  MpiRun apart(kOneHost, 2, "collectives", "ENGINE_RANKS=none");
  CHECK(apart.finish(kLimit) == 0);
  CHECK(count_of(apart.out(), "rank 0 pid ") == 2);
}

TEST_CASE("a launcher of another MPI and a wrong setting are refused by name") {
  const std::string probe = std::string("'") + std::getenv("ENGINE_BIN") + "/ranks-probe' steps";
  MpiRun other("exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 " + probe);
  CHECK(other.finish(kLimit) == 2);
  CHECK(other.err().find("SLURM_STEP_NUM_TASKS says 2 ranks were started, but MPI sees 1") != std::string::npos);
  MpiRun wrong("exec env ENGINE_RANKS=yes " + probe);
  CHECK(wrong.finish(kLimit) == 2);
  CHECK(wrong.err().find("ENGINE_RANKS is 'yes'; wanted: mpi") != std::string::npos);
  MpiRun silence("exec env ENGINE_RANKS=mpi ENGINE_RANKS_SILENCE=soon " + probe);
  CHECK(silence.finish(kLimit) == 2);
  CHECK(silence.err().find("ENGINE_RANKS_SILENCE is 'soon'") != std::string::npos);
}

TEST_CASE("a rank that is killed ends the run with its name, the step and the last checkpoint") {
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    MpiRun run(kOneHost, ranks, "kill 7");
    run.wait_for_ranks(static_cast<size_t>(ranks));
    check_fault(run, ") was killed or has crashed, during step 7; the last checkpoint is last.ckpt (step 2)");
    CHECK(run.err().find("error: rank 1 (host ") != std::string::npos);
  }
}

TEST_CASE("rank 0 that is killed is missed too") {
  MpiRun run(kOneHost, 3, "long");
  const auto pids = run.wait_for_ranks(3);
  REQUIRE(pids.size() == 3);
  run.kill_rank(pids.at(0), SIGKILL);
  check_fault(run, "error: rank 0 (host ");
}

TEST_CASE("a rank that is frozen ends the run; one that is frozen for a moment only is forgiven") {
  MpiRun run(kOneHost, 2, "stop 7"), forgiven(kOneHost, 2, "steps");
  const auto pids = forgiven.wait_for_ranks(2);
  REQUIRE(pids.size() == 2);
  forgiven.kill_rank(pids.at(1), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  forgiven.kill_rank(pids.at(1), SIGCONT);
  check_fine(forgiven, "all steps done");
  check_fault(run, ") has been stopped for 5 seconds and does not answer, during step 7; the last checkpoint is last.ckpt (step 2)");
  CHECK(run.err().find("error: rank 1 (host ") != std::string::npos);
}

TEST_CASE("a rank that fails says so once, and the run takes its exit status") {
  MpiRun run(kOneHost, 4, "fail 7");
  const int status = run.finish(kFaultLimit);
  CAPTURE(run.err());
  CHECK(status == 3);
  CHECK(count_of(run.err(), "error: rank 1, step 7: picture.jpg: it is broken") == 1);
  CHECK(count_of(run.err(), "rank ") == 1);
  CHECK(run.no_orphans(3));
}

TEST_CASE("a rank that returns early while the others work is named; ranks whose MPI hangs end too") {
  MpiRun early(kOneHost, 2, "exit 7"), hangs(kOneHost, 2, "hang 7", "ENGINE_RANKS_SILENCE=2");
  check_fault(early, ") has ended while the others still work, during step 7");
  CHECK(hangs.finish(kFaultLimit) > 0);
  CAPTURE(hangs.err());
  CHECK(hangs.err().find(", step 7: MPI has not returned from a call for ") != std::string::npos);
  CHECK(hangs.no_orphans(3));
}

TEST_CASE("ends that disagree about a message's size are a failure, not a hang") {
  MpiRun run(kOneHost, 2, "unequal");
  check_fault(run, "error: rank 1, step 0: ");
}

TEST_CASE("Ctrl-C at mpirun reaches the ranks as a request to stop, not as a failure") {
  MpiRun run(kOneHost, 2, "long");
  REQUIRE(run.wait_for_ranks(2).size() == 2);
  kill(run.launcher(), SIGINT);
  CHECK(run.finish(kFaultLimit) > 0);
  CAPTURE(run.err());
  CHECK(run.out().find("stopped in order after step") != std::string::npos);
  CHECK(run.err().find("error:") == std::string::npos);
  CHECK(run.no_orphans(1));
}

TEST_CASE("a stop signal to one rank stops all in order") {
  MpiRun run(kOneHost, 3, "long");
  const auto pids = run.wait_for_ranks(3);
  REQUIRE(pids.size() == 3);
  run.kill_rank(pids.at(2), SIGTERM);
  check_fine(run, "stopped in order after step");
}

TEST_CASE("ranks whose mpirun was killed end by themselves") {
  MpiRun run(kOneHost, 2, "long");
  REQUIRE(run.wait_for_ranks(2).size() == 2);
  kill(run.launcher(), SIGKILL);
  CHECK(run.finish(kFaultLimit) == 128 + SIGKILL);
  CHECK(run.no_orphans(5));
}

TEST_CASE("the same on two hosts that share nothing but a network") {
  HostNamespaces hosts(2);
  if (!hosts.ok()) {
    MESSAGE("skipped: network namespaces are not permitted here");
    return;
  }
  MpiRun fine(hosts.launcher({1, 2}), 3, "transfers");
  CHECK(fine.finish(kLimit) == 0);  // mpirun may warn about its own process groups
  CHECK(fine.err().find("error:") == std::string::npos);
  MpiRun killed(hosts.launcher({1, 1}), 2, "kill 7");  // alone on its host
  MpiRun frozen(hosts.launcher({1, 1}), 2, "stop 7", "ENGINE_RANKS_SILENCE=3");
  check_fault(killed, ") was killed or has crashed, or its host is down, during step 7; the last checkpoint is last.ckpt (step 2)");
  CHECK(killed.err().find("error: rank 1 (host node2, pid ") != std::string::npos);
  check_fault(frozen, ") has not answered for 3 seconds: it is frozen, or its host is down or cannot be reached, during step 7");
  MpiRun fails(hosts.launcher({1, 1}), 2, "fail 7");
  CHECK(fails.finish(kFaultLimit) == 3);
  CHECK(count_of(fails.err(), "rank ") == 1);
  CHECK(fails.no_orphans(3));
}

TEST_CASE("random faults") {
  const char* text = std::getenv("ENGINE_FAULT_LOOP");
  const int times = text ? std::atoi(text) : 0;
  std::mt19937 random(20);
  for (int i = 0; i < times; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 3), step = 1 + static_cast<int>(random() % 60), kind = static_cast<int>(random() % 3);
    const std::string mode = kind == 0 ? "kill" : kind == 1 ? "stop" : "fail";
    CAPTURE(i);
    CAPTURE(mode);
    CAPTURE(ranks);
    MpiRun run(kOneHost, ranks, mode + " " + std::to_string(step));
    check_fault(run, kind == 2 ? "error: rank 1, step " + std::to_string(step) + ": " : "during step " + std::to_string(step));
  }
}
