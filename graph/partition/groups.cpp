// See groups.h.
#include "graph/partition/groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/ops/op.h"

namespace eng {
namespace {

uint64_t bytes_of(const Value& v) {
  return v.has_shape || v.data || !v.shape.empty() ? static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype) : size_of(v.dtype);
}

bool is_state(const Value& v) { return v.role == Role::kParameter || v.role == Role::kState; }

class Grouper {
 public:
  Grouper(const Graph& g, std::vector<NodeId> order, const Machine& machine, const NodeCosts& costs, const NodePlaces& places)
      : g_(g), order_(std::move(order)), uses_(g.uses()), costs_(costs), places_(places) {
    problem_.machine = machine;
    refusals_.resize(static_cast<size_t>(g.node_count()));
    task_.assign(static_cast<size_t>(g.node_count()), Task{-1, TaskKind::kForward});
  }

  Result<Problem> run() {
    find_refusals();
    for (NodeId n : order_)
      if (is_forward(n)) assign(n, join_or_new(n), TaskKind::kForward);
    find_owners();
    for (NodeId n : order_)
      if (!is_forward(n)) assign_later(n);
    for (NodeId n : order_) add_node(n);
    for (Group& group : problem_.groups) name(group);
    for (ValueId v = 0; v < g_.value_count(); ++v) add_value(v);
    for (int i = 0; i < problem_.group_count(); ++i) add_scratch(i);
    ENG_TRY(problem_.finish());
    return std::move(problem_);
  }

 private:
  bool is_forward(NodeId n) const {
    const Node& node = g_.node(n);
    return node.phase == Phase::kForward || node.phase == Phase::kLoss;
  }
  Task& task(NodeId n) { return task_[static_cast<size_t>(n)]; }
  Group& group_of(NodeId n) { return problem_.groups[static_cast<size_t>(task(n).group)]; }
  int forced(NodeId n) const { return places_.device.empty() ? kAnyDevice : places_.device[static_cast<size_t>(n)]; }

  void assign(NodeId n, int group, TaskKind kind) {
    task(n) = {group, kind};
    Group& to = problem_.groups[static_cast<size_t>(group)];
    to.nodes[static_cast<int>(kind)].push_back(n);
    if (is_forward(n) && forced(n) != kAnyDevice && to.forced == kAnyDevice) {
      to.forced = forced(n);
      const int line = places_.line[static_cast<size_t>(n)];
      to.forced_reason = line > 0 ? cat("forced by placement line ", line) : "forced by the given plan";
    }
  }

  int new_group() {
    problem_.groups.emplace_back();
    Group& g = problem_.groups.back();
    for (auto& seconds : g.seconds) seconds.assign(problem_.machine.devices.size(), 0);
    g.refusal.resize(problem_.machine.devices.size());
    return problem_.group_count() - 1;
  }

  // Which devices refuse a forward node or its backward nodes.
  void find_refusals() {
    for (NodeId n : order_) {
      const NodeId owner = is_forward(n) ? n : g_.node(n).forward_node;
      if (owner == kNoNode) continue;
      auto& refused = refusals_[static_cast<size_t>(owner)];
      refused.resize(problem_.machine.devices.size());
      for (int d = 0; d < problem_.device_count(); ++d)
        if (!costs_(g_, n, d).refusal.empty()) refused[static_cast<size_t>(d)] = true;
    }
  }

  // A group may take the node in: not forced to another device, and not refused by other devices than the group is, or the node would take
  // the whole group away from devices that run all the rest of it.
  bool agrees(NodeId n, int group) const {
    const Group& to = problem_.groups[static_cast<size_t>(group)];
    if (forced(n) != kAnyDevice && to.forced != kAnyDevice && to.forced != forced(n)) return false;
    return to.nodes[0].empty() || refusals_[static_cast<size_t>(to.nodes[0][0])] == refusals_[static_cast<size_t>(n)];
  }

  int join_or_new(NodeId n) {
    const Node& node = g_.node(n);
    if (node.phase == Phase::kLoss && loss_ >= 0 && agrees(n, loss_)) return loss_;
    NodeId before = kNoNode;
    bool alone = node.phase != Phase::kLoss;
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      const Value& value = g_.value(v);
      if (value.role == Role::kParameter && value.shape.size() >= 2) alone = false;  // a weight matrix: costly enough to stand by itself
      if (value.producer == kNoNode) continue;
      if (before != kNoNode && before != value.producer) alone = false;
      before = value.producer;
    }
    if (alone && before != kNoNode && only_reader(before, n) && agrees(n, task(before).group)) return task(before).group;
    const int fresh = new_group();
    if (node.phase == Phase::kLoss) loss_ = fresh;
    return fresh;
  }

