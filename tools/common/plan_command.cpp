// See plan_command.h.
#include "tools/common/plan_command.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "engine/exec/costs.h"
#include "engine/io/file.h"
#include "engine/report/plan_dot.h"
#include "engine/report/plan_html.h"
#include "engine/report/plan_json.h"
#include "engine/report/plan_svg.h"
#include "engine/report/plan_text.h"
#include "graph/ops/op.h"
#include "graph/partition/make_plan.h"
#include "graph/partition/placement.h"
#include "graph/partition/strategy.h"
#include "tools/common/devices.h"
#include "tools/common/host_fallback.h"
#include "tools/common/option_table.h"

namespace eng::tools {
namespace {

constexpr int64_t kLargestPlacement = 16 << 20, kMostDevices = 1024;
constexpr LinkSpec kUsualLink{5e-6, 1e10};  // where nothing was measured

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<LinkSpec> parse_link(const std::string& text, char separator, const std::string& option) {
  const auto parts = split(text, separator);
  const auto latency = parse_number(parts[0]), rate = parse_number(parts.back());
  if (parts.size() != 2 || !latency.ok() || !rate.ok() || *latency < 0 || *rate < 0 || *latency > 1e9 || *rate > 1e9)
    return usage_error(option, " '", text, "': a latency in microseconds and gigabytes a second are wanted, such as 5", std::string(1, separator), "12 (0 gigabytes a second: no time by the byte)");
  return LinkSpec{*latency * 1e-6, *rate * 1e9};
}

// Cores and memory of a usual kind, for estimates; only ratios matter much.
Machine usual_machine(const std::vector<std::string>& devices, int threads) {
  Machine m;
  for (const std::string& name : devices) {
    const bool cpu = name.rfind("cpu", 0) == 0;
    m.devices.push_back({.name = name, .flops_per_second = cpu ? 6e10 * threads : 2e13, .bytes_per_second = cpu ? 1e10 : 1e12});
  }
  m.connect_all(kUsualLink);
  return m;
}

Result<int64_t> parse_count(const std::string& text, const std::string& name, int64_t most) {
  const auto n = parse_number(text);
  if (!n.ok() || *n < 1 || *n > static_cast<double>(most) || *n != static_cast<double>(static_cast<int64_t>(*n)))
    return usage_error("--what-if ", name, "=", text, ": a whole number from 1 to ", most, " is wanted");
  return static_cast<int64_t>(*n);
}

// An entry a device, or one for all.
template <class T>
Status check_entries(const std::vector<T>& list, size_t devices, const char* name) {
  if (list.size() <= 1 || list.size() == devices) return {};
  return usage_error("--what-if ", name, " has ", list.size(), " entries, there are ", devices, " devices: one for each, or one for all, is wanted");
}
template <class T>
const T& entry(const std::vector<T>& list, size_t device) { return list.size() == 1 ? list[0] : list[device]; }

// The machine to plan for and what nodes cost on it: real devices, changed by options and what-ifs.
struct Site {
  Machine machine;
  std::vector<int> base;      // per device: the one whose costs it has
  std::vector<double> speed;  // times the base's
  NodeCosts costs;            // by `base`
  std::vector<bool> host;     // per device: a CPU that is there only for what the devices of --devices cannot run (host_fallback.h); may be empty

  bool is_host(int d) const { return !host.empty() && host[static_cast<size_t>(d)]; }
  int named_count() const { return machine.device_count() - static_cast<int>(std::count(host.begin(), host.end(), true)); }
};

class Command {
 public:
  Command(const PlanRequest& request, const Graph& model, const PlanStepMaker& step_of, const Console& console) : r_(request), model_(model), make_step_(step_of), console_(console) {}

  Result<MadePlan> run() {
    if (!r_.what_if.empty()) {
      ENG_ASSIGN(if_, parse_what_if(r_.what_if));
    }
    ENG_TRY(check());
    if (!r_.plan.empty()) {
      ENG_ASSIGN(given_, read_plan(r_.plan, &given_lines_));
      ENG_TRY(check_given());
    }
    batch_ = if_.batch > 0 ? if_.batch : r_.batch > 0 ? r_.batch : given_ && given_->batch > 0 ? given_->batch : 32;
    if (r_.shards > batch_) return usage_error("--shards ", r_.shards, " of a batch of ", batch_, ": ", r_.shards - batch_, " of them would always be empty");
    ENG_TRY(find_site());
    ENG_TRY(settle_mode());
    return given_ ? predict_given() : choose();
  }

