// See storage.h.
#include "engine/exec/storage.h"

#include <algorithm>
#include <climits>
#include <unordered_set>

namespace eng {
namespace {

uint64_t bytes_of(const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); }
bool same_form(const Value& a, const Value& b) { return a.dtype == b.dtype && a.shape == b.shape && a.layout == b.layout; }

class Planner {
 public:
  Planner(const Graph& g, const std::vector<NodeId>& order, const std::vector<std::vector<eb_alias>>& aliases)
      : g_(g), order_(order), aliases_(aliases), last_read_(static_cast<size_t>(g.value_count()), -1),
        state_of_(static_cast<size_t>(g.value_count()), kNoValue) {
    plan_.of.assign(static_cast<size_t>(g.value_count()), -1);
    for (size_t i = 0; i < order.size(); ++i)
      for (ValueId v : g.node(order[i]).inputs)
        if (v != kNoValue) last_read_[static_cast<size_t>(v)] = static_cast<int>(i);
    for (const auto& [state, next] : g.updates) {
      state_of_[static_cast<size_t>(next)] = state;
      last_read_[static_cast<size_t>(next)] = kEnd;
    }
  }

  void apply(const StorageRequest& request) {
    for (ValueId v : request.kept) last_read_[static_cast<size_t>(v)] = kEnd;
    for (ValueId v : request.external) external_.insert(v);
    for (ValueId v : request.joined) joined_.insert(v);
  }

  StoragePlan run() {
    for (size_t i = 0; i < order_.size(); ++i) {
      at_ = static_cast<int>(i);
      const Node& n = g_.node(order_[i]);
      for (ValueId v : n.inputs)
        if (v != kNoValue && plan_.of[static_cast<size_t>(v)] < 0) give_own(v);
      for (size_t o = 0; o < n.outputs.size(); ++o)
        if (n.outputs[o] != kNoValue) place_output(n, static_cast<int>(o), aliases_[i]);
    }
    for (Storage& s : plan_.storages)
      if (s.last == kEnd) s.last = static_cast<int>(order_.size()) - 1;
    for (const auto& [state, next] : g_.updates) {
      if (plan_.of[static_cast<size_t>(next)] < 0) continue;  // made by another part
      if (plan_.of[static_cast<size_t>(state)] < 0) give_own(state);
      if (plan_.of[static_cast<size_t>(next)] != plan_.of[static_cast<size_t>(state)]) plan_.copies.emplace_back(state, next);
    }
    return std::move(plan_);
  }

 private:
  static constexpr int kEnd = INT_MAX;

  Storage& storage_of(ValueId v) { return plan_.storages[static_cast<size_t>(plan_.of[static_cast<size_t>(v)])]; }

  void give_own(ValueId v) {
    const Value& value = g_.value(v);
    Storage s;
    s.owner = v;
    s.bytes = bytes_of(value);
    s.first = at_;
    s.last = std::max(at_, last_read_[static_cast<size_t>(v)]);
    switch (value.role) {
      case Role::kActivation: s.kind = StorageKind::kArena; break;
      case Role::kInput: s.kind = StorageKind::kInput; break;
      case Role::kConstant: s.kind = StorageKind::kConstant; break;
      case Role::kParameter:
      case Role::kState: s.kind = StorageKind::kState; break;
    }
    if (external_.count(v)) s.kind = StorageKind::kExternal;
    plan_.of[static_cast<size_t>(v)] = static_cast<int>(plan_.storages.size());
    plan_.storages.push_back(s);
  }

  void join(ValueId output, ValueId input) {
    plan_.of[static_cast<size_t>(output)] = plan_.of[static_cast<size_t>(input)];
    Storage& s = storage_of(output);
    s.last = std::max(s.last, last_read_[static_cast<size_t>(output)]);
  }

  bool may_view(ValueId input, ValueId output) {
    if (bytes_of(g_.value(input)) != bytes_of(g_.value(output))) return false;
    // What must survive the step cannot lie in memory that the step's end changes.
    return !(last_read_[static_cast<size_t>(output)] == kEnd && storage_of(input).kind == StorageKind::kState);
  }

  bool may_overwrite(const Node& n, int input_index, ValueId output) {
    const ValueId input = n.inputs[static_cast<size_t>(input_index)];
    if (!same_form(g_.value(input), g_.value(output))) return false;
    const Storage& s = storage_of(input);
    const bool own_state = s.kind == StorageKind::kState && state_of_[static_cast<size_t>(output)] == s.owner;
    if (s.kind != StorageKind::kArena && !own_state) return false;
    if (s.last > at_) return false;
    const int id = plan_.of[static_cast<size_t>(input)];
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (static_cast<int>(i) != input_index && n.inputs[i] != kNoValue && plan_.of[static_cast<size_t>(n.inputs[i])] == id) return false;
    for (ValueId v : n.outputs)
      if (v != kNoValue && plan_.of[static_cast<size_t>(v)] == id) return false;
    return true;
  }

  void place_output(const Node& n, int index, const std::vector<eb_alias>& aliases) {
    const ValueId output = n.outputs[static_cast<size_t>(index)];
    if (external_.count(output)) return give_own(output);
    if (joined_.count(output)) return join(output, n.inputs[0]);
    for (const eb_alias& a : aliases) {
      if (a.output != index || a.input < 0 || static_cast<size_t>(a.input) >= n.inputs.size()) continue;
      const ValueId input = n.inputs[static_cast<size_t>(a.input)];
      if (input == kNoValue) continue;
      if (a.kind == EB_ALIAS_VIEW ? may_view(input, output) : may_overwrite(n, a.input, output)) return join(output, input);
    }
    give_own(output);
  }

  const Graph& g_;
  const std::vector<NodeId>& order_;
  const std::vector<std::vector<eb_alias>>& aliases_;
  std::vector<int> last_read_;
  std::vector<ValueId> state_of_;  // the state whose next content a value is
  std::unordered_set<ValueId> external_, joined_;
  StoragePlan plan_;
  int at_ = 0;
};

}  // namespace

StoragePlan plan_storage(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::vector<eb_alias>>& aliases,
                         const StorageRequest& request) {
  Planner planner(graph, order, aliases);
  planner.apply(request);
  return planner.run();
}

StoragePlan plan_storage(const Graph& graph, const std::vector<NodeId>& order, const std::vector<std::vector<eb_alias>>& aliases,
                         const std::vector<ValueId>& kept) {
  return plan_storage(graph, order, aliases, StorageRequest{kept, {}, {}});
}

}  // namespace eng
