// See make_plan.h.
#include "graph/partition/make_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "graph/ops/op.h"
#include "graph/partition/placement.h"

namespace eng {
namespace {

constexpr int kTold = 3;  // other devices that a reason speaks of

class Planner {
 public:
  Planner(const Graph& step, const Problem& problem, const Solution& solution)
      : g_(step), p_(problem), s_(solution), simulator_(problem), timeline_(simulator_.timeline(solution.placement)) {}

  Plan run() {
    Plan plan;
    plan.graph_name = g_.name;
    plan.machine = p_.machine;
    plan.shards_per_replica = p_.shards;
    plan.replica_devices.emplace_back();
    for (int d = 0; d < p_.device_count(); ++d) plan.replica_devices[0].push_back(d);
    for (int g = 0; g < p_.group_count(); ++g) reasons_.push_back(reason_of(g));
    for (Task t : p_.order) add_nodes(t, plan);
    for (const TimelineTransfer& t : timeline_.transfers) {
      const Flow& f = p_.flows[static_cast<size_t>(t.flow)];
      plan.transfers.push_back({f.name, f.made_by == TaskKind::kForward ? Phase::kForward : f.made_by == TaskKind::kBackward ? Phase::kBackward : Phase::kUpdate,
                                f.bytes, t.from, t.to, t.span, {}});
    }
    plan.memory = timeline_.memory;
    plan.all_reduce_seconds = timeline_.score.all_reduce;
    plan.seconds = timeline_.score.makespan;
    plan.bound = s_.bound;
    plan.method = s_.method;
    add_candidates(plan);
    return plan;
  }

 private:
  const std::string& device_name(int d) const { return p_.machine.devices[static_cast<size_t>(d)].name; }
  double seconds_on(const Group& g, int d) const {
    const size_t device = static_cast<size_t>(d);
    return g.seconds[0][device] + g.seconds[1][device] + g.seconds[2][device];
  }

  // Why a group is where it is.
  std::string reason_of(int number) {
    const Group& group = p_.groups[static_cast<size_t>(number)];
    const int here = s_.placement[static_cast<size_t>(number)];
    if (group.forced != kAnyDevice) return group.forced_reason;
    if (p_.device_count() == 1) return "the only device";
    std::string others;
    bool cheapest = true;
    Placement moved = s_.placement;
    for (int d = 0, told = 0; d < p_.device_count() && told < kTold; ++d) {
      if (d == here) continue;
      ++told;
      if (!group.can_run(d)) {
        others += cat(", ", device_name(d), " cannot run it: ", group.refusal[static_cast<size_t>(d)]);
        continue;
      }
      moved[static_cast<size_t>(number)] = d;
      const Score score = simulator_.run(moved);
      others += cat(", ", seconds_text(seconds_on(group, d)), " on ", device_name(d));
      if (score.excess > 0) others += cat(" (where ", bytes_text(score.excess), " of memory would be missing)");
      else if (seconds_on(group, d) <= seconds_on(group, here)) {
        cheapest = false;
        others += longer(score.makespan / s_.score.makespan - 1);
      }
    }
    return cat(cheapest ? "cheapest: " : "best for the step: ", seconds_text(seconds_on(group, here)), " here", others);
  }

  static std::string longer(double share) {
    char text[64];
    std::snprintf(text, sizeof text, " (the step would take %.2f %% longer)", 100 * share);
    return share < 5e-5 ? " (the step would be no shorter)" : text;
  }

  // The nodes of a task share its span in proportion to their own costs.
  void add_nodes(Task t, Plan& plan) {
    const Group& group = p_.groups[static_cast<size_t>(t.group)];
    const int kind = static_cast<int>(t.kind), device = s_.placement[static_cast<size_t>(t.group)];
    double at = timeline_.task(t.group, t.kind).start;
    const auto& nodes = group.nodes[kind];
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = g_.node(nodes[i]);
      const Cost cost = cost_of(g_, node);
      PlanNode n;
      n.node = nodes[i];
      n.name = node.name;
      for (ValueId v : node.outputs)
        if (v != kNoValue && n.output.empty()) n.output = g_.value(v).name;
      n.op_type = node.op_type;
      n.phase = node.phase;
      n.group = t.group;
      n.device = device;
      n.reason = node_reason(t, nodes[i], placement_name(g_, node) == group.name);
      n.flops = cost.flops;
      n.bytes = cost.bytes;
      n.predicted.start = at;
      at += group.node_seconds[kind][i * p_.machine.devices.size() + static_cast<size_t>(device)];
      n.predicted.end = at;
      plan.nodes.push_back(std::move(n));
    }
  }

