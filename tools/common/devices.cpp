// See devices.h.
#include "tools/common/devices.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "engine/distributed/text_of_rank.h"
#include "engine/exec/costs.h"
#include "engine/report/plan_json.h"
#include "graph/ops/op.h"
#include "tools/common/host_fallback.h"
#include "tools/common/plan_command.h"

namespace eng::tools {
namespace {

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
void report(const Plan& plan, const std::string& how_known, const Console& console) {
  const std::string how = plan.device_count() > 1 ? cat(plan.replicas, plan.replicas == 1 ? " group" : " groups", " of ", plan.device_count(), " devices that share the branches, ", plan.crossings(), plan.crossings() == 1 ? " transfer a shard" : " transfers a shard")
                          : plan.replicas > 1     ? cat(plan.replicas, " devices, each with shards of the batch")
                                                  : "one device, " + names_of(plan, plan.replica_devices.empty() ? std::vector<int>{0} : plan.replica_devices[0]);
  std::string line = cat("plan: ", how, "; predicted ", plan.seconds * 1e3, " ms a step", how_known);
  for (const PlanCandidate& c : plan.candidates)
    if (!c.chosen) line += c.fits ? cat("; ", c.name, " ", c.seconds * 1e3, " ms", c.note.empty() ? "" : " (" + c.note + ")") : cat("; ", c.name, " not possible: ", c.note);
    else if (!c.note.empty()) line += cat("; chosen ", c.note);
  console.note(line);
}

int processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

PlanRequest request_of(const TrainOptions& o, const std::string& devices, const std::string& parallel, int64_t threads) {
  PlanRequest r;
  r.devices = devices;
  r.devices_given = true;
  r.parallel = o.plan.empty() ? parallel : "auto";
  r.placement = o.placement;
  r.plan = o.plan;
  r.memory = o.memory;
  r.costs = parallel == "data" ? "estimated" : o.costs;  // nothing is chosen by them
  r.batch = o.batch;
  r.shards = o.plan.empty() ? o.shards : 0;
  r.threads = threads;
  return r;
}

// Seconds that a step on these devices takes beside its nodes. A replicated step starts its devices three times: shards, sums, updates.
Result<double> overhead_of(const std::vector<std::string>& names, int64_t threads, bool replicated) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : names) {
    ENG_ASSIGN(std::shared_ptr<Device> device, Device::open(name, {.threads = static_cast<int>(threads)}));
    devices.push_back(std::move(device));
  }
  ENG_ASSIGN(const double seconds, measured_overhead(devices));
  return replicated ? 3 * seconds : seconds;
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

// With --parallel auto the first device alone is a candidate as it would run alone: with all processors where --threads leaves them open, and
// without the starting and waiting that several devices cost in each step. A gain of less than 2 % is not worth the devices.
Result<Plan> make_the_plan(const TrainOptions& o, const std::vector<std::string>& names, const std::string& mode, const Graph& model, const StepMaker& step_of, const Console& console) {
  const auto count = static_cast<int64_t>(names.size());
  const int64_t each = o.threads > 0 ? o.threads : std::max<int64_t>(1, processors() / count);
  ENG_ASSIGN(MadePlan made, make_plan_for(request_of(o, o.devices, mode, each), model, step_of, console));
  const bool several = made.plan.replicas > 1 || made.plan.device_count() > 1;
  if (mode != "auto" || !o.plan.empty() || o.costs != "measured" || (!several && each == processors())) return std::move(made.plan);
  const int64_t all = o.threads > 0 ? o.threads : processors();
  auto alone = make_plan_for(request_of(o, names[0], "none", all), model, step_of, console);
  if (!alone.ok()) return std::move(made.plan);  // it lacks the memory, or cannot run a node
  double shared = made.plan.seconds, single = alone->plan.seconds;
  if (several) {
    ENG_ASSIGN(const double with, overhead_of(names, each, made.plan.replicas > 1));
    ENG_ASSIGN(const double without, overhead_of({names[0]}, all, o.shards > 1));
    shared += with;
    single += without;
  }
  PlanCandidate candidate;
  candidate.name = cat(names[0], " alone with ", all, all == 1 ? " thread" : " threads");
  candidate.seconds = alone->plan.seconds;
  candidate.note = several ? cat("with what starting and waiting costs: ", single * 1e3, " ms against ", shared * 1e3, " ms") : std::string();
  const bool elsewhere = !several && replicas_of(made.plan)[0][0] != names[0];
  if ((several || elsewhere) && shared <= single * 0.98) {
    candidate.margin = candidate.seconds / made.plan.seconds - 1;
    made.plan.candidates.push_back(std::move(candidate));
    return std::move(made.plan);
  }
  candidate.chosen = true;
  for (PlanCandidate& c : made.plan.candidates) {
    c.chosen = false;
    c.margin = c.seconds > 0 ? c.seconds / alone->plan.seconds - 1 : 0;
  }
  alone->plan.candidates = std::move(made.plan.candidates);
  alone->plan.candidates.push_back(std::move(candidate));
  return std::move(alone->plan);
}

// The plan that this run needs, if it needs one: a given one, one of branches, or the record of replication.
Result<std::optional<Plan>> plan_of(const TrainOptions& o, const std::vector<std::string>& names, const std::string& mode, bool several_ranks, const Graph& model, const StepMaker& step_of,
                                    const Console& console) {
  const bool on_cpu = std::any_of(names.begin(), names.end(), [](const std::string& n) { return n.rfind("cpu", 0) == 0; });
  bool needs_host = false;  // nodes that the named devices cannot run: a plan places them
  if (!on_cpu) {
    ENG_ASSIGN(const Step step, step_of(std::max<int64_t>(1, o.batch / static_cast<int64_t>(names.size()))));
    needs_host = !nodes_for_host(names, step.graph).empty();
  }
  if (o.plan.empty() && (names.size() == 1 || several_ranks) && mode != "branch" && !needs_host) return std::optional<Plan>();
  auto made = make_the_plan(o, names, mode, model, step_of, console);
  if (made.ok()) return std::optional<Plan>(std::move(*made));
  if (!o.plan.empty() && made.status().message().find("another graph") != std::string::npos)
    return Status(made.status().code(), made.status().message() + "\nA plan belongs to a recipe: optimiser, momentum, clipping, loss, head and frozen weights must be those that it was made with. engine-graph plan takes the same options; OUT/plan.json of such a run fits");
  if (mode == "auto" && !o.memory.empty() && made.status().code() == Code::kDevice && !needs_host) {
    console.note("plan: nothing fits into --memory with all activations kept; the batch is divided among the devices, and what does not fit is made again");
    return std::optional<Plan>();
  }
  if (mode != "data" || !o.plan.empty() || needs_host) return made.status();
  return std::optional<Plan>();  // of replication it is only the record
}

// Rank 0 plans for all: costs measured on two ranks differ, and parts of different places would be added up.
Result<std::optional<Plan>> shared_plan(Ranks& ranks, const std::function<Result<std::optional<Plan>>()>& make) {
  struct {
    int32_t code = 0, has_plan = 0;
  } head;
  std::string text;
  if (ranks.rank() == 0) {
    auto made = make();
    if (ranks.size() == 1) return made;
    head.code = static_cast<int32_t>(made.status().code());
    head.has_plan = made.ok() && *made;
    text = !made.ok() ? made.status().message() : *made ? to_json(**made) : std::string();
  }
  ENG_TRY(ranks.broadcast(&head, sizeof head, 0));
  ENG_ASSIGN(text, text_of_rank(ranks, 0, std::move(text)));
  if (static_cast<Code>(head.code) != Code::kOk) return Status(static_cast<Code>(head.code), text);
  if (!head.has_plan) return std::optional<Plan>();
  ENG_ASSIGN(Plan plan, parse_plan(text, "the plan of rank 0"));
  return std::optional<Plan>(std::move(plan));
}

}  // namespace

