// See mpi_ranks.h. Here: what other threads call. The communication thread is in mpi_ranks_thread.cpp.
#include "engine/distributed/mpi_ranks.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "engine/train/interrupt.h"
#include "engine/io/file.h"

namespace eng {
namespace {

constexpr uint64_t kMaxRecord = 1 << 20;
constexpr std::chrono::seconds kGuard{5};             // a rank that fails ends within it
constexpr std::chrono::seconds kFinalize{10};         // MPI_Finalize may take this long
constexpr std::chrono::seconds kFinalizeStopping{1};  // ... after a stop signal

std::atomic<bool> started_once{false};

}  // namespace

Result<std::shared_ptr<Ranks>> MpiRanks::start(const RankOptions& options, int64_t expected, const char* launcher) {
  if (started_once.exchange(true)) return internal_error("ranks can be started only once in a process");
  catch_interrupts();
  std::shared_ptr<MpiRanks> ranks(new MpiRanks(options));
  MpiRanks* r = ranks.get();
  r->thread_ = std::thread([r, expected, launcher] { r->run(expected, launcher); });
  Status status;
  {
    std::unique_lock lock(r->mutex_);
    // A rank that was stopped or has gone before the handshake is seen by nobody: MPI waits for it for ever.
    if (!r->progress_.wait_for(lock, options.start, [r] { return r->phase_ != Phase::kStarting; })) {
      std::fprintf(stderr, "error: not all ranks have started within %lld seconds: one of them was stopped, has ended, or its host cannot be reached (ENGINE_RANKS_START sets how long to wait)\n",
                   static_cast<long long>(options.start.count() / 1000));
      _exit(exit_status(Code::kDevice));
    }
    status = r->start_status_;
  }
  if (!status.ok()) return status;
  r->watch_ = std::thread([r] { r->watch(); });
  return std::shared_ptr<Ranks>(ranks);
}

MpiRanks::~MpiRanks() {
  {
    std::unique_lock lock(mutex_);
    if (phase_ == Phase::kRunning) phase_ = Phase::kClosing;
    work_.notify_all();
    progress_.wait(lock, [this] { return phase_ == Phase::kEnded; });
  }
  if (watch_.joinable()) watch_.join();
  bool finalized = !start_status_.ok();
  const Clock::time_point since = Clock::now();
  while (!finalized && Clock::now() - since < (interrupt_signal() ? kFinalizeStopping : kFinalize)) {
    std::unique_lock lock(finalized_->mutex);
    finalized = finalized_->changed.wait_for(lock, std::chrono::milliseconds(100), [this] { return finalized_->yes; });
  }
  if (finalized) {
    thread_.join();
  } else if (interrupt_signal()) {
    thread_.detach();  // a launcher that is ending the run may not answer MPI any more, and all ranks have what they need
  } else {
    std::fprintf(stderr, "error: rank %d: all ranks had finished, but MPI_Finalize did not return within %d seconds: another rank has died in it\n", rank_,
                 static_cast<int>(kFinalize.count()));
    _exit(exit_status(Code::kDevice));
  }
}

// Seconds are counted by looking, so that a process that was itself stopped for a while is not blamed.
void MpiRanks::watch() {
  const auto patience = std::chrono::duration_cast<std::chrono::seconds>(options_.silence).count() + 2;
  uint64_t seen = 0;
  int64_t seconds = 0;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return phase_ == Phase::kEnded; })) {
    seconds = rounds_ == seen && !leaving_ ? seconds + 1 : 0;
    seen = rounds_;
    if (seconds < patience) continue;
    std::fprintf(stderr, "error: rank %d, step %lld: MPI has not returned from a call for %lld seconds\n", rank_, static_cast<long long>(step_), static_cast<long long>(seconds));
    _exit(exit_status(Code::kDevice));
  }
}

Status MpiRanks::check_peer(int other, int tag) const {
  if (other < 0 || other >= size_ || other == rank_) return internal_error("a transfer between rank ", rank_, " and rank ", other, " of ", size_);
  if (tag < 0 || tag > kMaxTag) return internal_error("a transfer with tag ", tag, "; wanted: 0 to ", kMaxTag);
  return {};
}

