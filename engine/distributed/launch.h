// Whether this process was started as one rank of several, read from what launchers put into the environment; MPI itself is not asked.
#pragma once

#include <chrono>
#include <cstdint>

#include "graph/base/status.h"

namespace eng {

struct Launch {
  bool mpi = false;       // MPI has to be started
  int64_t expected = 0;   // how many ranks the launcher says it started; 0 when it does not say
  const char* from = "";  // the variable that decided
};

// ENGINE_RANKS=mpi|none decides if set (anything else is a usage error). Otherwise MPI is started when one of the launchers' variables is there
// (kLaunchers in launch.cpp); a run of one rank needs none.
Result<Launch> read_launch();

// ENGINE_RANKS_START in seconds, or `otherwise`; wanted: 2 to 86400.
Result<std::chrono::milliseconds> read_start(std::chrono::milliseconds otherwise);
// ENGINE_RANKS_SILENCE in seconds, or `otherwise`; wanted: 2 to 86400.
Result<std::chrono::milliseconds> read_silence(std::chrono::milliseconds otherwise);

// How long Open MPI's mpirun waits between SIGTERM and SIGKILL: OMPI_MCA_odls_base_sigkill_timeout, which it hands to the ranks; 1 second unless set.
std::chrono::seconds launcher_patience();

}  // namespace eng