 private:
  Status check() const {
    if (!r_.plan.empty() && !r_.placement.empty()) return usage_error("--plan and --placement exclude one another: a plan has a device for each node");
    if (!r_.plan.empty() && if_.devices > 0) return usage_error("--what-if devices=", if_.devices, " does not go with --plan: the plan names its devices");
    if (!r_.plan.empty() && (r_.shards > 0 || r_.parallel != "auto")) return usage_error("--plan settles replicas and shards; --shards and --parallel do not go with it");
    if (!r_.memory.empty() && !if_.memory.empty()) return usage_error("the memory is given twice: by --memory and by --what-if");
    if (!r_.link.empty() && !if_.link.empty()) return usage_error("the link is given twice: by --link and by --what-if");
    if (r_.batch > 0 && if_.batch > 0) return usage_error("the batch is given twice: by --batch and by --what-if");
    return {};
  }

  Status check_given() const {
    if (given_->nodes.empty()) return invalid(r_.plan, ": the plan has no nodes");
    if (!r_.devices_given) return {};
    ENG_ASSIGN(const std::vector<std::string> names, device_names(r_.devices));
    std::set<std::string> wanted;
    std::string list;
    for (const DeviceSpec& d : given_->machine.devices) wanted.insert(d.name), list += (list.empty() ? "" : ",") + d.name;
    if (std::set<std::string>(names.begin(), names.end()) != wanted) return usage_error("--devices ", r_.devices, ": the plan in ", r_.plan, " is for --devices ", list);
    return {};
  }

  std::string mode() const { return r_.parallel == "auto" && !r_.placement.empty() ? "branch" : r_.parallel; }

  Status settle_mode() {
    const int devices = site_.named_count();
    options_.batch = batch_;
    options_.shards = static_cast<int>(r_.shards);
    const std::string mode = this->mode();
    if (mode == "none" && devices > 1) return usage_error("--parallel none computes on one device, there are ", devices);
    if (mode != "branch" && !r_.placement.empty()) return usage_error("--placement belongs to --parallel branch, not ", mode);
    options_.replicas = mode == "data" ? devices : mode == "branch" || mode == "none" ? 1 : 0;
    return {};
  }

  const Step* known_step(int64_t rows) {
    const auto found = steps_.find(rows);
    return found == steps_.end() ? nullptr : &found->second;
  }
  Result<const Step*> step_of(int64_t rows) {
    if (const Step* known = known_step(rows)) return known;
    ENG_ASSIGN(Step step, make_step_(rows));
    return const_cast<const Step*>(&steps_.emplace(rows, std::move(step)).first->second);
  }

  // Rows of a shard in every arrangement that will be looked at.
  std::vector<int64_t> rows_needed(int devices) const {
    std::set<int64_t> rows;
    if (given_) rows.insert(rows_of(static_cast<int64_t>(given_->replicas) * given_->shards_per_replica));
    for (int replicas = 1; replicas <= devices; ++replicas)
      if (devices % replicas == 0) rows.insert(rows_of(r_.shards > 0 ? r_.shards : replicas));
    return {rows.begin(), rows.end()};
  }
  int64_t rows_of(int64_t shards) const { return std::max<int64_t>(1, (batch_ + shards - 1) / shards); }

