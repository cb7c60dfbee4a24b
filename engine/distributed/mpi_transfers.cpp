// See mpi_transfers.h.
#include "engine/distributed/mpi_transfers.h"

#include <algorithm>

namespace eng {

Status MpiTransfers::open(uint64_t piece_bytes) {
  piece_bytes_ = piece_bytes;
  for (MPI_Comm* comm : {&pairs_, &collectives_}) {
    ENG_TRY(mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup"));
    ENG_TRY(mpi_status(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  }
  return {};
}

void MpiTransfers::close() {
  MPI_Comm_free(&pairs_);
  MPI_Comm_free(&collectives_);
}

void MpiTransfers::add(int32_t id, int32_t bytes, MPI_Request request) {
  requests_.push_back(request);
  pieces_.push_back({id, bytes});
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  ++left_[static_cast<size_t>(id)];
}

Status MpiTransfers::begin(int32_t id, const Transfer& t) {
  if (left_.size() <= static_cast<size_t>(id)) left_.resize(static_cast<size_t>(id) + 1);
  MPI_Request request = MPI_REQUEST_NULL;
  if (t.kind == TransferKind::kBarrier) {
    ENG_TRY(mpi_status(MPI_Ibarrier(collectives_, &request), "MPI_Ibarrier"));
    add(id, -1, request);
    return {};
  }
  if (t.kind == TransferKind::kGather) {
    const int count = static_cast<int>(t.bytes);
    ENG_TRY(mpi_status(MPI_Iallgather(t.mine, count, MPI_BYTE, t.data, count, MPI_BYTE, collectives_, &request), "MPI_Iallgather"));
    add(id, -1, request);
    return {};
  }
  uint64_t at = 0;
  do {  // at least one piece: an empty message is a message
    const int count = static_cast<int>(std::min(piece_bytes_, t.bytes - at));
    switch (t.kind) {
      case TransferKind::kSend:
        ENG_TRY(mpi_status(MPI_Isend(static_cast<const char*>(t.mine) + at, count, MPI_BYTE, t.peer, t.tag, pairs_, &request), "MPI_Isend"));
        break;
      case TransferKind::kReceive:
        ENG_TRY(mpi_status(MPI_Irecv(static_cast<char*>(t.data) + at, count, MPI_BYTE, t.peer, t.tag, pairs_, &request), "MPI_Irecv"));
        break;
      default:
        ENG_TRY(mpi_status(MPI_Ibcast(static_cast<char*>(t.data) + at, count, MPI_BYTE, t.peer, collectives_, &request), "MPI_Ibcast"));
    }
    add(id, t.kind == TransferKind::kReceive ? count : -1, request);
    at += static_cast<uint64_t>(count);
  } while (at < t.bytes);
  return {};
}

Status MpiTransfers::test(std::vector<int32_t>* finished, bool* moved) {
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return mpi_status(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return {};
  *moved = true;
  for (int i = 0; i < count; ++i) {
    const MPI_Status& status = statuses_[static_cast<size_t>(i)];
    const Piece piece = pieces_[static_cast<size_t>(indices_[static_cast<size_t>(i)])];
    if (code == MPI_ERR_IN_STATUS) ENG_TRY(mpi_status(status.MPI_ERROR, "MPI_Testsome"));
    int got = -1;
    if (piece.bytes >= 0) MPI_Get_count(&status, MPI_BYTE, &got);
    if (got != (piece.bytes >= 0 ? piece.bytes : -1))
      return internal_error("rank ", status.MPI_SOURCE, " sent ", got, " bytes with tag ", status.MPI_TAG, ", ", piece.bytes, " were to be received");
    if (--left_[static_cast<size_t>(piece.id)] == 0) finished->push_back(piece.id);
  }
  // Close the gaps; requests that are finished are null now.
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    pieces_[kept++] = pieces_[i];
  }
  requests_.resize(kept);
  pieces_.resize(kept);
  return {};
}

}  // namespace eng
