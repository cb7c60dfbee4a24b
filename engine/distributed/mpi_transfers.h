// The transfers and collectives that are under way, as MPI requests. Used by the communication thread alone.
// A transfer is one request for each piece of at most piece_bytes (an MPI count is an int); all requests lie side by side for MPI_Testsome.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/distributed/mpi_calls.h"

namespace eng {

enum class TransferKind : int32_t { kSend, kReceive, kGather, kBroadcast, kBarrier };

struct Transfer {
  TransferKind kind = TransferKind::kBarrier;
  int32_t peer = 0;  // the other rank; broadcast: the root
  int32_t tag = 0;
  const void* mine = nullptr;  // what is sent (send, gather)
  void* data = nullptr;        // where it goes (receive, gather: size * bytes, broadcast)
  uint64_t bytes = 0;
};

class MpiTransfers {
 public:
  // Collective. `piece_bytes` < 2^31.
  Status open(uint64_t piece_bytes);
  // Collective too.
  void close();
  // Starts one; `id` comes back from test().
  Status begin(int32_t id, const Transfer& transfer);
  // Lets MPI work and appends the ids of those that are finished. `moved` is set when as much as a piece is.
  Status test(std::vector<int32_t>* finished, bool* moved);
  bool idle() const { return requests_.empty(); }

 private:
  struct Piece {
    int32_t id;
    int32_t bytes;  // what a receive must bring; -1: not checked
  };
  void add(int32_t id, int32_t bytes, MPI_Request request);

  uint64_t piece_bytes_ = 0;
  MPI_Comm pairs_ = MPI_COMM_NULL, collectives_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;    // of requests_[i]
  std::vector<int32_t> left_;    // by id: its requests that are not finished
  std::vector<int> indices_;     // scratch of MPI_Testsome
  std::vector<MPI_Status> statuses_;
};

}  // namespace eng
