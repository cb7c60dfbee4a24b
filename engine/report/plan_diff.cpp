// See plan_diff.h.
#include "engine/report/plan_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr size_t kMostNames = 5;

using Move = std::pair<std::string, std::string>;  // device before and after; empty where the node is in one plan only

struct Moved {
  std::string name;
  Move move;
  bool forward = false;
};

// Nodes under a part of the names, as long as all of them moved alike.
class Folder {
 public:
  void add(const Moved& m) { nodes_.push_back(&m); }
  void write(std::vector<std::string>& lines) { write("", lines); }

 private:
  static std::string words(const Move& m) {
    if (m.first.empty()) return "only in the second plan, on " + m.second;
    if (m.second.empty()) return "only in the first plan, on " + m.first;
    return m.first + " -> " + m.second;
  }
  void write(const std::string& prefix, std::vector<std::string>& lines) const {
    std::set<Move> moves;
    for (const Moved* m : nodes_) moves.insert(m->move);
    if (moves.size() == 1) {
      const Move& move = *moves.begin();
      if (move.first == move.second) return;
      lines.push_back(nodes_.size() == 1 ? fmt::format("node {}: {}", nodes_[0]->name, words(move)) : fmt::format("nodes {}* ({}): {}", prefix, nodes_.size(), words(move)));
      return;
    }
    std::map<std::string, Folder> inner;  // by the next part of the name
    std::vector<std::string> order;
    for (const Moved* m : nodes_) {
      const size_t end = m->name.find('/', prefix.size());
      const std::string part = end == std::string::npos ? m->name : m->name.substr(0, end + 1);
      if (!inner.count(part)) order.push_back(part);
      inner[part].add(*m);
    }
    if (order.size() == 1 && inner[order[0]].nodes_.size() == nodes_.size() && order[0] == prefix) {  // names that repeat
      for (const Moved* m : nodes_)
        if (m->move.first != m->move.second) lines.push_back(fmt::format("node {}: {}", m->name, words(m->move)));
      return;
    }
    for (const std::string& part : order) inner[part].write(part, lines);
  }
  std::vector<const Moved*> nodes_;
};

class Differ {
 public:
  Differ(const Plan& a, const Plan& b) : a_(a), b_(b) {}

  std::vector<std::string> run() {
    if (a_.graph_name != b_.graph_name) say("graph: '{}' -> '{}'", a_.graph_name, b_.graph_name);
    if (arrangement_text(a_) != arrangement_text(b_)) say("arrangement: {} -> {}", arrangement_text(a_), arrangement_text(b_));
    machine();
    time("step time", a_.seconds, b_.seconds);
    optional_time("measured step time", a_.measured_seconds, b_.measured_seconds);
    time("all-reduce", a_.all_reduce_seconds, b_.all_reduce_seconds);
    time("lower bound", a_.bound.best(), b_.bound.best());
    if (a_.method != b_.method) say("found by: {} -> {}", a_.method, b_.method);
    memory();
    transfers();
    candidates();
    nodes();
    return std::move(lines_);
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> form, Args&&... args) { lines_.push_back(fmt::format(form, std::forward<Args>(args)...)); }

  void time(const std::string& what, double a, double b) {
    if (a == b) return;
    say("{}: {} -> {}{}", what, seconds_text(a), seconds_text(b), a > 0 ? fmt::format(" ({})", change_text(b / a - 1)) : "");
  }
  void optional_time(const std::string& what, const std::optional<double>& a, const std::optional<double>& b) {
    if (a && b) return time(what, *a, *b);
    if (a.has_value() != b.has_value()) say("{}: {} -> {}", what, a ? seconds_text(*a) : "none", b ? seconds_text(*b) : "none");
  }
  void bytes(const std::string& what, const std::optional<uint64_t>& a, const std::optional<uint64_t>& b) {
    if (a == b) return;
    say("{}: {} -> {}{}", what, a ? bytes_text(*a) : "none", b ? bytes_text(*b) : "none",
        a && b && *a > 0 ? fmt::format(" ({})", change_text(static_cast<double>(*b) / static_cast<double>(*a) - 1)) : "");
  }

  void machine() {
    const Machine &a = a_.machine, &b = b_.machine;
    std::map<std::string, int> there;
    for (int d = 0; d < b.device_count(); ++d) there[b.devices[static_cast<size_t>(d)].name] = d;
    size_t speeds = 0, links = 0;
    for (int d = 0; d < a.device_count(); ++d) {
      const DeviceSpec& before = a.devices[static_cast<size_t>(d)];
      const auto found = there.find(before.name);
      if (found == there.end()) continue;  // the arrangement lists the devices
      const DeviceSpec& after = b.devices[static_cast<size_t>(found->second)];
      bytes("memory limit of " + before.name, before.memory_limit, after.memory_limit);
      speeds += before.flops_per_second != after.flops_per_second || before.bytes_per_second != after.bytes_per_second;
      for (int e = 0; e < a.device_count(); ++e) {
        const auto other = there.find(a.devices[static_cast<size_t>(e)].name);
        if (e == d || other == there.end()) continue;
        const LinkSpec &x = a.link(d, e), &y = b.link(found->second, other->second);
        links += x.latency != y.latency || x.bytes_per_second != y.bytes_per_second;
      }
    }
    if (speeds > 0) say("machine: {} device{} with another speed", speeds, speeds == 1 ? "" : "s");
    if (links > 0) say("machine: {} link{} with another speed", links, links == 1 ? "" : "s");
  }

