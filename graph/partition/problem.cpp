// See problem.h.
#include "graph/partition/problem.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace eng {
namespace {

// Tasks as nodes of a graph, numbered kind * groups + group.
struct TaskGraph {
  std::vector<std::vector<int>> after;
  std::vector<int> waiting;
};

int number(const Problem& p, Task t) { return static_cast<int>(t.kind) * p.group_count() + t.group; }

TaskGraph task_graph(const Problem& p) {
  const int n = p.group_count();
  TaskGraph g;
  g.after.resize(static_cast<size_t>(n * kTaskKinds));
  g.waiting.assign(static_cast<size_t>(n * kTaskKinds), 0);
  auto add = [&](int first, int then) {
    g.after[static_cast<size_t>(first)].push_back(then);
    ++g.waiting[static_cast<size_t>(then)];
  };
  for (int i = 0; i < n; ++i) add(i, n + i), add(n + i, 2 * n + i);
  for (const Flow& f : p.flows) {
    if (f.at_start) continue;
    const int maker = number(p, {f.group, f.made_by});
    for (Task reader : f.readers) add(maker, number(p, reader));
  }
  return g;
}

double best_seconds(const Problem& p, int task) {
  const Group& g = p.groups[static_cast<size_t>(task % p.group_count())];
  double best = kCannotRun;
  for (int d = 0; d < p.device_count(); ++d)
    if (g.allowed(d)) best = std::min(best, g.seconds[task / p.group_count()][static_cast<size_t>(d)]);
  return best;
}

Status check_group(const Problem& p, const Group& g) {
  const size_t devices = p.machine.devices.size();
  for (const auto& seconds : g.seconds) {
    if (seconds.size() != devices) return internal_error("group '", g.name, "' has times for ", seconds.size(), " devices of ", devices);
    for (double s : seconds)
      if (std::isnan(s) || s < 0) return invalid("group '", g.name, "' has a time of ", s, " s; a number >= 0 is needed");
  }
  if (g.forced != kAnyDevice && !g.can_run(g.forced)) {
    const size_t d = static_cast<size_t>(g.forced);
    return invalid("'", g.name, "' is ", g.forced_reason, " on ", p.machine.devices[d].name, ", which cannot run it: ",
                   d < g.refusal.size() ? g.refusal[d] : "");
  }
  for (size_t d = 0; d < devices; ++d)
    if (g.can_run(static_cast<int>(d))) return {};
  std::string reasons;
  for (size_t d = 0; d < g.refusal.size(); ++d) reasons += "\n  " + p.machine.devices[d].name + ": " + g.refusal[d];
  return unsupported("no device can run '", g.name, "':", reasons);
}

Status check_flow(const Problem& p, const Flow& f) {
  if (f.group < 0 || f.group >= p.group_count()) return internal_error("flow '", f.name, "' comes from group ", f.group);
  for (Task reader : f.readers) {
    if (reader.group < 0 || reader.group >= p.group_count()) return internal_error("flow '", f.name, "' goes to group ", reader.group);
    if (!f.at_start && reader == Task{f.group, f.made_by}) return internal_error("flow '", f.name, "' is read by its own maker");
  }
  return {};
}

}  // namespace

const char* name_of(TaskKind kind) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<int>(kind)];
}

int Problem::add_group(std::string name, std::vector<double> forward, std::vector<double> backward, std::vector<double> update) {
  Group g;
  g.name = std::move(name);
  if (update.empty()) update.assign(forward.size(), 0);
  g.seconds[0] = std::move(forward);
  g.seconds[1] = std::move(backward);
  g.seconds[2] = std::move(update);
  groups.push_back(std::move(g));
  return group_count() - 1;
}

