// mpi.h without its C++ classes, and MPI's error codes as Status. Only files of this folder named mpi_* include it.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "graph/base/status.h"

namespace eng {

inline Status mpi_status(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return device_error(call, ": ", text);
}

}  // namespace eng