  void memory() {
    std::map<std::string, std::pair<const PlanMemory*, const PlanMemory*>> by_name;
    for (size_t d = 0; d < a_.memory.size(); ++d) by_name[a_.device(static_cast<int>(d)).name].first = &a_.memory[d];
    for (size_t d = 0; d < b_.memory.size(); ++d) by_name[b_.device(static_cast<int>(d)).name].second = &b_.memory[d];
    for (const auto& [name, m] : by_name) {
      const auto peak = [](const PlanMemory* x) { return x ? std::optional<uint64_t>(x->peak) : std::nullopt; };
      const auto measured = [](const PlanMemory* x) { return x ? x->measured_peak : std::nullopt; };
      bytes("memory peak of " + name, peak(m.first), peak(m.second));
      bytes("measured memory peak of " + name, measured(m.first), measured(m.second));
      if (m.first && m.second) bytes("resident memory of " + name, m.first->resident, m.second->resident);
    }
  }

  static std::string key(const Plan& p, const PlanTransfer& x) { return fmt::format("'{}' {} -> {}", x.value, p.device(x.from).name, p.device(x.to).name); }

  void transfers() {
    uint64_t bytes_a = 0, bytes_b = 0;
    std::map<std::string, const PlanTransfer*> a, b;
    for (const PlanTransfer& x : a_.transfers) bytes_a += x.bytes, a[key(a_, x)] = &x;
    for (const PlanTransfer& x : b_.transfers) bytes_b += x.bytes, b[key(b_, x)] = &x;
    if (bytes_a != bytes_b || a_.transfers.size() != b_.transfers.size())
      say("transfers: {} with {} -> {} with {}", a_.transfers.size(), bytes_text(bytes_a), b_.transfers.size(), bytes_text(bytes_b));
    const auto only = [&](const auto& here, const auto& there, const char* which) {
      std::vector<std::pair<const PlanTransfer*, std::string>> found;
      for (const auto& [name, x] : here)
        if (!there.count(name)) found.emplace_back(x, name);
      std::stable_sort(found.begin(), found.end(), [](const auto& p, const auto& q) { return p.first->bytes > q.first->bytes; });
      for (size_t i = 0; i < std::min(found.size(), kMostNames); ++i) say("transfer only in the {} plan: {}, {}", which, found[i].second, bytes_text(found[i].first->bytes));
      if (found.size() > kMostNames) say("and {} smaller transfers only in the {} plan", found.size() - kMostNames, which);
    };
    only(a, b, "first");
    only(b, a, "second");
  }

  static std::string words(const PlanCandidate* c) {
    if (!c) return "not there";
    return (c->fits ? seconds_text(c->seconds) : "refused") + std::string(c->chosen ? " (chosen)" : "");
  }

  void candidates() {
    std::vector<std::string> order;
    std::map<std::string, std::pair<const PlanCandidate*, const PlanCandidate*>> by_name;
    for (bool second : {false, true}) {
      for (const PlanCandidate& c : (second ? b_ : a_).candidates) {
        if (!by_name.count(c.name)) order.push_back(c.name);
        (second ? by_name[c.name].second : by_name[c.name].first) = &c;
      }
    }
    for (const std::string& name : order) {
      const auto [x, y] = by_name[name];
      if (x && y && x->fits == y->fits && x->chosen == y->chosen && x->seconds == y->seconds) continue;
      say("candidate {}: {} -> {}", name, words(x), words(y));
    }
  }

  // Forward nodes are listed; of the others, which follow them, only what happened beside that.
  void nodes() {
    std::map<std::string, const PlanNode*> after;
    for (const PlanNode& n : b_.nodes) after[n.output] = &n;
    std::vector<Moved> all;
    const auto note = [&](const PlanNode& n, Move move) {
      all.push_back({n.name.empty() ? n.output : n.name, std::move(move), n.phase == Phase::kForward || n.phase == Phase::kLoss});
    };
    for (const PlanNode& n : a_.nodes) {
      const auto found = after.find(n.output);
      note(n, {a_.device(n.device).name, found == after.end() ? "" : b_.device(found->second->device).name});
      if (found != after.end()) after.erase(found);
    }
    for (const PlanNode& n : b_.nodes)
      if (after.count(n.output)) note(n, {"", b_.device(n.device).name});
    Folder forward, others;
    size_t forward_moved = 0, others_moved = 0;
    for (const Moved& m : all) {
      (m.forward ? forward : others).add(m);
      if (m.move.first != m.move.second) ++(m.forward ? forward_moved : others_moved);
    }
    if (forward_moved > 0) forward.write(lines_);
    if (others_moved > 0 && forward_moved > 0) say("and {} backward and update nodes", others_moved);
    if (others_moved > 0 && forward_moved == 0) others.write(lines_);
  }

  const Plan &a_, &b_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> differences(const Plan& a, const Plan& b) { return Differ(a, b).run(); }

}  // namespace eng