void Problem::add_edge(const std::string& name, int from, const std::vector<int>& to, uint64_t bytes, uint64_t gradient_bytes) {
  Flow value;
  value.name = name;
  value.group = from;
  value.bytes = bytes;
  for (int reader : to) value.readers.push_back({reader, TaskKind::kForward});
  flows.push_back(std::move(value));
  if (gradient_bytes == 0) return;
  for (int reader : to) {
    Flow gradient;
    gradient.name = "grad/" + name;
    gradient.group = reader;
    gradient.made_by = TaskKind::kBackward;
    gradient.readers = {{from, TaskKind::kBackward}};
    gradient.bytes = gradient_bytes;
    flows.push_back(std::move(gradient));
  }
}

void Problem::add_shared_weight(const std::string& name, int owner, const std::vector<int>& users, uint64_t bytes) {
  Flow weight;
  weight.name = name;
  weight.group = owner;
  weight.at_start = weight.is_weight = true;
  weight.bytes = bytes;
  for (int user : users) {
    weight.readers.push_back({user, TaskKind::kForward});
    weight.readers.push_back({user, TaskKind::kBackward});
  }
  flows.push_back(std::move(weight));
  for (int user : users) {
    Flow gradient;
    gradient.name = "grad/" + name;
    gradient.group = user;
    gradient.made_by = TaskKind::kBackward;
    gradient.is_weight = true;
    gradient.readers = {{owner, TaskKind::kUpdate}};
    gradient.bytes = bytes;
    flows.push_back(std::move(gradient));
  }
}

Status Problem::finish() {
  if (groups.empty() || machine.devices.empty()) return invalid("there is nothing to place, or no device to place it on");
  if (machine.links.size() != machine.devices.size() * machine.devices.size())
    return internal_error(machine.links.size(), " links between ", machine.devices.size(), " devices");
  for (const Group& g : groups) ENG_TRY(check_group(*this, g));
  for (const Flow& f : flows) ENG_TRY(check_flow(*this, f));

  const int n = group_count(), total = n * kTaskKinds;
  TaskGraph g = task_graph(*this);
  // Longest way to the end. A first topological order gives it back to front.
  std::vector<int> waiting = g.waiting, topological;
  for (int t = 0; t < total; ++t)
    if (waiting[static_cast<size_t>(t)] == 0) topological.push_back(t);
  for (size_t at = 0; at < topological.size(); ++at)
    for (int next : g.after[static_cast<size_t>(topological[at])])
      if (--waiting[static_cast<size_t>(next)] == 0) topological.push_back(next);
  if (static_cast<int>(topological.size()) != total) {
    std::string names;
    std::set<int> stuck;
    for (int t = 0; t < total; ++t)
      if (waiting[static_cast<size_t>(t)] > 0 && stuck.insert(t % n).second && names.size() < 200)
        names += (names.empty() ? "" : ", ") + groups[static_cast<size_t>(t % n)].name;
    return invalid("the groups depend on each other in a circle: ", names);
  }
  std::vector<double> way(static_cast<size_t>(total), 0);
  for (auto it = topological.rbegin(); it != topological.rend(); ++it) {
    double longest = 0;
    for (int next : g.after[static_cast<size_t>(*it)]) longest = std::max(longest, way[static_cast<size_t>(next)]);
    way[static_cast<size_t>(*it)] = longest + best_seconds(*this, *it);
  }

  // (kind, -way, number): the first is the next.
  auto key = [&](int t) { return std::tuple(t / n, -way[static_cast<size_t>(t)], t); };
  auto before = [&](int a, int b) { return key(a) < key(b); };
  std::set<int, decltype(before)> ready(before);
  waiting = g.waiting;
  for (int t = 0; t < total; ++t)
    if (waiting[static_cast<size_t>(t)] == 0) ready.insert(t);
  order.clear();
  int next = *ready.begin();
  while (true) {
    ready.erase(next);
    order.push_back({next % n, static_cast<TaskKind>(next / n)});
    int follower = -1;
    for (int t : g.after[static_cast<size_t>(next)]) {
      if (--waiting[static_cast<size_t>(t)] > 0) continue;
      ready.insert(t);
      if (t / n == next / n && (follower < 0 || before(t, follower))) follower = t;
    }
    if (ready.empty()) break;
    next = follower >= 0 ? follower : *ready.begin();
  }
  return {};
}

}  // namespace eng