  Status find_site() {
    std::vector<std::string> names;
    if (given_) {
      for (const DeviceSpec& d : given_->machine.devices) names.push_back(d.name);
    } else {
      ENG_ASSIGN(names, device_names(r_.devices));
      ENG_TRY(add_hosts(names));
    }
    ENG_TRY(add_costs(names));
    if (given_) site_.machine = given_->machine;
    ENG_TRY(change_devices());
    const size_t named = static_cast<size_t>(site_.named_count());
    ENG_TRY(check_entries(if_.memory, named, "memory"));
    ENG_TRY(check_entries(if_.speed, named, "speed"));
    size_t d = 0;
    for (int number = 0; number < site_.machine.device_count(); ++number) {
      if (site_.is_host(number)) {
        site_.speed.push_back(1);
        continue;
      }
      DeviceSpec& spec = site_.machine.devices[static_cast<size_t>(number)];
      if (!r_.memory.empty()) {
        ENG_ASSIGN(spec.memory_limit, parse_bytes(r_.memory, "--memory"));
      }
      if (!if_.memory.empty()) spec.memory_limit = entry(if_.memory, d);
      site_.speed.push_back(if_.speed.empty() ? 1 : entry(if_.speed, d));
      spec.flops_per_second *= site_.speed.back();
      spec.bytes_per_second *= site_.speed.back();
      ++d;
    }
    if (!r_.link.empty() || !if_.link.empty()) {
      ENG_ASSIGN(const LinkSpec link, r_.link.empty() ? parse_link(if_.link, ':', "--what-if link=") : parse_link(r_.link, ',', "--link"));
      site_.machine.connect_all(link);
    }
    return {};
  }

  // A what-if of other devices is of what there is to be named: it stays as it is.
  Status add_hosts(std::vector<std::string>& names) {
    if (if_.devices > 0) return {};
    ENG_ASSIGN(const Step* step, step_of(rows_needed(static_cast<int>(names.size())).front()));
    const std::vector<std::string> left = nodes_for_host(names, step->graph);
    if (left.empty()) return {};
    console_.note(host_note(left, r_.devices));
    names = with_hosts(names, mode() != "branch", site_.host);
    return {};
  }

  // devices=N: more of the last kind, or fewer.
  Status change_devices() {
    Machine& m = site_.machine;
    const int before = m.device_count(), wanted = if_.devices > 0 ? static_cast<int>(if_.devices) : before;
    site_.base.clear();
    Machine changed;
    std::set<std::string> taken;
    for (int d = 0; d < wanted; ++d) {
      site_.base.push_back(std::min(d, before - 1));
      changed.devices.push_back(m.devices[static_cast<size_t>(site_.base.back())]);
      std::string& name = changed.devices.back().name;
      for (int i = d; !taken.insert(name).second; ++i) name = name.substr(0, name.rfind(':') + 1) + std::to_string(i);
    }
    changed.connect_all(before > 1 ? m.link(0, 1) : kUsualLink);
    for (int from = 0; from < std::min(before, wanted); ++from)
      for (int to = 0; to < std::min(before, wanted); ++to)
        if (from != to) changed.link(from, to) = m.link(from, to);
    if (before == 1 && wanted > 1 && r_.link.empty() && if_.link.empty())
      console_.note(cat("links between the devices are taken to be ", kUsualLink.latency * 1e6, " us and ", kUsualLink.bytes_per_second * 1e-9, " GB/s; --what-if link=US:GB_PER_S says otherwise"));
    m = std::move(changed);
    return {};
  }

  Status add_costs(const std::vector<std::string>& names) {
    DeviceOptions options;
    const int wanted = static_cast<int>(std::max<int64_t>(if_.devices, static_cast<int64_t>(names.size())));
    options.threads = r_.threads > 0 ? static_cast<int>(r_.threads) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / wanted);
    if (r_.costs == "estimated") return add_estimates(names, options);
    std::vector<std::shared_ptr<Device>> devices;
    for (const std::string& name : names) {
      auto device = Device::open(name, options);
      if (!device.ok()) return Status(device.status().code(), device.status().message() + "; --costs estimated plans for devices that are not here");
      devices.push_back(std::move(*device));
    }
    CostOptions how;
    how.concurrent = static_cast<int>(std::count_if(names.begin(), names.end(), [&](const std::string& n) { return n.substr(0, n.find(':')) == names[0].substr(0, names[0].find(':')); }));
    how.warn = [this](const std::string& text) { console_.warn(text); };
    std::vector<const Graph*> graphs;
    for (int64_t rows : rows_needed(wanted)) {
      ENG_ASSIGN(const Step* step, step_of(rows));
      graphs.push_back(&step->graph);
    }
    CostReport report;
    ENG_ASSIGN(site_.costs, measured_costs(devices, graphs, how, &report));
    if (report.measured > 0) console_.note(cat(report.measured, " of ", report.signatures, " kinds of nodes measured in ", seconds_text(report.seconds), "; their times are kept"));
    if (given_) return {};
    ENG_ASSIGN(site_.machine, measured_machine(devices, how));
    return {};
  }

