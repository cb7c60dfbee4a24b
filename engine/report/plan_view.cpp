// See plan_view.h.
#include "engine/report/plan_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/base/status.h"

namespace eng {
namespace {

constexpr double kMost = 0.6;             // part of a block's groups whose names must agree to name it
constexpr size_t kMostBlocksOfAName = 8;  // more: the next part of the name divides them

int kind_of(Phase phase) { return phase == Phase::kBackward ? 1 : phase == Phase::kUpdate ? 2 : 0; }
bool is_forward(const PlanNode& n) { return kind_of(n.phase) == 0; }
const std::string& full_name(const PlanNode& n) { return n.name.empty() ? n.output : n.name; }

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (end > begin) parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

class Viewer {
 public:
  Viewer(const Plan& plan, const Graph& step) : plan_(plan), g_(step) {}

  PlanView run() {
    make_groups();
    connect();
    find_blocks();
    merge_by_name();
    fold();
    return std::move(view_);
  }

 private:
  NodeId node_id(const PlanNode& n) const {
    if (n.node != kNoNode) return n.node;
    const ValueId v = g_.find_value(n.output);
    return v == kNoValue ? kNoNode : g_.value(v).producer;
  }

  void make_groups() {
    std::map<int, int> place;
    std::vector<double> most;  // FLOPs of the node that gave the name, per group
    for (int pass = 0; pass < 2; ++pass) {  // forward nodes give order and name; groups without any come last
      for (size_t i = 0; i < plan_.nodes.size(); ++i) {
        const PlanNode& n = plan_.nodes[i];
        if (is_forward(n) != (pass == 0)) continue;
        const auto [at, fresh] = place.emplace(n.group, static_cast<int>(view_.groups.size()));
        if (fresh) {
          view_.groups.emplace_back();
          view_.groups.back().number = n.group;
          view_.groups.back().device = n.device;
          most.push_back(-1);
        }
        ViewGroup& g = view_.groups[static_cast<size_t>(at->second)];
        double& flops = most[static_cast<size_t>(at->second)];
        g.nodes.push_back(i);
        g.seconds[kind_of(n.phase)] += n.predicted.seconds();
        g.flops += n.flops;
        if (pass == 0) add_operator(g, n);
        const bool names_it = pass == 0 ? n.flops > flops : flops < 0;
        if (!names_it) continue;
        flops = n.flops;
        g.name = full_name(n);
        g.reason = n.reason;
      }
    }
    for (ViewGroup& g : view_.groups) {
      const auto parts = parts_of(g.name);
      g.label = parts.empty() ? g.name : parts.back();
      if (g.operators.empty() && !g.nodes.empty()) g.operators = plan_.nodes[g.nodes[0]].op_type;
    }
  }

  void add_operator(ViewGroup& g, const PlanNode& n) const {
    std::string text = n.op_type;
    if (const NodeId id = node_id(n); id != kNoNode) {
      const auto& inputs = g_.node(id).inputs;
      if (n.op_type == "Conv" && inputs.size() > 1 && inputs[1] != kNoValue && g_.value(inputs[1]).shape.size() > 2) {
        const Shape& kernel = g_.value(inputs[1]).shape;
        for (size_t i = 2; i < kernel.size(); ++i) text += (i > 2 ? "x" : " ") + std::to_string(kernel[i]);
      }
    }
    if (g.operators.find(text) == std::string::npos) g.operators += (g.operators.empty() ? "" : ", ") + text;
  }

  void connect() {
    std::map<NodeId, int> group_of;
    for (size_t g = 0; g < view_.groups.size(); ++g)
      for (size_t i : view_.groups[g].nodes)
        if (is_forward(plan_.nodes[i])) group_of[node_id(plan_.nodes[i])] = static_cast<int>(g);
    for (const auto& [id, g] : group_of) {
      if (id == kNoNode) continue;
      std::set<int> from(view_.groups[static_cast<size_t>(g)].inputs.begin(), view_.groups[static_cast<size_t>(g)].inputs.end());
      for (ValueId v : g_.node(id).inputs) {
        const auto maker = v == kNoValue ? group_of.end() : group_of.find(g_.value(v).producer);
        if (maker != group_of.end() && maker->first != kNoNode && maker->second != g) from.insert(maker->second);
      }
      view_.groups[static_cast<size_t>(g)].inputs.assign(from.begin(), from.end());
    }
  }

  // A block ends with a group over which no edge leads.
  void find_blocks() {
    const int n = static_cast<int>(view_.groups.size());
    std::vector<int> over(static_cast<size_t>(n) + 1, 0);
    for (int to = 0; to < n; ++to) {
      for (int from : view_.groups[static_cast<size_t>(to)].inputs) {
        if (from + 1 < to) ++over[static_cast<size_t>(from) + 1], --over[static_cast<size_t>(to)];
      }
    }
    ViewBlock block;
    bool tail = false;
    for (int g = 0, open = 0; g < n; ++g) {
      open += over[static_cast<size_t>(g)];
      const bool update_only = view_.groups[static_cast<size_t>(g)].seconds[0] <= 0 && !is_forward(plan_.nodes[view_.groups[static_cast<size_t>(g)].nodes[0]]);
      if (update_only && !tail && !block.groups.empty()) view_.blocks.push_back(std::move(block)), block = {};
      tail |= update_only;
      block.groups.push_back(g);
      if (open == 0 && !tail) view_.blocks.push_back(std::move(block)), block = {};
    }
    if (!block.groups.empty()) view_.blocks.push_back(std::move(block));
  }

