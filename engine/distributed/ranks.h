// The ranks of a run: one process each, on one or several machines, started by mpirun or srun. This is all that the engine sees of MPI.
// A run that nobody launched as ranks is a single rank and never touches MPI.
//
//   ENG_ASSIGN(std::shared_ptr<Ranks> ranks, Ranks::start());
//   int64_t t = ranks->post_receive(1, tag, data, bytes);   // returns at once
//   ...                                                     // compute meanwhile
//   ENG_TRY(ranks->wait(t));
//
// Under MPI a communication thread owns every MPI call (mpi_ranks.h). It also watches the other ranks: when one is lost, it says so once for the
// whole run, makes every call here return that as an error, and ends the process with status 4 a moment later, whatever the other threads do.
// docs/running_on_several_machines.md tells users the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "graph/base/status.h"

namespace eng {

struct RankOptions {
  std::chrono::milliseconds heartbeat{1000};  // each rank tells the others this often that it lives
  std::chrono::milliseconds silence{8000};    // a rank unheard for this long is lost; ENGINE_RANKS_SILENCE (seconds) overrides it
  std::chrono::milliseconds stopped{5000};    // a rank of this host stopped (SIGSTOP) for this long is lost
  std::chrono::milliseconds start{120000};    // all ranks must have started after this long; ENGINE_RANKS_START (seconds) overrides it
  uint64_t piece_bytes = 4u << 20;            // longer messages are cut into pieces of this size, each a sign of life; at most 1 GiB, the same on all ranks
};

// Threads: every function may be called from any thread. Matching: messages between the same two ranks with the same tag arrive in the order in
// which they were posted; other order does not matter. All ranks call gather_all, broadcast and barrier in the same order.
class Ranks {
 public:
  static constexpr int kMaxTag = (1 << 23) - 1;

  // Joins the run. Whether there is one is read from the environment (launch.h). Blocks until all ranks have started. At most one at a time.
  static Result<std::shared_ptr<Ranks>> start(const RankOptions& options = {});
  // A single rank, whatever launched the process.
  static std::shared_ptr<Ranks> alone();
  // The normal end: waits until every rank has come here too, then leaves MPI. A rank that ends on an error calls fail() instead.
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the ranks of this host
  virtual int local_size() const = 0;
  virtual const std::string& host() const = 0;
  virtual const std::string& host_of(int rank) const = 0;

  // Starts a transfer and returns its ticket at once. `data` stays valid and, for a receive, untouched until the ticket is done; both ends give
  // the same byte count (anything else fails the run) and 0 <= tag <= kMaxTag; the other rank is not this one. No memory is taken after warm-up.
  // After an error nothing is read or written any more, so buffers may go; a caller that has an error of its own calls fail() while they still exist.
  virtual int64_t post_send(int to, int tag, const void* data, uint64_t bytes) = 0;
  virtual int64_t post_receive(int from, int tag, void* data, uint64_t bytes) = 0;
  // Never blocks. A ticket needs no release; one that is done stays done. A send is done when its buffer may be reused.
  virtual bool done(int64_t ticket) = 0;
  // Blocks until the ticket is done, or returns why the run is over (kDevice: a rank was lost; else another rank's failure).
  virtual Status wait(int64_t ticket) = 0;
  // Blocks until one of the tickets is done and returns its index, or -1 after `timeout`. With no tickets: -1 after the timeout.
  virtual Result<int64_t> wait_any(std::span<const int64_t> tickets, std::chrono::microseconds timeout) = 0;
  // Why the run is over, or fine. Cheap: for loops that wait on something else, such as a device.
  virtual Status health() = 0;

  // Every rank's record of `bytes` bytes, in the order of ranks, into `all` (size() * bytes) on every rank. For small records: at most 1 MiB each.
  virtual Status gather_all(const void* mine, uint64_t bytes, void* all) = 0;
  // root's bytes to all.
  virtual Status broadcast(void* data, uint64_t bytes, int root) = 0;
  virtual Status barrier() = 0;

  // The step that is being worked on, and a sentence such as "the last checkpoint is PATH (step 120)": both go into the message about a lost rank.
  virtual void set_step(int64_t step) = 0;
  virtual void set_note(const std::string& note) = 0;

  // This rank cannot go on: prints "error: rank N, step S: ..." once, ends all ranks, and this one with the status' exit status. A status that
  // came from here (another rank was lost or has failed) is not printed again. Never returns.
  [[noreturn]] virtual void fail(const Status& status) = 0;
};

}  // namespace eng
