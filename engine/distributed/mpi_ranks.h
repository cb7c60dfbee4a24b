// Ranks over MPI. One communication thread makes every MPI call, from MPI_Init to MPI_Finalize or MPI_Abort; the other threads hand it transfers.
//
// Its round: start what was posted, let MPI work, read control messages, look after the other ranks, rest. It rests on a condition variable so that a new
// transfer wakes it: not at all for a moment after something moved, then 50-400 us while something is under way (more the longer
// it has waited), else 20 ms.
//
// How a run ends early. A rank that fails, or the one that speaks for a lost rank, prints the one message, tells all ranks "ending" and calls MPI_Abort. A rank
// told so stays silent and waits to be killed; should that not happen it leaves by itself. Whatever MPI does, a guard ends the process (kGuard).
// mpirun often sees a death first and sends SIGTERM, then SIGKILL a second later: on a signal the processes of this host are looked at
// at once and those elsewhere are asked for an answer, so that a death is not taken for a Ctrl-C.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/distributed/liveness.h"
#include "engine/distributed/mpi_control.h"
#include "engine/distributed/mpi_transfers.h"
#include "engine/distributed/ranks.h"

namespace eng {

class MpiRanks final : public Ranks {
 public:
  // `expected` ranks were started by the launcher (0: unknown); `launcher` says how that is known.
  static Result<std::shared_ptr<Ranks>> start(const RankOptions& options, int64_t expected, const char* launcher);
  ~MpiRanks() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return host_of(rank_); }
  const std::string& host_of(int rank) const override { return hosts_[static_cast<size_t>(rank)]; }

  int64_t post_send(int to, int tag, const void* data, uint64_t bytes) override;
  int64_t post_receive(int from, int tag, void* data, uint64_t bytes) override;
  bool done(int64_t ticket) override;
  Status wait(int64_t ticket) override;
  Result<int64_t> wait_any(std::span<const int64_t> tickets, std::chrono::microseconds timeout) override;
  Status health() override;
  Status gather_all(const void* mine, uint64_t bytes, void* all) override;
  Status broadcast(void* data, uint64_t bytes, int root) override;
  Status barrier() override;
  void set_step(int64_t step) override;
  void set_note(const std::string& note) override;
  [[noreturn]] void fail(const Status& status) override;

 private:
  enum class Phase { kStarting, kRunning, kClosing, kFailing, kEnded };
  // A transfer's memory. Its ticket is (uses << 32 | index); it is done when the slot has been used more often than the ticket says.
  struct Slot {
    Transfer transfer;
    int32_t uses = 0;
    bool busy = false;
    Clock::time_point posted;
  };

  // Outlives the object: MPI_Finalize may never return.
  struct Finalized {
    std::mutex mutex;
    std::condition_variable changed;
    bool yes = false;
  };

  explicit MpiRanks(const RankOptions& options) : options_(options) {}
  int64_t post(const Transfer& transfer);
  bool done_locked(int64_t ticket) const;
  Status check_peer(int other, int tag) const;

  // The watching thread: ends the process when the communication thread is stuck inside MPI.
  void watch();

  // The communication thread.
  void run(int64_t expected, const char* launcher);
  Status open(int64_t expected, const char* launcher);
  void serve();
  bool transfer_round(Clock::time_point now);
  void control_round(Clock::time_point now);
  void beat(ControlKind kind);
  void check_signal(Clock::time_point now);
  void check_left(Clock::time_point now);
  void check_launcher();
  void rest(bool moved, Clock::time_point now);
  void tell_all(ControlKind kind, int code);
  // Each of these ends the process.
  void own_failure(const Status& status);
  void lost(const Liveness::Loss& loss);
  void other_ends(const ControlMessage& message);
  void say_ending(int code);
  void abort_all(int code);

  const RankOptions options_;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::vector<std::string> hosts_;
  std::thread thread_, watch_;
  std::atomic<uint64_t> rounds_{0};   // of the communication thread
  std::atomic<bool> leaving_{false};  // it is ending the process, with guards of its own
  const std::shared_ptr<Finalized> finalized_ = std::make_shared<Finalized>();
  const pid_t launcher_ = getppid();

  std::mutex mutex_;  // guards the block below
  std::condition_variable work_;      // the communication thread rests here
  std::condition_variable progress_;  // callers wait here
  std::condition_variable ended_;     // the watching thread waits here
  Phase phase_ = Phase::kStarting;
  Status start_status_;
  Status broken_;  // why the run is over
  int fail_code_ = 0;  // of phase kFailing
  std::deque<Slot> slots_;
  std::vector<int32_t> free_, posted_;
  int waiters_ = 0;
  std::string note_;
  std::atomic<int64_t> step_{0};

  // The communication thread's own.
  MpiTransfers transfers_;
  MpiControl control_;
  Liveness liveness_;
  std::vector<int32_t> starting_, finished_now_;
  std::vector<ControlMessage> received_;
  std::vector<bool> closed_;  // ranks that need nothing more
  std::vector<Clock::time_point> closed_at_;
  std::vector<int> beats_to_;
  Clock::time_point last_beat_{}, last_move_{}, last_slow_check_{}, asked_{}, signal_time_{};
  std::chrono::milliseconds answer_time_{0};  // a rank asked must be heard within it
  int signal_ = 0;
  bool closing_told_ = false, speaking_ = false;
};

}  // namespace eng
