// Which devices a run uses and how: --devices, --parallel, --shards, --placement, --plan, --threads become a Fleet and, where the graph's branches are
// split, a function that places the nodes of every step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/exec/fleet.h"
#include "engine/train/model_steps.h"
#include "graph/partition/plan.h"
#include "tools/common/console.h"
#include "tools/common/train_options.h"

namespace eng::tools {

struct DeviceChoice {
  std::shared_ptr<Fleet> fleet;
  FleetOptions fleet_options;  // as opened
  ModelSteps::Placer placer;   // empty: one device a replica
  std::optional<Plan> plan;    // where one was made or read
};

// Names of --devices; an error for an empty list, a device that is named twice. "cuda:rank" is the device with this rank's number among those of its host.
Result<std::vector<std::string>> device_names(const std::string& list, int local_rank = 0);
// "8G", "512M", "1000000": bytes.
Result<uint64_t> parse_bytes(const std::string& text, const std::string& option);

// `model`: for the names of its nodes. `step_of(rows)`: its whole training step of so many rows, for planning. Opens the devices; the backends are loaded.
using StepMaker = std::function<Result<Step>(int64_t rows)>;
Result<DeviceChoice> choose_devices(const TrainOptions& options, std::shared_ptr<Ranks> ranks, const Graph& model, const StepMaker& step_of, const Console& console);

// How long a device may take for a shard of this step without being held for lost, where --device-timeout does not say.
int64_t default_timeout_ms(const Graph& step, int64_t shards_in_a_row);

}  // namespace eng::tools
