// Who of the other ranks still lives. No MPI here: what was heard is told to it, the processes of this host are looked up in /proc.
//
// A rank is lost when it was not heard for `silence`, or when it runs on this host and its process is gone (killed, crashed, exited) or has been
// stopped for `stopped`. A process number alone is not trusted: host, process-number space and start time are compared too.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/distributed/ranks.h"

namespace eng {

using Clock = std::chrono::steady_clock;

// What ranks tell each other at the start; sent as bytes.
struct RankIdentity {
  char host[64] = {};
  char space[96] = {};      // machine boot and process-number space: equal for processes that see each other in /proc
  int32_t pid = 0;
  int32_t host_leader = 0;  // the lowest rank on the same host
  uint64_t start_time = 0;  // of the process, in clock ticks since boot
};
RankIdentity own_identity();
// Of a process, in clock ticks since boot; 0 if there is none.
uint64_t process_start_time(int32_t pid);

struct ProcessState {
  bool gone = false;     // there is no such process any more, or it is a zombie
  bool stopped = false;  // by a signal
};
// `start_time` tells it from a later process with the same number.
ProcessState look_up_process(int32_t pid, uint64_t start_time);

class Liveness {
 public:
  struct Loss {
    int rank = -1;  // -1: none
    std::string what;      // "was killed or has crashed"
    bool on_host = false;  // its process was looked at; the other ranks of its host see the same
  };

  // `heard_directly[r]`: r sends heartbeats to this rank, so silence counts.
  void start(int self, std::vector<RankIdentity> ranks, std::vector<bool> heard_directly, const RankOptions& options, Clock::time_point now);
  void heard(int rank, Clock::time_point now) { last_heard_[static_cast<size_t>(rank)] = now; }
  // Looks at the ranks of this host now.
  Loss check_host(Clock::time_point now);
  // check_host, at most every 250 ms, and silence. If this process itself was held up (stopped, or starved of the processor), every clock starts anew.
  Loss check(Clock::time_point now);
  // A rank that sends heartbeats to this one but was not heard since `then`, although it was asked then and the launcher wants the run to end.
  Loss unheard_since(Clock::time_point then) const;

  const RankIdentity& identity(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool same_host(int a, int b) const { return identity(a).host_leader == identity(b).host_leader; }
  // Who tells the user: the lowest rank of those that see the same.
  int speaker(const Loss& loss) const;

 private:
  int self_ = 0;
  RankOptions options_;
  std::vector<RankIdentity> ranks_;
  std::vector<bool> heard_directly_, on_host_;
  std::vector<Clock::time_point> last_heard_, stopped_since_;
  Clock::time_point last_check_, last_host_check_;
};

}  // namespace eng
