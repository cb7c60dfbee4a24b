// See assign_layouts.h.
#include "graph/passes/assign_layouts.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/ops/op.h"

namespace eng {

bool layouts_coincide(const Shape& shape) {
  if (shape.size() < 3) return true;
  const auto a = row_major_strides(shape), b = channels_last_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1 && a[i] != b[i]) return false;
  return true;
}

namespace {

// What a node wants of an operand. kGroup: what the elementwise group that the node belongs to gets.
enum class Want : uint8_t { kEither, kRowMajor, kChannelsLast, kGroup };

class Assigner {
 public:
  Assigner(Graph& g, const std::function<bool(const Graph&, NodeId)>& can_run) : g_(g), can_run_(can_run) {}

  Result<LayoutReport> run() {
    ENG_ASSIGN(order_, g_.topological_order());
    if (order_.empty()) return LayoutReport{};
    inputs_.resize(static_cast<size_t>(g_.node_count()));
    outputs_.resize(static_cast<size_t>(g_.node_count()));
    for (NodeId n : order_) classify(n);
    form_groups();
    choose_groups();
    apply();
    return report_;
  }

 private:
  bool flexible(ValueId v) const {
    if (v == kNoValue) return false;
    const Value& value = g_.value(v);
    return value.has_shape && value.shape.size() >= 3 && value.shape.size() <= 5 && !layouts_coincide(value.shape);
  }

  // Whether the device takes the node with its flexible operands as `inputs` and `outputs` say (kGroup: channels-last).
  bool device_takes(NodeId n, const std::vector<Want>& inputs, const std::vector<Want>& outputs) {
    if (!can_run_) return true;
    std::vector<std::pair<ValueId, Layout>> before;
    auto set = [&](ValueId v, Want w) {
      if (w != Want::kChannelsLast && w != Want::kGroup) return;
      before.emplace_back(v, g_.value(v).layout);
      g_.value(v).layout = Layout::kChannelsLast;
    };
    for (size_t i = 0; i < inputs.size(); ++i) set(g_.node(n).inputs[i], inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) set(g_.node(n).outputs[i], outputs[i]);
    const bool takes = before.empty() || can_run_(g_, n);
    for (auto it = before.rbegin(); it != before.rend(); ++it) g_.value(it->first).layout = it->second;
    return takes;
  }

  void classify(NodeId n) {
    const Node& node = g_.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    const LayoutRule rule = op ? op->layout : LayoutRule::kRowMajor;
    size_t rank = 0;
    for (const auto* list : {&node.inputs, &node.outputs})
      for (ValueId v : *list)
        if (v != kNoValue) rank = std::max(rank, g_.value(v).shape.size());
    auto want = [&](ValueId v, bool row_major) {
      if (!flexible(v)) return Want::kEither;
      if (row_major || rule == LayoutRule::kRowMajor) return Want::kRowMajor;
      if (rule == LayoutRule::kChannelsLast) return Want::kChannelsLast;
      return g_.value(v).shape.size() == rank ? Want::kGroup : Want::kRowMajor;
    };
    std::vector<Want>& in = inputs_[static_cast<size_t>(n)];
    std::vector<Want>& out = outputs_[static_cast<size_t>(n)];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      in.push_back(want(node.inputs[i], op && slot_of(*op, static_cast<int>(i)) != Slot::kData));
    for (size_t i = 0; i < node.outputs.size(); ++i) out.push_back(want(node.outputs[i], op && i < 64 && (op->row_major_outputs >> i & 1)));
    if (device_takes(n, in, out)) return;
    for (auto* list : {&in, &out})
      for (Want& w : *list)
        if (w != Want::kEither) w = Want::kRowMajor;
  }

