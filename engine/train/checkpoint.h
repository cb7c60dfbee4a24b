// A checkpoint: one safetensors file (checksum per tensor, written atomically) that holds what a run needs to continue to the bit.
//   tensors    every parameter and running statistic once, under its initializer name; optimiser slots ("NAME/momentum", ...);
//              "optimizer/step"; "random/state". No replica or device appears in a name, so any number of devices can load it
//   metadata   "engine.checkpoint" = format version, "engine.state" = the TrainingState below as JSON, "engine.options" = the run's
//              config.toml as it was
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/distributed/ranks.h"
#include "engine/train/metrics.h"
#include "engine/train/monitor.h"
#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

// Where a run stands. Everything random that is not here is a function of (seed, pass, sample).
struct TrainingState {
  int64_t epoch = 0;        // complete epochs
  int64_t step = 0;         // updates done
  int64_t pass = 0;         // pass over the data that is under way
  int64_t batch = 0;        // its next batch
  int64_t step_in_epoch = 0;
  MetricSums sums;          // of the epoch under way
  double seconds = 0;       // trained so far
  uint64_t seed = 0;
  MonitorState monitor;
  std::string monitor_metric;
  std::string optimizer, schedule, loss;  // for messages and for the refusal of another optimiser's slots
  int64_t batch_size = 0, samples = 0;    // of the training data: the shuffle depends on them
  bool unfrozen = false;                  // --unfreeze-at has come
};

struct Checkpoint {
  TrainingState state;
  std::map<std::string, Tensor> tensors;
  std::string options;
};

Status save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// Errors: no checkpoint, damaged, or of a later format; all name the file.
Result<Checkpoint> load_checkpoint(const std::string& path);

// Rank 0's checkpoint becomes every rank's. All ranks call it.
Status share_checkpoint(Ranks& ranks, Checkpoint& checkpoint);

// Fine where the checkpoint has exactly the tensors of `wanted` (by name, type and shape); else one message that lists what is missing, left
// over and of another shape (the first few of each): a checkpoint of another model, head or optimiser.
Status check_checkpoint(const Checkpoint& checkpoint, const std::map<std::string, Tensor>& wanted, const std::string& path);

}  // namespace eng
