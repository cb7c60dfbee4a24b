// See recompute.h.
#include "graph/passes/recompute.h"

#include <algorithm>

#include "graph/ops/op.h"
#include "graph/passes/schedule.h"

namespace eng {
namespace {

constexpr double kCheapFlopsPerByte = 4;  // elementwise work, normalisations and pools are below, matrix products above

bool is_batch_norm(const Node& n) { return n.domain == kEngineDomain && n.op_type == "BatchNormTraining"; }
bool is_forward(const Node& n) { return n.phase == Phase::kForward || n.phase == Phase::kLoss; }

// Whether a copy of the node makes output o.
bool makes_again(const Node& n, size_t o) { return n.outputs[o] != kNoValue && (o == 0 || !is_batch_norm(n)); }

bool can_run_again(const Graph& g, const Node& n, const std::vector<char>& next_content) {
  const OpDef* op = find_op(n.domain, n.op_type);
  if (!op || op->by_executor || (op->stochastic && n.op_type != "RandomDropout")) return false;
  for (size_t o = 0; o < n.outputs.size(); ++o)
    if (makes_again(n, o) && (next_content[static_cast<size_t>(n.outputs[o])] || !g.value(n.outputs[o]).has_shape)) return false;
  return true;
}

bool is_cheap(const Graph& g, const Node& n) {
  const Cost cost = cost_of(g, n);
  return cost.flops <= kCheapFlopsPerByte * cost.bytes;
}

}  // namespace

Result<StepLine> StepLine::of(const Graph& g) {
  StepLine line(g);
  ENG_ASSIGN(line.order_, schedule(g));
  const size_t nodes = static_cast<size_t>(g.node_count()), values = static_cast<size_t>(g.value_count());
  line.forward_.assign(nodes, 0);
  line.cheap_.assign(nodes, 0);
  line.can_choose_.assign(values, 0);
  line.kept_by_all_.assign(values, 0);
  std::vector<char> next_content(values, 0);
  for (const auto& [state, next] : g.updates) next_content[static_cast<size_t>(next)] = 1;
  bool backward = false;
  for (NodeId n : line.order_) {
    const Node& node = g.node(n);
    backward |= node.phase == Phase::kBackward;
    if (!is_forward(node)) continue;
    line.forward_[static_cast<size_t>(n)] = 1;
    if (!can_run_again(g, node, next_content)) continue;
    line.cheap_[static_cast<size_t>(n)] = is_cheap(g, node);
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (makes_again(node, o) && !g.is_output(node.outputs[o])) line.can_choose_[static_cast<size_t>(node.outputs[o])] = 1;
  }
  if (!backward) line.can_choose_.assign(values, 0);
  for (NodeId n : line.order_)
    if (!line.forward_[static_cast<size_t>(n)])
      for (ValueId v : g.node(n).inputs)
        if (v != kNoValue && line.can_choose_[static_cast<size_t>(v)]) line.kept_by_all_[static_cast<size_t>(v)] = 1;
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (line.can_choose_[static_cast<size_t>(v)]) line.choices_.push_back(v);
  return line;
}

class StepLine::Unroller {
 public:
  Unroller(const StepLine& s, const std::vector<char>& kept) : s_(s), g_(*s.graph_), kept_(kept) {
    const size_t values = static_cast<size_t>(g_.value_count());
    first_.assign(values, Line::kNoVersion);
    copy_.assign(values, Line::kNoVersion);
    line_.slots.reserve(s.order_.size() * 2);
  }

  Line run() {
    for (NodeId n : s_.order_) {
      if (s_.forward_[static_cast<size_t>(n)]) {
        emit(n, false, false);
        continue;
      }
      event_.clear();
      bool heavy = false;
      for (ValueId v : g_.node(n).inputs)
        if (again(v)) heavy |= make(v);
      emit(n, false, true);
      for (ValueId v : event_) {  // stepping stones are made once more when their own reader comes
        const bool stone = line_.versions[version(v)].last != static_cast<int>(line_.slots.size()) - 1;
        if (kept_[static_cast<size_t>(v)] == kEachTime || (heavy && stone && s_.cheap_[static_cast<size_t>(g_.value(v).producer)])) copy_[static_cast<size_t>(v)] = Line::kNoVersion;
      }
    }
    return std::move(line_);
  }

 private:
  size_t version(ValueId v) const { return static_cast<size_t>(copy_[static_cast<size_t>(v)]); }
  bool again(ValueId v) const { return v != kNoValue && s_.can_choose_[static_cast<size_t>(v)] && kept_[static_cast<size_t>(v)] != kKept; }