  // FLOPs and bytes at usual rates, or those of the given plan; a device that is there says what it cannot run.
  Status add_estimates(const std::vector<std::string>& names, const DeviceOptions& options) {
    if (given_) {
      site_.costs = roofline_costs(given_->machine);
    } else {
      site_.machine = usual_machine(names, options.threads);
      site_.costs = roofline_costs(site_.machine);
    }
    std::vector<std::shared_ptr<Device>> there;
    for (const std::string& name : names) {
      auto device = Device::open(name, options);
      there.push_back(device.ok() ? *device : nullptr);
    }
    site_.costs = [costs = site_.costs, there](const Graph& g, NodeId n, int d) {
      NodeCost cost = costs(g, n, d);
      const auto& device = there[static_cast<size_t>(d)];
      if (const OpDef* op = find_op(g.node(n).domain, g.node(n).op_type); device && cost.refusal.empty() && !(op && op->by_executor))
        cost.refusal = refusal_of(*device, g, g.node(n));
      return cost;
    };
    return {};
  }

  Machine part_of(const std::vector<int>& devices) const {
    Machine part;
    for (int d : devices) part.devices.push_back(site_.machine.devices[static_cast<size_t>(d)]);
    part.connect_all({});
    for (size_t i = 0; i < devices.size(); ++i)
      for (size_t j = 0; j < devices.size(); ++j) part.link(static_cast<int>(i), static_cast<int>(j)) = site_.machine.link(devices[i], devices[j]);
    return part;
  }

  Result<Problem> problem_of(const Step& step, const std::vector<int>& devices, const NodePlaces& places) const {
    const NodeCosts costs = [this, &devices](const Graph& g, NodeId n, int d) {
      const size_t device = static_cast<size_t>(devices[static_cast<size_t>(d)]);
      NodeCost cost = site_.costs(g, n, site_.base[device]);
      cost.seconds /= site_.speed[device];
      return cost;
    };
    ENG_ASSIGN(Problem problem, make_problem(step.graph, part_of(devices), costs, places));
    if (!site_.host.empty()) ENG_TRY(keep_from_hosts(problem, devices));
    return problem;
  }

  // Hosts take what no named device can run, or what a placement file puts there, and nothing else.
  Status keep_from_hosts(Problem& problem, const std::vector<int>& devices) const {
    const auto is_host = [&](int d) { return site_.is_host(devices[static_cast<size_t>(d)]); };
    for (Group& g : problem.groups) {
      bool elsewhere = false;
      for (int d = 0; d < problem.device_count(); ++d) elsewhere |= !is_host(d) && g.can_run(d);
      for (int d = 0; d < problem.device_count(); ++d) {
        if (!elsewhere || !is_host(d) || g.forced == d) continue;
        for (auto& seconds : g.seconds) seconds[static_cast<size_t>(d)] = kCannotRun;
        g.refusal[static_cast<size_t>(d)] = cat("it is there for what ", r_.devices, " cannot run");
      }
    }
    return problem.finish();
  }

  Result<Strategy> choose_freely(const std::string& placement) {
    return choose_strategy(site_.machine, options_, [&](int64_t rows, const std::vector<int>& devices) -> Result<Problem> {
      ENG_ASSIGN(const Step* step, step_of(std::max<int64_t>(rows, 1)));
      NodePlaces places;
      if (!placement.empty()) {
        std::vector<std::string> names, model_names;
        for (int d : devices) names.push_back(site_.machine.devices[static_cast<size_t>(d)].name);
        for (NodeId n : model_.live_nodes()) model_names.push_back(placement_name(model_, model_.node(n)));
        ENG_ASSIGN(places, read_placement(placement, r_.placement, step->graph, names, model_names));
      }
      return problem_of(*step, devices, places);
    });
  }

