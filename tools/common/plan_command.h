// engine-graph plan: a training step, the devices and what they cost become a plan (graph/partition/strategy.h), or a plan that is given is
// predicted anew; --what-if changes the machine and the batch first. And engine-graph diff of two plan files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/partition/plan.h"
#include "graph/surgery/training_step.h"
#include "tools/common/console.h"

namespace eng::tools {

struct PlanRequest {
  std::string devices = "cpu:0", parallel = "auto", placement, plan, memory, link, what_if, costs = "measured";
  bool devices_given = false;  // then they must be those of a given plan
  int64_t batch = 0;  // 0: the given plan's, or 32
  int64_t shards = 0, threads = 0;
};

// --what-if. What is 0 or empty stays as it is; a list has an entry a device, or one for all.
struct WhatIf {
  int64_t devices = 0, batch = 0;
  std::vector<uint64_t> memory;
  std::vector<double> speed;  // times that of the real device
  std::string link;           // "LATENCY_US:GB_PER_S"
};
// "devices=4,memory=8G:4G,batch=64,link=5:12,speed=1:0.5". Errors list the known names.
Result<WhatIf> parse_what_if(const std::string& text);

// The whole training step of so many rows; `model` names the nodes that a placement file may speak of.
using PlanStepMaker = std::function<Result<Step>(int64_t rows)>;

struct MadePlan {
  Plan plan;
  Step step;  // of a shard
};
// The backends are loaded. Devices are opened only to measure; estimated costs need none (one that is there says what it cannot run).
Result<MadePlan> make_plan_for(const PlanRequest& request, const Graph& model, const PlanStepMaker& step_of, const Console& console);

// text, json, dot, svg or html.
Result<std::string> in_form(const MadePlan& made, const std::string& form);

// Whether the file is JSON, as plans are, and not a model.
Result<bool> looks_like_plan(const std::string& path);

}  // namespace eng::tools
