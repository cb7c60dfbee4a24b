// See mpi_control.h.
#include "engine/distributed/mpi_control.h"

namespace eng {
namespace {
constexpr int kTag = 0;
constexpr int kBytes = sizeof(ControlMessage);
}  // namespace

Status MpiControl::open() {
  ENG_TRY(mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup"));
  ENG_TRY(mpi_status(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  int size = 0;
  MPI_Comm_size(comm_, &size);
  waiting_.assign(static_cast<size_t>(size), 0);
  return mpi_status(MPI_Irecv(&incoming_, kBytes, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &receive_), "MPI_Irecv");
}

void MpiControl::close() {
  MPI_Cancel(&receive_);
  MPI_Wait(&receive_, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm_);
}

Status MpiControl::send(int to, const ControlMessage& message) {
  Send& s = sends_.emplace_back();
  s.to = to;
  s.message = message;
  ++waiting_[static_cast<size_t>(to)];
  return mpi_status(MPI_Isend(&s.message, kBytes, MPI_BYTE, to, kTag, comm_, &s.request), "MPI_Isend");
}

Status MpiControl::poll(std::vector<ControlMessage>* received) {
  for (;;) {
    int there = 0;
    ENG_TRY(mpi_status(MPI_Test(&receive_, &there, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!there) break;
    received->push_back(incoming_);
    ENG_TRY(mpi_status(MPI_Irecv(&incoming_, kBytes, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &receive_), "MPI_Irecv"));
  }
  for (Send& s : sends_) {
    if (s.request == MPI_REQUEST_NULL) continue;
    int gone = 0;
    ENG_TRY(mpi_status(MPI_Test(&s.request, &gone, MPI_STATUS_IGNORE), "MPI_Test"));
    if (gone) --waiting_[static_cast<size_t>(s.to)];
  }
  while (!sends_.empty() && sends_.front().request == MPI_REQUEST_NULL) sends_.pop_front();
  return {};
}

}  // namespace eng