  // Whether of the forward nodes only n reads what `maker` makes.
  bool only_reader(NodeId maker, NodeId n) const {
    for (ValueId v : g_.node(maker).outputs) {
      if (v == kNoValue) continue;
      for (NodeId reader : uses_[static_cast<size_t>(v)])
        if (reader != n && is_forward(reader)) return false;
    }
    return true;
  }

  void find_owners() {
    for (NodeId n : order_) {
      if (!is_forward(n)) continue;
      for (ValueId v : g_.node(n).inputs)
        if (v != kNoValue && is_state(g_.value(v))) owner_.emplace(v, task(n).group);
    }
  }

  // Backward nodes of no forward node sum the gradients of a shared weight: they run just before its update, or with the
  // owner's backward nodes where the norm of all gradients comes between.
  void assign_later(NodeId n) {
    const Node& node = g_.node(n);
    if (node.forward_node != kNoNode && task(node.forward_node).group >= 0)
      return assign(n, task(node.forward_node).group, node.phase == Phase::kUpdate ? TaskKind::kUpdate : TaskKind::kBackward);
    const int group = update_group(n);
    assign(n, group, node.phase == Phase::kBackward && read_by_rest(n) ? TaskKind::kBackward : TaskKind::kUpdate);
    for (ValueId v : node.inputs)  // slots live with their parameter
      if (v != kNoValue && is_state(g_.value(v))) owner_.emplace(v, task(n).group);
  }

  // The owner of the parameter that the node, or a reader of its result, updates; else of a state that it reads.
  int update_group(NodeId n) {
    for (Role role : {Role::kParameter, Role::kState}) {
      if (const int group = owner_among_inputs(n, role); group >= 0) return group;
      if (g_.node(n).phase == Phase::kBackward)
        for (ValueId v : g_.node(n).outputs)
          for (NodeId reader : v == kNoValue ? std::vector<NodeId>{} : uses_[static_cast<size_t>(v)])
            if (const int group = owner_among_inputs(reader, role); group >= 0) return group;
    }
    if (rest_ < 0) rest_ = new_group();
    return rest_;
  }

  bool read_by_rest(NodeId n) {
    for (ValueId v : g_.node(n).outputs)
      for (NodeId reader : v == kNoValue ? std::vector<NodeId>{} : uses_[static_cast<size_t>(v)])
        if (g_.node(reader).phase == Phase::kUpdate && owner_among_inputs(reader, Role::kParameter) < 0) return true;
    return false;
  }

  int owner_among_inputs(NodeId n, Role role) const {
    for (ValueId v : g_.node(n).inputs) {
      const auto it = v == kNoValue || g_.value(v).role != role ? owner_.end() : owner_.find(v);
      if (it != owner_.end()) return it->second;
    }
    return -1;
  }

  void add_node(NodeId n) {
    Group& group = group_of(n);
    const int kind = static_cast<int>(task(n).kind);
    const Cost cost = cost_of(g_, g_.node(n));
    group.flops[kind] += cost.flops;
    group.bytes[kind] += cost.bytes;
    for (int d = 0; d < problem_.device_count(); ++d) {
      const size_t device = static_cast<size_t>(d);
      const NodeCost node = costs_(g_, n, d);
      if (!node.refusal.empty() && group.refusal[device].empty()) {
        group.refusal[device] = g_.label(n) + ": " + node.refusal;
        for (auto& seconds : group.seconds) seconds[device] = kCannotRun;
      }
      group.node_seconds[kind].push_back(node.seconds);
      group.seconds[kind][device] += node.seconds;
      group.scratch_bytes[kind] = std::max(group.scratch_bytes[kind], node.scratch_bytes);
    }
  }

  // After its first node, which is the one with the weight matrix where there is one.
  void name(Group& group) {
    for (const auto& nodes : group.nodes) {
      if (nodes.empty()) continue;
      group.name = placement_name(g_, g_.node(nodes[0]));
      return;
    }
  }