Result<std::vector<std::string>> device_names(const std::string& list, int local_rank) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    if (name.empty()) return usage_error("--devices '", list, "': names with commas between them are wanted, such as cpu:0,cpu:1");
    if (name.find(':') == std::string::npos) name += ":0";
    if (const size_t colon = name.find(':'); name.substr(colon) == ":rank") name = name.substr(0, colon + 1) + std::to_string(local_rank);
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

Result<DeviceChoice> choose_devices(const TrainOptions& o, std::shared_ptr<Ranks> ranks, const Graph& model, const StepMaker& step_of, const Console& console) {
  ENG_ASSIGN(const std::vector<std::string> names, device_names(o.devices));  // as rank 0, which plans, has them
  ENG_ASSIGN(const std::vector<std::string> own, device_names(o.devices, ranks->local_rank()));
  const bool several = names.size() > 1;
  DeviceChoice choice;
  FleetOptions fleet;
  fleet.shards = o.shards;
  fleet.threads = static_cast<int>(o.threads);
  fleet.deterministic = o.deterministic;
  std::string mode = o.parallel;
  if (mode == "auto" && (!several || ranks->size() > 1)) mode = "data";
  if (mode == "auto" && !o.placement.empty()) mode = "branch";
  if (!o.plan.empty() && (o.parallel == "data" || o.parallel == "none")) return usage_error("--parallel ", o.parallel, " and --plan exclude one another: a plan says what each device does");
  if (o.shards > o.batch) return usage_error("--shards ", o.shards, " of a batch of ", o.batch, ": ", o.shards - o.batch, " of them would always be empty");
  if (mode == "none" && several) return usage_error("--parallel none computes on one device, --devices names ", names.size());
  if (mode != "branch" && !o.placement.empty()) return usage_error("--placement belongs to --parallel branch, not ", o.parallel);
  ENG_ASSIGN(choice.plan, shared_plan(*ranks, [&] { return plan_of(o, names, mode, ranks->size() > 1, model, step_of, console); }));
  if (choice.plan) {
    report(*choice.plan, mode == "data" ? " (estimated)" : "", console);
    fleet.replicas = replicas_of(*choice.plan);
    if (o.shards == 0) fleet.shards = static_cast<int64_t>(choice.plan->replicas) * choice.plan->shards_per_replica * ranks->size();
    if (choice.plan->device_count() > 1) choice.placer = placer_of(devices_by_output(*choice.plan));
  } else {
    for (const std::string& name : names) fleet.replicas.push_back({name});
  }
  for (auto& replica : fleet.replicas)
    for (std::string& name : replica)
      if (const auto at = std::find(names.begin(), names.end(), name); at != names.end()) name = own[static_cast<size_t>(at - names.begin())];
  if (ranks->size() > 1 && o.devices.find(":rank") != std::string::npos) fleet.listed = o.devices;
  if (!o.memory.empty()) fleet.side_by_side = false;
  choice.fleet_options = fleet;
  ENG_ASSIGN(choice.fleet, Fleet::open(fleet, std::move(ranks)));
  ENG_ASSIGN(const Step shard, step_of(std::max<int64_t>(1, (o.batch + choice.fleet->shards - 1) / choice.fleet->shards)));
  const int64_t in_a_row = (choice.fleet->shards + choice.fleet->replica_count() - 1) / choice.fleet->replica_count();
  choice.fleet_options.timeout_ms = o.device_timeout > 0 ? static_cast<int64_t>(o.device_timeout * 1000) : default_timeout_ms(shard.graph, in_a_row);
  choice.fleet->set_timeout(choice.fleet_options.timeout_ms);
  return choice;
}

}  // namespace eng::tools