  Result<MadePlan> choose() {
    std::string placement;
    if (!r_.placement.empty()) {
      ENG_ASSIGN(placement, read_text_file(r_.placement, kLargestPlacement));
    }
    ENG_ASSIGN(const Strategy strategy, choose_freely(placement));
    ENG_ASSIGN(const Step* step, step_of(std::max<int64_t>(strategy.shard_batch, 1)));
    return MadePlan{make_plan(step->graph, site_.machine, options_, strategy), *step};
  }

  // Forward nodes decide; their backward and update nodes go with them.
  Result<NodePlaces> places_of_given(const Step& step) {
    ENG_ASSIGN(const std::vector<int> devices, devices_of(*given_, step.graph));
    size_t followed = 0;
    for (PlanNode& n : given_->nodes) {
      const ValueId v = step.graph.find_value(n.output);
      const Node& node = step.graph.node(step.graph.value(v).producer);
      if (node.phase != Phase::kBackward || node.forward_node == kNoNode || n.device == devices[static_cast<size_t>(node.forward_node)]) continue;
      n.device = devices[static_cast<size_t>(node.forward_node)];
      ++followed;
    }
    if (followed > 0) console_.note(cat(followed, " backward nodes go with their forward nodes, whatever their lines say"));
    ENG_ASSIGN(NodePlaces places, places_of(*given_, step.graph));
    for (size_t i = 0; i < given_->nodes.size(); ++i) {
      const NodeId n = step.graph.value(step.graph.find_value(given_->nodes[i].output)).producer;
      places.line[static_cast<size_t>(n)] = given_lines_[i];
    }
    return places;
  }

  Result<MadePlan> predict_given() {
    Strategy s;
    s.replicas = given_->replicas;
    s.shards_per_replica = given_->shards_per_replica;
    s.shard_batch = rows_of(static_cast<int64_t>(s.replicas) * s.shards_per_replica);
    s.replica_devices = given_->replica_devices;
    ENG_ASSIGN(const Step* step, step_of(s.shard_batch));
    const auto found = places_of_given(*step);
    if (!found.ok()) return found.status().in(r_.plan);
    const NodePlaces& places = *found;
    for (size_t r = 0; r < s.replica_devices.size(); ++r) {
      ENG_ASSIGN(Problem problem, problem_of(*step, s.replica_devices[r], places));
      problem.shards = s.shards_per_replica;
      if (s.replicas > 1) problem.all_reduce = tree_all_reduce(site_.machine, s.replica_devices);
      for (Group& g : problem.groups)
        if (g.forced != kAnyDevice && !g.nodes[0].empty()) g.forced_reason = cat("placed by line ", places.line[static_cast<size_t>(g.nodes[0][0])], " of ", r_.plan);
      if (r == 0) {
        ENG_ASSIGN(s.solution, solve(problem));
        s.problem = problem;
      }
      s.seconds = std::max(s.seconds, Simulator(problem).run(s.solution.placement).makespan);
    }
    s.candidates = candidates_beside(s.seconds);
    MadePlan made{make_plan(step->graph, site_.machine, options_, s), *step};
    keep_from_given(made.plan);
    return made;
  }

  // What the planner would have chosen by itself.
  std::vector<PlanCandidate> candidates_beside(double seconds) {
    std::vector<PlanCandidate> all{{.name = "the given plan", .chosen = true, .seconds = seconds}};
    const auto free = choose_freely("");
    if (!free.ok()) return all;
    for (PlanCandidate c : free->candidates) {
      if (c.chosen) c.note = "the planner's own choice" + (c.note.empty() ? "" : ": " + c.note);
      c.chosen = false;
      c.margin = c.fits && seconds > 0 ? c.seconds / seconds - 1 : 0;
      all.push_back(std::move(c));
    }
    return all;
  }

