// See mpi_ranks.h. Here: the communication thread.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/distributed/launch.h"
#include "engine/distributed/mpi_quiet.h"
#include "engine/distributed/mpi_ranks.h"
#include "engine/train/interrupt.h"
#include "engine/io/file.h"

namespace eng {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kSpin{20};           // after something moved: look again at once
// Something is under way: the rest grows with the time that nothing has moved, so that at most a kRestShare-th is added to a wait. Waking up often costs
// more than it seems: it takes the core from the kernels (3,000 rests a second made them a third slower on two virtual cores).
constexpr microseconds kShortRest{50}, kLongRest{10000};
constexpr int kRestShare = 4;
constexpr milliseconds kIdleRest{20};       // nothing is under way
constexpr milliseconds kAfterwork{10};      // ... and has not been for this long: MPI may still have bytes of finished sends in hand
constexpr milliseconds kSlowCheck{500};     // for the launcher and for ranks that have left
constexpr milliseconds kSayEnding{300};     // for "ending" to reach the others
constexpr milliseconds kOthersSpeak{2500};  // a rank that is not the speaker leaves by itself after this
constexpr milliseconds kGrace{300};         // for the callers to look up from what they do
constexpr milliseconds kAbort{3000};        // MPI_Abort may take this long
constexpr milliseconds kLeftBehind{3000};   // an operation may wait this long for a rank that has closed

// Ends the process after `after`, whatever the other threads are stuck in.
void guard(milliseconds after, int code) {
  std::thread([=] {
    std::this_thread::sleep_for(after);
    _exit(code);
  }).detach();
}

// The nearest code to an exit status that another rank ended with.
Code code_of(int status) { return status == 2 ? Code::kUsage : status == 3 ? Code::kInvalid : status == 5 ? Code::kStopped : Code::kDevice; }

}  // namespace

void MpiRanks::run(int64_t expected, const char* launcher) {
  prctl(PR_SET_NAME, "ranks");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // rests of 50 us are that long
  const Status status = open(expected, launcher);
  {
    std::lock_guard lock(mutex_);
    start_status_ = status;
    phase_ = status.ok() ? Phase::kRunning : Phase::kEnded;
    progress_.notify_all();
  }
  if (!status.ok()) return;
  serve();
  control_.close();
  transfers_.close();
  const std::shared_ptr<Finalized> finalized = finalized_;
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::kEnded;
    progress_.notify_all();
    ended_.notify_all();
  }
  // The object may go from here on.
  MPI_Finalize();
  std::lock_guard lock(finalized->mutex);
  finalized->yes = true;
  finalized->changed.notify_all();
}

