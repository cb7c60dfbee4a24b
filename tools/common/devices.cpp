// See devices.h.
#include "tools/common/devices.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/io/file.h"
#include "engine/plugin/device.h"
#include "graph/ops/op.h"
#include "graph/partition/groups.h"
#include "graph/partition/make_plan.h"
#include "graph/partition/placement.h"
#include "graph/partition/strategy.h"
#include "tools/common/plan_costs.h"

namespace eng::tools {
namespace {

constexpr int64_t kLargestPlacement = 16 << 20;

// Places by the name of a node's first output: backward, update and evaluation steps have the forward nodes' names too.
ModelSteps::Placer placer_of(std::map<std::string, int> device_of_output) {
  return [devices = std::move(device_of_output)](Graph& g) -> Status {
    for (NodeId n : g.live_nodes()) {
      Node& node = g.node(n);
      for (ValueId v : node.outputs) {
        if (v == kNoValue) continue;
        if (const auto it = devices.find(g.value(v).name); it != devices.end()) node.place = it->second;
        break;
      }
    }
    return {};
  };
}

std::map<std::string, int> devices_by_output(const Plan& plan) {
  std::map<std::string, int> out;
  for (const PlanNode& n : plan.nodes) out[n.output] = n.device;
  return out;
}

std::string names_of(const Plan& plan, const std::vector<int>& devices) {
  std::string out;
  for (int d : devices) out += (out.empty() ? "" : ",") + plan.machine.devices[static_cast<size_t>(d)].name;
  return out;
}

// What was decided, for the log.
void report(const Plan& plan, const Console& console) {
  const std::string how = plan.device_count() > 1 ? cat(plan.replicas, plan.replicas == 1 ? " group" : " groups", " of ", plan.device_count(), " devices that share the branches, ", plan.crossings(), " transfers a shard")
                          : plan.replicas > 1     ? cat(plan.replicas, " devices, each with shards of the batch")
                                                  : "one device, " + names_of(plan, plan.replica_devices.empty() ? std::vector<int>{0} : plan.replica_devices[0]);
  std::string line = cat("plan: ", how, "; predicted ", plan.seconds * 1e3, " ms a step");
  for (const PlanCandidate& c : plan.candidates)
    if (!c.chosen) line += c.fits ? cat("; ", c.name, " ", c.seconds * 1e3, " ms") : cat("; ", c.name, " not possible: ", c.note);
  console.note(line);
}

Result<Plan> make_the_plan(const TrainOptions& o, const std::vector<std::string>& names, int replicas, const std::string& placement, const StepMaker& step_of, const Console& console) {
  ENG_ASSIGN(const PlanCosts costs, plan_costs(names, static_cast<int>(o.threads), o.costs, step_of, console));
  Machine machine = costs.machine;
  if (!o.memory.empty()) {
    ENG_ASSIGN(const uint64_t limit, parse_bytes(o.memory, "--memory"));
    for (DeviceSpec& d : machine.devices) d.memory_limit = limit;
  }
  StrategyOptions s;
  s.batch = o.batch;
  s.shards = static_cast<int>(o.shards);
  s.replicas = replicas;
  const auto source = [&](int64_t rows, const std::vector<int>& devices) -> Result<Problem> {
    ENG_ASSIGN(const Step step, step_of(std::max<int64_t>(rows, 1)));
    Machine part;
    for (int d : devices) part.devices.push_back(machine.devices[static_cast<size_t>(d)]);
    part.connect_all({});
    for (size_t i = 0; i < devices.size(); ++i)
      for (size_t j = 0; j < devices.size(); ++j) part.link(static_cast<int>(i), static_cast<int>(j)) = machine.link(devices[i], devices[j]);
    NodePlaces places;
    if (!placement.empty()) {
      std::vector<std::string> part_names;
      for (const DeviceSpec& d : part.devices) part_names.push_back(d.name);
      ENG_ASSIGN(places, read_placement(placement, o.placement, step.graph, part_names));
    }
    const NodeCosts node_costs = [&costs, devices](const Graph& g, NodeId n, int d) { return costs.nodes(g, n, devices[static_cast<size_t>(d)]); };
    return make_problem(step.graph, part, node_costs, places);
  };
  ENG_ASSIGN(const Strategy strategy, choose_strategy(machine, s, source));
  ENG_ASSIGN(const Step step, step_of(std::max<int64_t>(strategy.shard_batch, 1)));
  return make_plan(step.graph, machine, s, strategy);
}

std::vector<std::vector<std::string>> replicas_of(const Plan& plan) {
  std::vector<std::vector<std::string>> out;
  for (const std::vector<int>& group : plan.replica_devices) {
    out.emplace_back();
    for (int d : group) out.back().push_back(plan.machine.devices[static_cast<size_t>(d)].name);
  }
  if (out.empty()) {
    out.emplace_back();
    for (const DeviceSpec& d : plan.machine.devices) out.back().push_back(d.name);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> device_names(const std::string& list) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    if (name.empty()) return usage_error("--devices '", list, "': names with commas between them are wanted, such as cpu:0,cpu:1");
    if (name.find(':') == std::string::npos) name += ":0";
    if (!seen.insert(name).second) return usage_error("--devices ", list, ": ", name, " is named twice");
    out.push_back(name);
    begin = end + 1;
  }
  return out;
}

Result<uint64_t> parse_bytes(const std::string& text, const std::string& option) {
  std::string number = text;
  double factor = 1;
  if (!number.empty() && (number.back() == 'B' || number.back() == 'b')) number.pop_back();
  if (!number.empty() && number.back() == 'i') number.pop_back();
  if (const size_t unit = number.empty() ? std::string::npos : std::string("KMGT").find(static_cast<char>(std::toupper(number.back()))); unit != std::string::npos) {
    factor = static_cast<double>(uint64_t{1} << (10 * (unit + 1)));
    number.pop_back();
  }
  const auto n = parse_number(number);
  if (!n.ok() || !(*n > 0) || *n * factor > 1e18) return usage_error(option, " '", text, "': bytes are wanted, such as 8G, 512M or 1000000");
  return static_cast<uint64_t>(*n * factor);
}

int64_t default_timeout_ms(const Graph& step, int64_t shards_in_a_row) {
  constexpr double kSlowest = 5e9;  // FLOP/s; what a device that is slower than any should still do
  double flops = 0;
  for (NodeId n : step.live_nodes()) flops += cost_of(step, step.node(n)).flops;
  return static_cast<int64_t>((60 + flops * static_cast<double>(shards_in_a_row) / kSlowest) * 1000);
}

Result<DeviceChoice> choose_devices(const TrainOptions& o, std::shared_ptr<Ranks> ranks, const StepMaker& step_of, const Console& console) {
  ENG_ASSIGN(const std::vector<std::string> names, device_names(o.devices));
  const bool several = names.size() > 1;
  DeviceChoice choice;
  FleetOptions fleet;
  fleet.shards = o.shards;
  fleet.threads = static_cast<int>(o.threads);
  fleet.deterministic = o.deterministic;
  std::string mode = o.parallel;
  if (mode == "auto" && (!several || ranks->size() > 1)) mode = "data";
  if (mode == "auto" && !o.placement.empty()) mode = "branch";
  if (mode == "none" && several) return usage_error("--parallel none computes on one device, --devices names ", names.size());
  if (mode != "branch" && !o.placement.empty()) return usage_error("--placement belongs to --parallel branch, not ", o.parallel);
  if (!o.plan.empty()) {
    ENG_ASSIGN(const Step step, step_of(o.batch));
    ENG_ASSIGN(choice.plan, given_plan(o.plan, names, step.graph));
  } else if (mode == "branch" || mode == "auto") {
    std::string placement;
    if (!o.placement.empty()) {
      ENG_ASSIGN(placement, read_text_file(o.placement, kLargestPlacement));
    }
    ENG_ASSIGN(choice.plan, make_the_plan(o, names, mode == "branch" ? 1 : 0, placement, step_of, console));
  }
  if (choice.plan) {
    report(*choice.plan, console);
    fleet.replicas = replicas_of(*choice.plan);
    if (choice.plan->device_count() > 1) choice.placer = placer_of(devices_by_output(*choice.plan));
  } else {
    for (const std::string& name : names) fleet.replicas.push_back({name});
  }
  ENG_ASSIGN(choice.fleet, Fleet::open(fleet, std::move(ranks)));
  if (choice.fleet->shards > 1 || several) console.note("devices: " + choice.fleet->describe());
  ENG_ASSIGN(const Step shard, step_of(std::max<int64_t>(1, (o.batch + choice.fleet->shards - 1) / choice.fleet->shards)));
  const int64_t in_a_row = (choice.fleet->shards + choice.fleet->replica_count() - 1) / choice.fleet->replica_count();
  choice.fleet->set_timeout(o.device_timeout > 0 ? static_cast<int64_t>(o.device_timeout * 1000) : default_timeout_ms(shard.graph, in_a_row));
  return choice;
}

}  // namespace eng::tools
