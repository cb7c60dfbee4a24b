// See cut.h.
#include "graph/partition/cut.h"

#include <set>
#include <utility>

namespace eng {
namespace {

bool is_state(const Value& v) { return v.role == Role::kParameter || v.role == Role::kState; }

int32_t inherited_place(const Graph& g, const Node& n, const std::vector<std::vector<NodeId>>& uses) {
  if (n.forward_node != kNoNode && n.forward_node < g.node_count() && g.node(n.forward_node).place >= 0) return g.node(n.forward_node).place;
  for (ValueId v : n.inputs) {
    const NodeId maker = v == kNoValue ? kNoNode : g.value(v).producer;
    if (maker != kNoNode && g.node(maker).place >= 0) return g.node(maker).place;
  }
  for (ValueId v : n.outputs) {
    if (v == kNoValue || static_cast<size_t>(v) >= uses.size()) continue;
    for (NodeId reader : uses[static_cast<size_t>(v)])
      if (g.node(reader).place >= 0) return g.node(reader).place;
  }
  return 0;
}

class Cutter {
 public:
  Cutter(Graph& g, const std::vector<NodeId>& order, const std::function<int32_t(ValueId)>& known_place) : g_(g), order_(order), known_place_(known_place) {}

  Cut run() {
    find_owners();
    find_readers();
    for (auto& [v, places] : readers_)  // states are there from the start, so their copies go out first
      if (is_state(g_.value(v)))
        for (int32_t place : places) (void)arrives(v, place);
    for (NodeId n : order_) {
      const int32_t here = g_.node(n).place;
      for (size_t i = 0; i < g_.node(n).inputs.size(); ++i) {
        const ValueId v = g_.node(n).inputs[i];
        if (v != kNoValue) g_.node(n).inputs[i] = arrives(v, here);
      }
      out_.order.push_back(n);
      const std::vector<ValueId> outputs = g_.node(n).outputs;
      for (ValueId v : outputs) {
        const auto it = v == kNoValue ? readers_.end() : readers_.find(v);
        if (it == readers_.end()) continue;
        for (int32_t place : it->second) (void)sent(v, place);  // at once, whenever the reader comes to it
      }
    }
    for (auto& [state, next] : g_.updates) next = arrives(next, out_.owners.at(state));
    return std::move(out_);
  }

 private:
  void find_owners() {
    for (const auto& [state, next] : g_.updates) {
      const NodeId maker = g_.value(next).producer;
      own(state, maker == kNoNode ? 0 : g_.node(maker).place);
    }
    for (NodeId n : order_)
      for (ValueId v : g_.node(n).inputs)
        if (v != kNoValue && is_state(g_.value(v))) own(v, g_.node(n).place);
  }

  void own(ValueId state, int32_t place) {
    if (out_.owners.count(state)) return;
    const int32_t known = known_place_(state);
    out_.owners[state] = known >= 0 ? known : place;
  }

  // Which other places read a value.
  void find_readers() {
    auto note = [&](ValueId v, int32_t place) {
      const int32_t from = home(v);
      if (from >= 0 && from != place) readers_[v].insert(place);
    };
    for (NodeId n : order_)
      for (ValueId v : g_.node(n).inputs)
        if (v != kNoValue) note(v, g_.node(n).place);
    for (const auto& [state, next] : g_.updates) note(next, out_.owners.at(state));
  }

  int32_t home(ValueId v) const {
    if (is_state(g_.value(v))) return out_.owners.at(v);
    const NodeId maker = g_.value(v).producer;
    return maker == kNoNode ? known_place_(v) : g_.node(maker).place;  // inputs and constants are at every place unless it says otherwise
  }

  ValueId sent(ValueId v, int32_t place) {
    auto [it, fresh] = sent_.try_emplace({v, place}, kNoValue);
    if (fresh) it->second = joint(v, "Send", home(v), "/to" + std::to_string(place));
    return it->second;
  }

  // The value under which `v` is known at a place, with a Recv before the next node where it is not made there.
  ValueId arrives(ValueId v, int32_t place) {
    const int32_t from = home(v);
    if (from < 0 || from == place) return v;
    auto [it, fresh] = received_.try_emplace({v, place}, kNoValue);
    if (fresh) it->second = joint(sent(v, place), "Recv", place, "/at" + std::to_string(place));
    return it->second;
  }

  ValueId joint(ValueId v, const char* op, int32_t place, const std::string& ending) {
    const Value source = g_.value(v);
    const NodeId maker = source.producer;
    const ValueId out = g_.add_value(source.name + ending, source.dtype, source.shape);
    g_.value(out).layout = source.layout;
    Node n;
    n.domain = kEngineDomain;
    n.op_type = op;
    n.inputs = {v};
    n.outputs = {out};
    n.place = place;
    n.phase = maker == kNoNode ? Phase::kForward : g_.node(maker).phase;
    out_.order.push_back(g_.add_node(std::move(n)));
    return out;
  }

  Graph& g_;
  const std::vector<NodeId>& order_;
  const std::function<int32_t(ValueId)>& known_place_;
  Cut out_;
  std::map<ValueId, std::set<int32_t>> readers_;  // other than the maker's place
  std::map<std::pair<ValueId, int32_t>, ValueId> sent_, received_;
};

}  // namespace

void place_rest(Graph& g, const std::vector<NodeId>& order) {
  const auto uses = g.uses();
  for (NodeId n : order)
    if (g.node(n).place < 0) g.node(n).place = inherited_place(g, g.node(n), uses);
}

Cut cut(Graph& g, const std::vector<NodeId>& order, const std::function<int32_t(ValueId)>& known_place) { return Cutter(g, order, known_place).run(); }

}  // namespace eng