  NodeId root(NodeId n) {
    while (parent_[static_cast<size_t>(n)] != n) n = parent_[static_cast<size_t>(n)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(n)])];
    return n;
  }

  void form_groups() {
    parent_.resize(static_cast<size_t>(g_.node_count()));
    std::iota(parent_.begin(), parent_.end(), 0);
    std::vector<NodeId> first(static_cast<size_t>(g_.value_count()), kNoNode);
    auto link = [&](ValueId v, Want w, NodeId n) {
      if (w != Want::kGroup || g_.value(v).role != Role::kActivation) return;
      NodeId& seen = first[static_cast<size_t>(v)];
      if (seen == kNoNode) seen = n;
      else parent_[static_cast<size_t>(root(n))] = root(seen);
    };
    for (NodeId n : order_) {
      for (size_t i = 0; i < g_.node(n).inputs.size(); ++i) link(g_.node(n).inputs[i], inputs_[static_cast<size_t>(n)][i], n);
      for (size_t i = 0; i < g_.node(n).outputs.size(); ++i) link(g_.node(n).outputs[i], outputs_[static_cast<size_t>(n)][i], n);
    }
  }

  // How one value is made and read, in terms of fixed layouts and of the group that touches it.
  struct Traffic {
    Want made = Want::kRowMajor;
    bool read_row_major = false, read_channels_last = false, read_by_group = false;
    NodeId group = kNoNode;
    bool touched = false;
  };

  void choose_groups() {
    std::vector<Traffic> traffic(static_cast<size_t>(g_.value_count()));
    for (NodeId n : order_) {
      const Node& node = g_.node(n);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (!flexible(node.outputs[i])) continue;
        Traffic& t = traffic[static_cast<size_t>(node.outputs[i])];
        t.made = outputs_[static_cast<size_t>(n)][i];
        if (t.made == Want::kGroup) t.group = root(n);
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!flexible(node.inputs[i]) || g_.value(node.inputs[i]).role == Role::kConstant) continue;
        Traffic& t = traffic[static_cast<size_t>(node.inputs[i])];
        const Want w = inputs_[static_cast<size_t>(n)][i];
        t.read_row_major |= w == Want::kRowMajor;
        t.read_channels_last |= w == Want::kChannelsLast;
        if (w == Want::kGroup) t.read_by_group = true, t.group = root(n);
      }
    }
    auto outside = [&](ValueId v) { if (flexible(v)) traffic[static_cast<size_t>(v)].read_row_major = true; };
    for (ValueId v : g_.outputs) outside(v);
    for (const auto& [state, next] : g_.updates) outside(next);

    std::map<NodeId, std::pair<int64_t, int64_t>> cost;  // group -> reordered bytes as row-major, as channels-last
    for (ValueId v = 0; v < g_.value_count(); ++v) {
      const Traffic& t = traffic[static_cast<size_t>(v)];
      if (t.group == kNoNode) continue;
      const int64_t bytes = element_count(g_.value(v).shape) * static_cast<int64_t>(size_of(g_.value(v).dtype));
      auto reorders = [&](bool last) {
        const bool made_last = t.made == Want::kChannelsLast || (t.made == Want::kGroup && last);
        const bool wants_other = made_last ? t.read_row_major || (t.read_by_group && !last) : t.read_channels_last || (t.read_by_group && last);
        return wants_other ? bytes : 0;
      };
      cost[t.group].first += reorders(false);
      cost[t.group].second += reorders(true);
    }
    for (const auto& [group, c] : cost) group_last_[group] = c.second < c.first;
  }

  Layout settled(Want w, NodeId n) {
    if (w == Want::kChannelsLast) return Layout::kChannelsLast;
    if (w != Want::kGroup) return Layout::kRowMajor;
    auto it = group_last_.find(root(n));
    return it != group_last_.end() && it->second ? Layout::kChannelsLast : Layout::kRowMajor;
  }

  // `v` in layout `wanted`: itself, a constant's twin, or the output of a Reorder that is made once and put into `sequence`.
  ValueId in_layout(ValueId v, Layout wanted, NodeId reader, std::vector<NodeId>& sequence) {
    if (g_.value(v).layout == wanted) return v;
    auto [it, is_new] = other_.try_emplace(v, kNoValue);
    if (!is_new) return it->second;
    const Value from = g_.value(v);
    const ValueId twin = g_.add_value(from.name + (wanted == Layout::kChannelsLast ? "/channels_last" : "/row_major"), from.dtype, from.shape);
    it->second = twin;
    g_.value(twin).layout = wanted;
    if (from.role == Role::kConstant) {
      g_.value(twin).role = Role::kConstant;
      g_.value(twin).data = from.data;
      return twin;
    }
    Node reorder;
    reorder.domain = kEngineDomain;
    reorder.op_type = "Reorder";
    reorder.inputs = {v};
    reorder.outputs = {twin};
    if (reader != kNoNode) {
      reorder.phase = g_.node(reader).phase;
      reorder.forward_node = g_.node(reader).forward_node;
    }
    sequence.push_back(g_.add_node(std::move(reorder)));
    ++report_.reorders;
    report_.reordered_bytes += element_count(from.shape) * static_cast<int64_t>(size_of(from.dtype));
    return twin;
  }

  void apply() {
    for (NodeId n : order_)
      for (size_t i = 0; i < g_.node(n).outputs.size(); ++i) {
        const ValueId v = g_.node(n).outputs[i];
        if (!flexible(v)) continue;
        g_.value(v).layout = settled(outputs_[static_cast<size_t>(n)][i], n);
        report_.channels_last += g_.value(v).layout == Layout::kChannelsLast;
      }
    std::vector<NodeId> sequence;
    for (NodeId n : order_) {
      for (size_t i = 0; i < g_.node(n).inputs.size(); ++i) {
        const ValueId v = g_.node(n).inputs[i];
        if (!flexible(v)) continue;
        const ValueId other = in_layout(v, settled(inputs_[static_cast<size_t>(n)][i], n), n, sequence);
        g_.node(n).inputs[i] = other;
      }
      sequence.push_back(n);
    }
    for (ValueId& v : g_.outputs)
      if (flexible(v)) v = in_layout(v, Layout::kRowMajor, g_.value(v).producer, sequence);
    for (auto& [state, next] : g_.updates)
      if (flexible(next)) next = in_layout(next, Layout::kRowMajor, g_.value(next).producer, sequence);
    g_.renumber(sequence);
  }

  Graph& g_;
  const std::function<bool(const Graph&, NodeId)>& can_run_;
  std::vector<NodeId> order_, parent_;
  std::vector<std::vector<Want>> inputs_, outputs_;  // per node and operand
  std::map<NodeId, bool> group_last_;
  std::map<ValueId, ValueId> other_;  // the same content in the other layout
  LayoutReport report_;
};

}  // namespace

Result<LayoutReport> assign_layouts(Graph& graph, const std::function<bool(const Graph&, NodeId)>& can_run) {
  return Assigner(graph, can_run).run();
}

}  // namespace eng
