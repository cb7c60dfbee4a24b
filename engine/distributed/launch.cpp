// See launch.h. A launcher that is not listed: one row.
#include "engine/distributed/launch.h"

#include <cstdlib>
#include <cstring>

namespace eng {
namespace {

struct Launcher {
  const char* rank;   // this variable means: started by that launcher
  const char* count;  // and this one how many ranks it started
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},  // Open MPI's mpirun
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},          // srun; a batch script itself has no SLURM_STEP_NUM_TASKS
    {"PMI_RANK", "PMI_SIZE"},                          // launchers of the MPICH family
    {"PMIX_RANK", nullptr},                            // anything that speaks PMIx
};

int64_t number(const char* text) {
  if (!text || !*text) return 0;
  char* end = nullptr;
  const long long value = std::strtoll(text, &end, 10);
  return *end || value < 0 ? 0 : value;
}

}  // namespace

Result<Launch> read_launch() {
  Launch launch;
  for (const Launcher& l : kLaunchers) {
    if (!std::getenv(l.rank)) continue;
    const int64_t count = l.count ? number(std::getenv(l.count)) : 0;
    if (l.count && count < 1) continue;
    launch = {count != 1, count, l.count ? l.count : l.rank};
    break;
  }
  if (const char* asked = std::getenv("ENGINE_RANKS")) {
    if (!std::strcmp(asked, "none")) return Launch{false, 0, "ENGINE_RANKS"};
    if (std::strcmp(asked, "mpi")) return usage_error("ENGINE_RANKS is '", asked, "'; wanted: mpi (start MPI) or none (a single process)");
    launch.mpi = true;
  }
  return launch;
}

static Result<std::chrono::milliseconds> read_seconds(const char* variable, const char* what, std::chrono::milliseconds otherwise) {
  const char* text = std::getenv(variable);
  if (!text) return otherwise;
  const int64_t seconds = number(text);
  if (seconds < 2 || seconds > 86400) return usage_error(variable, " is '", text, "'; wanted: whole seconds from 2 to 86400 ", what);
  return std::chrono::milliseconds(seconds * 1000);
}

Result<std::chrono::milliseconds> read_silence(std::chrono::milliseconds otherwise) {
  return read_seconds("ENGINE_RANKS_SILENCE", "after which a silent rank is given up", otherwise);
}

Result<std::chrono::milliseconds> read_start(std::chrono::milliseconds otherwise) {
  return read_seconds("ENGINE_RANKS_START", "within which all ranks must have started", otherwise);
}

std::chrono::seconds launcher_patience() {
  const char* text = std::getenv("OMPI_MCA_odls_base_sigkill_timeout");
  return std::chrono::seconds(text ? number(text) : 1);
}

}  // namespace eng