Status MpiRanks::open(int64_t expected, const char* launcher) {
  int given = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) return device_error("MPI_Init_thread failed");
  ENG_TRY(mpi_status(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  hold_back_mpi_texts();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  if (expected > 0 && expected != size_) {
    MPI_Finalize();
    return usage_error(launcher, " says ", expected, " ranks were started, but MPI sees ", size_,
                       ": the launcher belongs to another MPI. Wanted: mpirun of Open MPI, or srun --mpi=pmix");
  }
  MPI_Comm host = MPI_COMM_NULL;
  ENG_TRY(mpi_status(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type"));
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_size(host, &local_size_);
  RankIdentity me = own_identity();
  me.host_leader = rank_;
  ENG_TRY(mpi_status(MPI_Bcast(&me.host_leader, 1, MPI_INT32_T, 0, host), "MPI_Bcast"));
  MPI_Comm_free(&host);
  std::vector<RankIdentity> all(static_cast<size_t>(size_));
  constexpr int kBytes = sizeof(RankIdentity);
  ENG_TRY(mpi_status(MPI_Allgather(&me, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather"));
  for (const RankIdentity& r : all) hosts_.emplace_back(r.host);
  ENG_TRY(transfers_.open(options_.piece_bytes));
  ENG_TRY(control_.open());
  closed_.assign(static_cast<size_t>(size_), false);
  closed_at_.assign(static_cast<size_t>(size_), Clock::time_point{});
  closed_[static_cast<size_t>(rank_)] = true;
  answer_time_ = std::clamp<milliseconds>(launcher_patience() / 2, milliseconds(500), milliseconds(3000));
  // Heartbeats form a star around rank 0.
  std::vector<bool> heard(static_cast<size_t>(size_), rank_ == 0);
  heard[0] = true;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && heard[static_cast<size_t>(r)]) beats_to_.push_back(r);
  liveness_.start(rank_, std::move(all), std::move(heard), options_, Clock::now());
  return {};
}

// Until all ranks have closed. A run that breaks ends in here with the process.
void MpiRanks::serve() {
  for (;; ++rounds_) {
    Phase phase;
    int code = 0;
    {
      std::lock_guard lock(mutex_);
      phase = phase_;
      code = fail_code_;
      starting_.swap(posted_);
    }
    const Clock::time_point now = Clock::now();
    if (phase == Phase::kFailing) {
      say_ending(code);
      abort_all(code);
    }
    if (phase == Phase::kClosing && !closing_told_) {
      tell_all(ControlKind::kClosing, 0);
      closing_told_ = true;
    }
    const bool moved = transfer_round(now);
    control_round(now);
    if (closing_told_ && control_.all_sent() && transfers_.idle() && std::find(closed_.begin(), closed_.end(), false) == closed_.end()) return;
    check_signal(now);
    if (now - last_beat_ >= options_.heartbeat) {
      last_beat_ = now;
      beat(ControlKind::kAlive);
    }
    const Liveness::Loss loss = liveness_.check(now);
    if (loss.rank >= 0) lost(loss);
    if (now - last_slow_check_ >= kSlowCheck) {
      last_slow_check_ = now;
      check_launcher();
      check_left(now);
    }
    rest(moved, now);
  }
}

bool MpiRanks::transfer_round(Clock::time_point now) {
  for (const int32_t id : starting_) {
    Transfer t;
    {
      std::lock_guard lock(mutex_);
      t = slots_[static_cast<size_t>(id)].transfer;
    }
    const Status status = transfers_.begin(id, t);
    if (!status.ok()) own_failure(status);
  }
  bool moved = !starting_.empty();
  starting_.clear();
  if (!transfers_.idle()) {
    finished_now_.clear();
    const Status status = transfers_.test(&finished_now_, &moved);
    if (!status.ok()) own_failure(status);
    if (!finished_now_.empty()) {
      std::lock_guard lock(mutex_);
      for (const int32_t id : finished_now_) {
        Slot& slot = slots_[static_cast<size_t>(id)];
        slot.busy = false;
        slot.uses = (slot.uses + 1) & 0x7fffffff;
        free_.push_back(id);
      }
      if (waiters_) progress_.notify_all();
    }
  }
  if (moved) last_move_ = now;
  return moved;
}

void MpiRanks::control_round(Clock::time_point now) {
  received_.clear();
  const Status status = control_.poll(&received_);
  if (!status.ok()) own_failure(status);
  for (const ControlMessage& m : received_) {
    liveness_.heard(m.from, now);
    if (m.kind == ControlKind::kAsk && control_.sent(static_cast<int>(m.from)))
      (void)control_.send(static_cast<int>(m.from), {.kind = ControlKind::kAlive, .step = step_, .from = rank_});
    if (m.kind == ControlKind::kClosing) {
      closed_[static_cast<size_t>(m.from)] = true;
      closed_at_[static_cast<size_t>(m.from)] = now;
    }
    if (m.kind == ControlKind::kEnding) other_ends(m);
  }
}

// A heartbeat, or a question, to the ranks that this one hears from.
void MpiRanks::beat(ControlKind kind) {
  for (const int r : beats_to_) {
    if (!control_.sent(r)) continue;
    const Status status = control_.send(r, {.kind = kind, .step = step_, .from = rank_});
    if (!status.ok()) own_failure(status);
  }
}

void MpiRanks::tell_all(ControlKind kind, int code) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) (void)control_.send(r, {.kind = kind, .code = code, .step = step_, .from = rank_});
}

// A signal may be the launcher's answer to a death that it saw before us, a broken connection that death itself: look at this host's ranks, ask the others.
void MpiRanks::check_signal(Clock::time_point now) {
  const int signal = interrupt_signal();
  Liveness::Loss loss;
  if (connection_trouble() || (signal && !signal_)) {
    loss = liveness_.check_host(now);
    if (asked_ == Clock::time_point{}) asked_ = now;
    beat(ControlKind::kAsk);
  }
  if (signal && !signal_) signal_time_ = now;
  signal_ = signal;
  if (asked_ != Clock::time_point{} && now - asked_ > answer_time_) {
    loss = liveness_.unheard_since(asked_);
    asked_ = {};
  }
  if (loss.rank >= 0) lost(loss);
}

// mpirun was killed: it cannot end the others, nobody reads what they print.
void MpiRanks::check_launcher() {
  if (getppid() == launcher_) return;
  if (local_rank_ == 0) std::fprintf(stderr, "error: rank %d: the launcher (pid %d) is gone, during step %lld\n", rank_, static_cast<int>(launcher_), static_cast<long long>(step_));
  _exit(exit_status(Code::kDevice));
}

// A rank that has closed while this one waits for it: somebody returned early on one rank only.
void MpiRanks::check_left(Clock::time_point now) {
  int left = -1;
  {
    std::lock_guard lock(mutex_);
    for (const Slot& slot : slots_) {
      if (!slot.busy || now - slot.posted < kLeftBehind) continue;
      const bool pair = slot.transfer.kind == TransferKind::kSend || slot.transfer.kind == TransferKind::kReceive;
      for (int r = 0; r < size_ && left < 0; ++r)
        if (r != rank_ && closed_[static_cast<size_t>(r)] && now - closed_at_[static_cast<size_t>(r)] >= kLeftBehind && (!pair || slot.transfer.peer == r)) left = r;
    }
  }
  if (left >= 0) lost({left, "has ended while the others still work"});
}

void MpiRanks::rest(bool moved, Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (moved || !posted_.empty() || (phase_ == Phase::kClosing && !closing_told_) || phase_ == Phase::kFailing) return;
  const bool working = !transfers_.idle() || !control_.all_sent();
  const auto calm = now - last_move_;
  if (working && calm < kSpin) return;
  if (!working && calm > kAfterwork)
    work_.wait_for(lock, kIdleRest);
  else
    work_.wait_for(lock, std::clamp<Clock::duration>(calm / kRestShare, kShortRest, kLongRest));
}

// MPI itself reports an error. A rank that has just died may be the cause.
void MpiRanks::own_failure(const Status& status) {
  for (int tries = 0; tries < 3; ++tries) {
    const Liveness::Loss loss = liveness_.check_host(Clock::now());
    if (loss.rank >= 0) lost(loss);
    std::this_thread::sleep_for(milliseconds(100));
  }
  std::fprintf(stderr, "error: rank %d, step %lld: %s\n", rank_, static_cast<long long>(step_), for_terminal(status.message()).c_str());
  const int code = exit_status(status.code());
  say_ending(code);
  abort_all(code);
}

void MpiRanks::lost(const Liveness::Loss& loss) {
  leaving_ = true;
  guard(kOthersSpeak + kSayEnding + kGrace + kAbort, exit_status(Code::kDevice));
  if (liveness_.speaker(loss) != rank_) {
    // The speaker's "ending" is on its way; MPI may not see the loss at all.
    const Clock::time_point until = Clock::now() + kOthersSpeak;
    while (Clock::now() < until) {
      control_round(Clock::now());
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  const RankIdentity& who = liveness_.identity(loss.rank);
  std::string note;
  {
    std::lock_guard lock(mutex_);
    note = note_.empty() ? "" : "; " + note_;
  }
  if (signal_ && loss.on_host && Clock::now() - signal_time_ > launcher_patience() / 2)
    note += cat("; a stop signal had come before: mpirun kills what still runs ", launcher_patience().count(), " s after it (OMPI_MCA_odls_base_sigkill_timeout)");
  const Status status = device_error("rank ", loss.rank, " (host ", who.host, ", pid ", who.pid, ") ", loss.what, ", during step ", step_, note);
  std::fprintf(stderr, "error: %s\n", for_terminal(status.message()).c_str());
  const int code = exit_status(status.code());
  say_ending(code);
  std::unique_lock lock(mutex_);
  broken_ = status;
  progress_.notify_all();
  work_.wait_for(lock, kGrace, [this] { return phase_ == Phase::kFailing; });
  lock.unlock();
  abort_all(code);
}

// Another rank has told the user why the run ends, and ends it. Here: pass it on to the callers, and go when told, or anyway after a while.
void MpiRanks::other_ends(const ControlMessage& m) {
  if (speaking_) return;
  leaving_ = true;
  std::unique_lock lock(mutex_);
  if (broken_.ok())
    broken_ = Status(code_of(m.code), cat("rank ", m.from, " (host ", host_of(static_cast<int>(m.from)), ") has ended the run, during step ", m.step, "; its message says why"));
  progress_.notify_all();
  lock.unlock();
  const Clock::time_point until = Clock::now() + kOthersSpeak;
  while (Clock::now() < until && !interrupt_signal()) std::this_thread::sleep_for(milliseconds(10));
  _exit(m.code);
}

void MpiRanks::say_ending(int code) {
  speaking_ = leaving_ = true;
  guard(kSayEnding + kGrace + kAbort, code);
  tell_all(ControlKind::kEnding, code);
  const Clock::time_point until = Clock::now() + kSayEnding;
  std::vector<ControlMessage> ignored;
  while (Clock::now() < until && !control_.all_sent()) {
    if (!control_.poll(&ignored).ok()) break;
    std::this_thread::sleep_for(kShortRest);
  }
}

void MpiRanks::abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace eng