  // Appends the copies that end in `wanted`. Returns whether a costly one is among them.
  bool make(ValueId wanted) {
    bool heavy = false;
    std::vector<std::pair<ValueId, size_t>> stack{{wanted, 0}};  // value, next input to look at
    while (!stack.empty()) {
      auto& [v, at] = stack.back();
      if (copy_[static_cast<size_t>(v)] != Line::kNoVersion) {
        stack.pop_back();
        continue;
      }
      const NodeId maker = g_.value(v).producer;
      const Node& node = g_.node(maker);
      ValueId missing = kNoValue;
      for (; at < node.inputs.size() && missing == kNoValue; ++at)
        if (again(node.inputs[at]) && copy_[static_cast<size_t>(node.inputs[at])] == Line::kNoVersion) missing = node.inputs[at];
      if (missing != kNoValue) {
        stack.emplace_back(missing, 0);
        continue;
      }
      emit(maker, true, true);
      heavy |= !s_.cheap_[static_cast<size_t>(maker)];
      stack.pop_back();
    }
    return heavy;
  }

  void emit(NodeId n, bool copy, bool late) {
    const Node& node = g_.node(n);
    const int slot = static_cast<int>(line_.slots.size());
    line_.slots.push_back({n, copy, static_cast<int>(line_.reads.size()), static_cast<int>(line_.makes.size())});
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const int from = v == kNoValue ? Line::kNoVersion : late && again(v) ? copy_[static_cast<size_t>(v)] : first_[static_cast<size_t>(v)];
      line_.reads.push_back(from);
      if (from != Line::kNoVersion) line_.versions[static_cast<size_t>(from)].last = slot;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNoValue || (copy && !makes_again(node, o))) {
        line_.makes.push_back(Line::kNoVersion);
        continue;
      }
      const int made = static_cast<int>(line_.versions.size());
      line_.makes.push_back(made);
      line_.versions.push_back({v, slot, slot, copy});
      if (!copy) first_[static_cast<size_t>(v)] = made;
      else if (again(v)) copy_[static_cast<size_t>(v)] = made, event_.push_back(v);
    }
  }

  const StepLine& s_;
  const Graph& g_;
  const std::vector<char>& kept_;
  std::vector<int> first_, copy_;  // per value: the version that forward and backward nodes read
  std::vector<ValueId> event_;     // copies that one backward node asked for
  Line line_;
};

Line StepLine::unroll(const std::vector<char>& kept) const { return Unroller(*this, kept).run(); }

Result<int> recompute(Graph& g, const std::vector<char>& kept) {
  if (kept.size() < static_cast<size_t>(g.value_count())) return internal_error("recompute: ", kept.size(), " choices for ", g.value_count(), " values");
  std::vector<NodeId> order;
  Line line;
  {
    ENG_ASSIGN(const StepLine step, StepLine::of(g));
    line = step.unroll(kept);
  }
  std::vector<ValueId> ids(line.versions.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const Line::Version& version = line.versions[i];
    ids[i] = version.value;
    if (!version.again) continue;
    const Value from = g.value(version.value);
    ids[i] = g.add_value(from.name + "/again", from.dtype, from.shape);
    g.value(ids[i]).layout = from.layout;
  }
  int copies = 0;
  std::vector<int> times(static_cast<size_t>(g.node_count()), 0);
  for (const Line::Slot& slot : line.slots) {
    Node node = g.node(slot.node);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (const int read = line.reads[static_cast<size_t>(slot.reads) + i]; read != Line::kNoVersion) node.inputs[i] = ids[static_cast<size_t>(read)];
    if (!slot.again) {
      g.node(slot.node).inputs = node.inputs;
      order.push_back(slot.node);
      continue;
    }
    // The statistics' old content is read only for the new one; the saved one stands in, so that no update has to wait for this node.
    if (is_batch_norm(node) && node.outputs.size() == 5)
      for (size_t i : {3, 4})
        if (node.outputs[i] != kNoValue) node.inputs[i] = node.outputs[i];
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const int made = line.makes[static_cast<size_t>(slot.makes) + o];
      node.outputs[o] = made == Line::kNoVersion ? kNoValue : ids[static_cast<size_t>(made)];
    }
    const int time = times[static_cast<size_t>(slot.node)]++;
    if (!node.name.empty()) node.name += time ? cat("/again_", time) : "/again";
    node.phase = Phase::kBackward;
    node.forward_node = slot.node;
    order.push_back(g.add_node(std::move(node)));
    ++copies;
  }
  if (copies) g.renumber(order);
  return copies;
}

}  // namespace eng