int64_t MpiRanks::post(const Transfer& transfer) {
  std::lock_guard lock(mutex_);
  int32_t index = 0;
  if (free_.empty()) {
    index = static_cast<int32_t>(slots_.size());
    slots_.emplace_back();
    // So that giving back never takes memory.
    free_.reserve(slots_.size());
    posted_.reserve(slots_.size());
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.transfer = transfer;
  slot.busy = true;
  slot.posted = Clock::now();
  posted_.push_back(index);
  work_.notify_one();
  return static_cast<int64_t>(slot.uses) << 32 | index;
}

int64_t MpiRanks::post_send(int to, int tag, const void* data, uint64_t bytes) {
  const Status status = check_peer(to, tag);
  if (!status.ok()) fail(status);
  return post({.kind = TransferKind::kSend, .peer = to, .tag = tag, .mine = data, .bytes = bytes});
}

int64_t MpiRanks::post_receive(int from, int tag, void* data, uint64_t bytes) {
  const Status status = check_peer(from, tag);
  if (!status.ok()) fail(status);
  return post({.kind = TransferKind::kReceive, .peer = from, .tag = tag, .data = data, .bytes = bytes});
}

bool MpiRanks::done_locked(int64_t ticket) const {
  const Slot& slot = slots_[static_cast<size_t>(ticket & 0xffffffff)];
  return slot.uses != static_cast<int32_t>(ticket >> 32);
}

bool MpiRanks::done(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return done_locked(ticket);
}

Status MpiRanks::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  ++waiters_;
  progress_.wait(lock, [&] { return done_locked(ticket) || !broken_.ok(); });
  --waiters_;
  return done_locked(ticket) ? Status() : broken_;
}

Result<int64_t> MpiRanks::wait_any(std::span<const int64_t> tickets, std::chrono::microseconds timeout) {
  int64_t found = -1;
  std::unique_lock lock(mutex_);
  ++waiters_;
  progress_.wait_for(lock, timeout, [&] {
    for (size_t i = 0; i < tickets.size() && found < 0; ++i)
      if (done_locked(tickets[i])) found = static_cast<int64_t>(i);
    return found >= 0 || !broken_.ok();
  });
  --waiters_;
  if (found < 0 && !broken_.ok()) return broken_;
  return found;
}

Status MpiRanks::health() {
  std::lock_guard lock(mutex_);
  return broken_;
}

Status MpiRanks::gather_all(const void* mine, uint64_t bytes, void* all) {
  if (bytes > kMaxRecord) return internal_error("gather_all of ", bytes, " bytes a rank; at most ", kMaxRecord);
  return wait(post({.kind = TransferKind::kGather, .mine = mine, .data = all, .bytes = bytes}));
}

Status MpiRanks::broadcast(void* data, uint64_t bytes, int root) {
  if (root < 0 || root >= size_) return internal_error("broadcast from rank ", root, " of ", size_);
  return wait(post({.kind = TransferKind::kBroadcast, .peer = root, .data = data, .bytes = bytes}));
}

Status MpiRanks::barrier() { return wait(post({.kind = TransferKind::kBarrier})); }

void MpiRanks::set_step(int64_t step) { step_ = step; }

void MpiRanks::set_note(const std::string& note) {
  std::lock_guard lock(mutex_);
  note_ = note;
}

void MpiRanks::fail(const Status& status) {
  const int code = exit_status(status.code());
  bool known = false;
  {
    std::lock_guard lock(mutex_);
    known = !broken_.ok();
    if (!known) {
      broken_ = status;
      fail_code_ = code;
    }
    phase_ = Phase::kFailing;
    std::fflush(stdout);
    if (!known)
      std::fprintf(stderr, "%s: rank %d, step %lld: %s\n", status.code() == Code::kStopped ? "stopped" : "error", rank_, static_cast<long long>(step_),
                   for_terminal(status.message()).c_str());
  }
  work_.notify_all();
  progress_.notify_all();
  std::this_thread::sleep_for(kGuard);  // the communication thread ends the process
  _exit(code);
}

}  // namespace eng