  void add_value(ValueId v) {
    const Value& value = g_.value(v);
    std::set<std::pair<int, int>> readers;  // (kind, group)
    for (NodeId n : uses_[static_cast<size_t>(v)]) readers.emplace(static_cast<int>(task(n).kind), task(n).group);
    if (is_state(value)) return add_state(v, readers);
    if (value.producer == kNoNode) {
      if (value.role == Role::kConstant || value.role == Role::kInput) {  // on every device that reads it
        std::set<int> groups;
        for (auto [kind, group] : readers) groups.insert(group);
        for (int group : groups) problem_.groups[static_cast<size_t>(group)].resident_bytes += bytes_of(value);
      }
      return;
    }
    const Task maker = task(value.producer);
    readers.erase({static_cast<int>(maker.kind), maker.group});
    if (readers.empty()) return;  // inside a task: see add_scratch
    Group& group = problem_.groups[static_cast<size_t>(maker.group)];
    if (readers.size() == 1 && readers.begin()->second == maker.group) {
      if (maker.kind == TaskKind::kForward && readers.begin()->first == static_cast<int>(TaskKind::kBackward)) {
        group.kept_bytes += bytes_of(value);
        return;
      }
      if (maker.kind == TaskKind::kBackward) {
        group.gradient_bytes += bytes_of(value);
        return;
      }
    }
    add_flow(value, maker, false, readers);
  }

  void add_state(ValueId v, const std::set<std::pair<int, int>>& readers) {
    const auto owner = owner_.find(v);
    if (owner == owner_.end()) return;
    const Value& value = g_.value(v);
    problem_.groups[static_cast<size_t>(owner->second)].resident_bytes += bytes_of(value);
    std::set<std::pair<int, int>> others;
    for (auto reader : readers)
      if (reader.second != owner->second) others.insert(reader);
    if (!others.empty()) add_flow(value, {owner->second, TaskKind::kForward}, true, others);
  }

  void add_flow(const Value& value, Task maker, bool at_start, const std::set<std::pair<int, int>>& readers) {
    Flow flow;
    flow.name = value.name;
    flow.group = maker.group;
    flow.made_by = maker.kind;
    flow.at_start = at_start;
    flow.bytes = bytes_of(value);
    bool updates_only = true;
    for (auto [kind, group] : readers) {
      flow.readers.push_back({group, static_cast<TaskKind>(kind)});
      updates_only &= kind == static_cast<int>(TaskKind::kUpdate);
    }
    flow.is_weight = at_start || updates_only;
    problem_.flows.push_back(std::move(flow));
  }

  // What is alive at most, inside each task, of the values that only the task itself reads.
  void add_scratch(int group) {
    for (int kind = 0; kind < kTaskKinds; ++kind) {
      const auto& nodes = problem_.groups[static_cast<size_t>(group)].nodes[kind];
      std::map<ValueId, size_t> last;  // inner value -> place of its last reader
      const Task here{group, static_cast<TaskKind>(kind)};
      for (size_t i = 0; i < nodes.size(); ++i)
        for (ValueId v : g_.node(nodes[i]).outputs)
          if (v != kNoValue && is_inner(v, here)) last[v] = i;
      for (size_t i = 0; i < nodes.size(); ++i)
        for (ValueId v : g_.node(nodes[i]).inputs)
          if (auto it = last.find(v); it != last.end()) it->second = i;
      uint64_t live = 0, most = 0;
      for (size_t i = 0; i < nodes.size(); ++i) {
        for (ValueId v : g_.node(nodes[i]).outputs)
          if (last.count(v)) live += bytes_of(g_.value(v));
        most = std::max(most, live);
        for (const auto& [v, at] : last)
          if (at == i) live -= bytes_of(g_.value(v));
      }
      problem_.groups[static_cast<size_t>(group)].scratch_bytes[kind] += most;
    }
  }

  bool is_inner(ValueId v, Task here) {
    for (NodeId n : uses_[static_cast<size_t>(v)])
      if (!(task(n) == here)) return false;
    return true;
  }

  const Graph& g_;
  const std::vector<NodeId> order_;
  const std::vector<std::vector<NodeId>> uses_;
  const NodeCosts& costs_;
  const NodePlaces& places_;
  Problem problem_;
  std::vector<Task> task_;        // per node
  std::vector<std::vector<bool>> refusals_;  // per forward node: by which devices
  std::map<ValueId, int> owner_;  // of parameters and states
  int loss_ = -1, rest_ = -1;
};

}  // namespace

NodeCosts roofline_costs(const Machine& machine) {
  return [machine](const Graph& graph, NodeId node, int device) {
    const DeviceSpec& d = machine.devices[static_cast<size_t>(device)];
    const Cost cost = cost_of(graph, graph.node(node));
    NodeCost result;
    if (d.flops_per_second > 0) result.seconds = cost.flops / d.flops_per_second;
    if (d.bytes_per_second > 0) result.seconds = std::max(result.seconds, cost.bytes / d.bytes_per_second);
    return result;
  };
}

Result<Problem> make_problem(const Graph& step, const Machine& machine, const NodeCosts& costs, const NodePlaces& places) {
  ENG_ASSIGN(std::vector<NodeId> order, step.topological_order());
  return Grouper(step, std::move(order), machine, costs, places).run();
}

}  // namespace eng