  // Reasons, method and what was measured stay true as long as nothing was moved: then the same values cross as the file says.
  void keep_from_given(Plan& plan) const {
    std::set<std::string> before, now;
    const auto key = [](const PlanTransfer& t) { return cat(t.from, '>', t.to, ' ', t.value); };
    for (const PlanTransfer& t : given_->transfers) before.insert(key(t));
    for (const PlanTransfer& t : plan.transfers) now.insert(key(t));
    plan.method = "given as " + r_.plan;
    if (before != now || plan.batch != given_->batch) return;
    std::map<std::string, const PlanNode*> old;
    for (const PlanNode& n : given_->nodes) old[n.output] = &n;
    for (PlanNode& n : plan.nodes) {
      const auto found = old.find(n.output);
      if (found == old.end() || found->second->device != n.device) continue;
      n.reason = found->second->reason;
      n.measured = found->second->measured;
    }
    std::map<std::string, const PlanTransfer*> crossed;
    for (const PlanTransfer& t : given_->transfers) crossed[key(t)] = &t;
    for (PlanTransfer& t : plan.transfers) t.measured = crossed[key(t)]->measured;
    for (size_t d = 0; d < plan.memory.size() && d < given_->memory.size() && plan.memory.size() == given_->memory.size(); ++d) plan.memory[d].measured_peak = given_->memory[d].measured_peak;
    plan.measured_seconds = given_->measured_seconds;
  }

  const PlanRequest& r_;
  const Graph& model_;
  const PlanStepMaker& make_step_;
  const Console& console_;
  WhatIf if_;
  std::optional<Plan> given_;
  std::vector<int> given_lines_;
  int64_t batch_ = 0;
  Site site_;
  StrategyOptions options_;
  std::map<int64_t, Step> steps_;  // by rows
};

}  // namespace

Result<WhatIf> parse_what_if(const std::string& text) {
  WhatIf w;
  static const std::vector<std::string> known{"devices", "memory", "batch", "link", "speed"};
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (std::find(known.begin(), known.end(), name) == known.end())
      return usage_error("--what-if '", part, "': there is no '", name, "'; known are devices=N, memory=BYTES, batch=N, link=LATENCY_US:GB_PER_S, speed=TIMES", suggestion(name, known));
    if (value.empty()) return usage_error("--what-if '", part, "': ", name, "=VALUE is wanted");
    if (name == "devices") {
      ENG_ASSIGN(w.devices, parse_count(value, name, kMostDevices));
    } else if (name == "batch") {
      ENG_ASSIGN(w.batch, parse_count(value, name, int64_t{1} << 20));
    } else if (name == "link") {
      ENG_TRY(parse_link(value, ':', "--what-if link=").status());
      w.link = value;
    } else if (name == "memory") {
      w.memory.clear();
      for (const std::string& one : split(value, ':')) {
        ENG_ASSIGN(const uint64_t bytes, parse_bytes(one, "--what-if memory="));
        w.memory.push_back(bytes);
      }
    } else {
      w.speed.clear();
      for (const std::string& one : split(value, ':')) {
        const auto n = parse_number(one);
        if (!n.ok() || !(*n > 0) || *n > 1e6) return usage_error("--what-if speed=", value, ": how many times as fast as the real device is wanted, such as 2 or 1:0.5");
        w.speed.push_back(*n);
      }
    }
  }
  return w;
}

Result<MadePlan> make_plan_for(const PlanRequest& request, const Graph& model, const PlanStepMaker& step_of, const Console& console) {
  return Command(request, model, step_of, console).run();
}

Result<std::string> in_form(const MadePlan& made, const std::string& form) {
  if (form == "json") return to_json(made.plan);
  if (form == "dot") return to_dot(made.plan, made.step.graph);
  if (form == "svg") return to_svg(made.plan, made.step.graph);
  if (form == "html") return to_html(made.plan, made.step.graph);
  return to_text(made.plan, made.step.graph);
}

Result<bool> looks_like_plan(const std::string& path) {
  ENG_ASSIGN(const InputFile file, InputFile::open(path));
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), 256)), '\0');
  ENG_TRY(file.read(0, head.data(), static_cast<int64_t>(head.size())));
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string::npos && head[first] == '{' && (path.ends_with(".json") || head.find('"') != std::string::npos);
}

}  // namespace eng::tools