  std::string node_reason(Task t, NodeId n, bool gave_name) const {
    const Group& group = p_.groups[static_cast<size_t>(t.group)];
    if (t.kind == TaskKind::kBackward) return "follows its forward node";
    if (t.kind == TaskKind::kUpdate && !group.nodes[0].empty()) return "with the weight that it updates";
    if (gave_name || group.forced != kAnyDevice || n == kNoNode) return reasons_[static_cast<size_t>(t.group)];
    return cat("runs with '", group.name, "': ", reasons_[static_cast<size_t>(t.group)]);
  }

  void add_candidates(Plan& plan) const {
    const std::set<int> used(s_.placement.begin(), s_.placement.end());
    for (const OneDevice& one : s_.one_device) {
      PlanCandidate c;
      c.name = device_name(one.device) + " alone";
      c.fits = one.note.empty();
      c.note = one.note;
      c.seconds = c.fits ? one.score.makespan : 0;
      c.chosen = used.size() == 1 && *used.begin() == one.device;
      c.margin = c.fits && plan.seconds > 0 ? c.seconds / plan.seconds - 1 : 0;
      plan.candidates.push_back(std::move(c));
    }
    if (used.size() < 2) return;
    PlanCandidate c;
    c.name = cat("branches over ", used.size(), " devices");
    c.chosen = true;
    c.seconds = plan.seconds;
    plan.candidates.push_back(std::move(c));
  }

  const Graph& g_;
  const Problem& p_;
  const Solution& s_;
  Simulator simulator_;
  const Timeline timeline_;
  std::vector<std::string> reasons_;  // per group
};

}  // namespace

Plan make_plan(const Graph& step, const Problem& problem, const Solution& solution) { return Planner(step, problem, solution).run(); }

Result<std::vector<int>> devices_of(const Plan& plan, const Graph& step) {
  std::vector<int> device(static_cast<size_t>(step.node_count()), -1);
  std::string unknown, missing;
  int unknown_count = 0, missing_count = 0;
  for (const PlanNode& n : plan.nodes) {
    NodeId node = n.node;
    if (node == kNoNode)
      if (const ValueId v = step.find_value(n.output); v != kNoValue) node = step.value(v).producer;
    if (node >= 0 && node < step.node_count() && !step.node(node).removed) device[static_cast<size_t>(node)] = n.device;
    else if (++unknown_count <= 10) unknown += "\n  " + n.op_type + " that makes '" + n.output + "'";
  }
  for (NodeId n : step.live_nodes())
    if (device[static_cast<size_t>(n)] < 0 && ++missing_count <= 10) missing += "\n  " + step.label(n);
  if (unknown_count + missing_count == 0) return device;
  std::string text;
  if (unknown_count > 0) text += cat("\n ", unknown_count, " node(s) of the plan are not in the graph:", unknown);
  if (missing_count > 0) text += cat("\n ", missing_count, " node(s) of the graph are not in the plan:", missing);
  return invalid("the plan is of another graph (its name there: '", plan.graph_name, "'):", text);
}

Result<NodePlaces> places_of(const Plan& plan, const Graph& step) {
  NodePlaces places;
  ENG_ASSIGN(places.device, devices_of(plan, step));
  places.line.assign(places.device.size(), 0);
  std::string apart;
  for (NodeId n : step.live_nodes()) {
    const NodeId forward = step.node(n).forward_node;
    if (step.node(n).phase == Phase::kBackward && forward != kNoNode && places.device[static_cast<size_t>(n)] != places.device[static_cast<size_t>(forward)])
      apart += "\n  " + step.label(n) + ", of " + step.label(forward);
  }
  if (!apart.empty()) return invalid("the plan has backward nodes on another device than their forward node:", apart);
  return places;
}

void drop_idle_devices(Plan& plan) {
  std::set<int> used;
  for (const PlanNode& n : plan.nodes) used.insert(n.device);
  if (plan.replica_devices.empty() || used.size() >= plan.replica_devices[0].size() || used.empty()) return;
  std::map<int, int> number;
  for (int d : used) number.emplace(d, static_cast<int>(number.size()));
  for (PlanNode& n : plan.nodes) n.device = number.at(n.device);
  for (PlanTransfer& t : plan.transfers) t.from = number.at(t.from), t.to = number.at(t.to);
  for (auto& devices : plan.replica_devices) {
    std::vector<int> left;
    for (int d : used) left.push_back(devices[static_cast<size_t>(d)]);
    devices = std::move(left);
  }
  std::vector<PlanMemory> memory;
  for (int d : used) memory.push_back(std::move(plan.memory[static_cast<size_t>(d)]));
  plan.memory = std::move(memory);
}

}  // namespace eng
