// Small messages between the communication threads: "I live", "the run ends", "I am done". Used by the communication thread alone.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "engine/distributed/mpi_calls.h"

namespace eng {

enum class ControlKind : int32_t {
  kAlive,    // a heartbeat, or the answer to kAsk
  kAsk,      // answer now
  kEnding,   // this rank has told the user why the run ends; `code` is the exit status
  kClosing,  // this rank needs nothing more from the others
};

struct ControlMessage {
  ControlKind kind = ControlKind::kAlive;
  int32_t code = 0;
  int64_t step = 0;
  int64_t from = 0;
};

class MpiControl {
 public:
  // Collective.
  Status open();
  void close();
  Status send(int to, const ControlMessage& message);
  // Whether every message to `to` has been handed over: a heartbeat for a rank that takes none is not piled up.
  bool sent(int to) const { return waiting_[static_cast<size_t>(to)] == 0; }
  // Lets MPI work; appends what has come.
  Status poll(std::vector<ControlMessage>* received);
  bool all_sent() const { return sends_.empty(); }

 private:
  struct Send {
    MPI_Request request = MPI_REQUEST_NULL;
    int to = 0;
    ControlMessage message;
  };
  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  ControlMessage incoming_;
  std::deque<Send> sends_;
  std::vector<int> waiting_;
};

}  // namespace eng