  // The parts that the names of most of a block's groups begin with (an operator outside may have been fused into the last one), and
  // for a single group its whole name.
  std::vector<std::string> common_parts(const std::vector<int>& groups) const {
    std::vector<std::vector<std::string>> names;
    for (int g : groups) names.push_back(parts_of(view_.groups[static_cast<size_t>(g)].name));
    std::vector<std::string> common;
    for (size_t depth = 0; !names.empty(); ++depth) {
      std::map<std::string, size_t> count;
      for (const auto& parts : names)
        if (depth < parts.size()) ++count[parts[depth]];
      const auto most = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most == count.end() || static_cast<double>(most->second) < kMost * static_cast<double>(groups.size())) break;
      common.push_back(most->first);
      std::erase_if(names, [&](const auto& parts) { return depth >= parts.size() || parts[depth] != common.back(); });
    }
    return common;
  }

  void merge_by_name() {
    std::vector<ViewBlock> merged;
    merge(0, view_.blocks.size(), 0, merged);
    view_.blocks = std::move(merged);
    for (ViewBlock& b : view_.blocks) {
      const auto common = common_parts(b.groups);
      for (const std::string& part : common) b.name += (b.name.empty() ? "" : "/") + part;
      if (b.name.empty()) b.name = name_without_parts(b);
    }
  }

  std::string name_without_parts(const ViewBlock& b) const {
    const std::string &first = view_.groups[static_cast<size_t>(b.groups.front())].name, &last = view_.groups[static_cast<size_t>(b.groups.back())].name;
    return b.groups.size() == 1 ? first : first + " .. " + last;
  }

  // Neighbours with the same part at `depth` become one block; so do single groups in a row on one device, whose names say nothing.
  void merge(size_t begin, size_t end, size_t depth, std::vector<ViewBlock>& out) {
    const auto part = [&](size_t block) {
      const auto& groups = view_.blocks[block].groups;
      const auto common = common_parts(groups);
      if (groups.size() == 1 && common.size() <= depth + 1) return std::string();  // the group's own name
      return depth < common.size() ? common[depth] : std::string();
    };
    const auto chain = [&](size_t block) { return view_.blocks[block].groups.size() == 1 && part(block).empty(); };
    const auto device = [&](size_t block) { return view_.groups[static_cast<size_t>(view_.blocks[block].groups[0])].device; };
    for (size_t i = begin; i < end;) {
      size_t to = i + 1;
      const std::string name = part(i);
      while (to < end && !name.empty() && part(to) == name) ++to;
      while (to < end && chain(i) && chain(to) && device(to) == device(i)) ++to;
      if (!name.empty() && to - i > kMostBlocksOfAName && deeper(i, to, depth + 1)) {
        merge(i, to, depth + 1, out);
      } else {
        ViewBlock block;
        for (size_t b = i; b < to; ++b) block.groups.insert(block.groups.end(), view_.blocks[b].groups.begin(), view_.blocks[b].groups.end());
        out.push_back(std::move(block));
      }
      i = to;
    }
  }

  // Whether the next parts divide the blocks into fewer, each of more than one.
  bool deeper(size_t begin, size_t end, size_t depth) const {
    std::set<std::string> parts;
    for (size_t b = begin; b < end; ++b) {
      const auto common = common_parts(view_.blocks[b].groups);
      if (common.size() > depth + (view_.blocks[b].groups.size() == 1 ? 1 : 0)) parts.insert(common[depth]);
    }
    return parts.size() >= 2 && parts.size() * 2 <= end - begin;
  }

  std::string signature(const ViewBlock& b) const {
    std::string text;
    for (size_t i = 0; i < b.groups.size(); ++i) {
      const ViewGroup& g = view_.groups[static_cast<size_t>(b.groups[i])];
      text += cat(g.operators, '@', g.device, ':', std::lround(std::log(1 + g.flops) * 1000));
      for (int from : g.inputs) text += from >= b.groups[0] ? cat('<', from - b.groups[0]) : "<in";
      if (g.inputs.empty()) text += "<in";  // the model's input
      text += ';';
    }
    return text;
  }

  void fold() {
    for (size_t i = 0; i < view_.blocks.size();) {
      size_t to = i + 1;
      while (to < view_.blocks.size() && signature(view_.blocks[to]) == signature(view_.blocks[i])) ++to;
      ViewRow row{view_.blocks[i].name, static_cast<int>(i), static_cast<int>(to - i)};
      if (row.count > 1) row.name += " .. " + view_.blocks[to - 1].name;
      view_.rows.push_back(std::move(row));
      i = to;
    }
  }

  const Plan& plan_;
  const Graph& g_;
  PlanView view_;
};

}  // namespace

PlanView view_of(const Plan& plan, const Graph& step) { return Viewer(plan, step).run(); }

}  // namespace eng
