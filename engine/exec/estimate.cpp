// See estimate.h. What happens here is Program::compile's prepare() and plan_memory() without kernels and buffers that stay.
#include "engine/exec/estimate.h"

#include <algorithm>

#include "engine/exec/node_signature.h"
#include "engine/exec/storage.h"
#include "engine/memory/arena.h"
#include "graph/ops/op.h"
#include "graph/passes/assign_layouts.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/schedule.h"

namespace eng {
namespace {

bool read_on_device(const Graph& g, const std::vector<NodeId>& order, ValueId constant) {
  for (NodeId n : order) {
    const Node& node = g.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == constant && (!op || slot_of(*op, static_cast<int>(i)) != Slot::kHost)) return true;
  }
  return false;
}

}  // namespace

const MemoryEstimate::Traits& MemoryEstimate::traits(const Graph& g, NodeId n) {
  auto [it, is_new] = known_.try_emplace(node_signature(g, g.node(n)));
  const OpDef* op = find_op(g.node(n).domain, g.node(n).op_type);
  if (!is_new || (op && op->by_executor)) return it->second;
  auto kernel = DeviceKernel::create(device_, g, g.node(n));
  it->second.status = kernel.status();
  if (kernel.ok()) it->second.workspace = kernel->workspace(), it->second.aliases = kernel->aliases();
  return it->second;
}

Result<MemoryReport> MemoryEstimate::report(Graph graph, const std::vector<ValueId>& fetches, const ProgramOptions& options) {
  return plan(graph, fetches, options, nullptr);
}

// `workspace` (may be null) receives the scratch space of each node under its first output's id.
Result<MemoryReport> MemoryEstimate::plan(Graph& g, const std::vector<ValueId>& fetches, const ProgramOptions& options, std::vector<uint64_t>* workspace) {
  std::vector<ValueId> asked;
  auto ask = [&](ValueId v) {
    if (g.value(v).producer != kNoNode && std::find(asked.begin(), asked.end(), v) == asked.end()) asked.push_back(v);
  };
  for (ValueId v : fetches) {
    if (v < 0 || v >= g.value_count()) return internal_error("value ", v, " is to be fetched but does not exist");
    ask(v);
  }
  for (ValueId v : options.external) ask(v);
  g.outputs = asked;
  ENG_TRY(dead_code(g).status());
  if (options.assign_layouts && device_->prefers_channels_last()) {
    auto takes = [this](const Graph& graph, NodeId n) {
      auto [it, is_new] = taken_.try_emplace(node_signature(graph, graph.node(n)), false);
      if (is_new) it->second = can_run(*device_, graph, graph.node(n)).ok();
      return it->second;
    };
    ENG_TRY(assign_layouts(g, takes).status());
  }
  StorageRequest request{.kept = fetches, .external = options.external, .joined = {}};
  for (size_t i = 0; i < asked.size(); ++i)
    for (auto* list : {&request.kept, &request.external}) std::replace(list->begin(), list->end(), asked[i], g.outputs[i]);
  std::erase_if(request.kept, [&](ValueId v) { return g.value(v).role == Role::kParameter || g.value(v).role == Role::kState; });
  ENG_ASSIGN(const std::vector<NodeId> order, options.keep_order ? g.topological_order() : schedule(g));

  MemoryReport m;
  std::vector<std::vector<eb_alias>> aliases;
  std::vector<Interval> intervals;
  for (size_t i = 0; i < order.size(); ++i) {
    const Traits& t = traits(g, order[i]);
    ENG_TRY(t.status);
    aliases.push_back(t.aliases);
    m.workspace = std::max(m.workspace, t.workspace);
    if (t.workspace) intervals.push_back({static_cast<int>(i), static_cast<int>(i), t.workspace});
    const std::vector<ValueId>& outputs = g.node(order[i]).outputs;
    if (workspace && !outputs.empty() && outputs[0] != kNoValue && static_cast<size_t>(outputs[0]) < workspace->size()) (*workspace)[static_cast<size_t>(outputs[0])] = t.workspace;
    for (ValueId v : outputs)
      if (v != kNoValue) m.activations += static_cast<uint64_t>(element_count(g.value(v).shape)) * size_of(g.value(v).dtype);
  }
  const StoragePlan storage = plan_storage(g, order, aliases, request);
  std::vector<Interval> pieces;
  for (const Storage& s : storage.storages) {
    switch (s.kind) {
      case StorageKind::kExternal: break;
      case StorageKind::kArena: pieces.push_back({s.first, s.last, s.bytes}); break;
      case StorageKind::kInput: m.inputs += s.bytes; break;
      case StorageKind::kState: m.state += s.bytes; break;
      case StorageKind::kConstant: m.constants += !device_->host_visible() && read_on_device(g, order, s.owner) ? s.bytes : 0; break;
    }
  }
  intervals.insert(intervals.begin(), pieces.begin(), pieces.end());
  const ArenaPlan plan = plan_arena(intervals, static_cast<int>(order.size()), std::max<uint64_t>(64, device_->alignment()));
  m.arena = plan.bytes;
  m.lower_bound = plan.lower_bound;
  m.live = plan.live;
  if (!order.empty()) m.peak_node = g.label(order[static_cast<size_t>(plan.peak_step)]);
  return m;
}

MemoryEstimator MemoryEstimate::for_fetches(std::vector<ValueId> fetches, ProgramOptions options) {
  return [this, fetches = std::move(fetches), options = std::move(options)](const Graph& graph) -> Result<MemoryNeed> {
    Graph copy = graph;
    MemoryNeed need;
    need.workspace.assign(static_cast<size_t>(graph.value_count()), 0);
    ENG_ASSIGN(const MemoryReport m, plan(copy, fetches, options, &need.workspace));
    need.total = m.total();
    need.arena = m.arena;
    return need;
  };
}

}  // namespace eng
