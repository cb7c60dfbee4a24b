// See costs.h. The table that the planner asks is keyed by a node's operator, first output's name and shapes, which a copy of the graph
// keeps; behind it stand times by signature, one table a kind of device.
#include "engine/exec/costs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <unordered_map>

#include "engine/exec/cost_cache.h"
#include "engine/exec/node_meter.h"
#include "engine/exec/node_signature.h"
#include "engine/exec/step_meter.h"
#include "graph/ops/op.h"
#include "graph/passes/assign_layouts.h"
#include "graph/passes/dead_code.h"

namespace eng {
namespace {

std::string key_of(const Graph& graph, const Node& node) {
  std::string key = node.op_type;
  for (const auto* list : {&node.outputs, &node.inputs})
    for (ValueId v : *list) {
      if (v == kNoValue) continue;
      const Value& value = graph.value(v);
      if (list == &node.outputs) key += '|' + value.name;
      for (int64_t d : value.shape) key += ',' + std::to_string(d);
      key += ';';
    }
  return key;
}

// Costs on one kind of device.
struct KindTable {
  std::unordered_map<std::string, NodeCost> by_key;
  double flops_per_second = 0, bytes_per_second = 0;  // the best that the nodes reached
};

class KindMeter {
 public:
  KindMeter(std::vector<std::shared_ptr<Device>> lanes, const CostOptions& options)
      : lanes_(std::move(lanes)),
        cache_(open_cost_cache(options, cat(kind_of(*lanes_[0]), ", ", lanes_.size(), " at once"))) {}

  Status add(const Graph& step);
  void finish(const CostOptions& options);
  KindTable take() { return std::move(table_); }
  int signatures() const { return static_cast<int>(known_.size()); }
  int measured() const { return measured_; }

 private:
  Status time_whole(const Graph& step, const Graph& graph);
  void learn(const std::string& signature, const NodeTime& time);
  Result<const NodeCost*> cost(const Graph& graph, NodeId node);
  Result<NodeCost> find_or_time(const Graph& graph, NodeId node, const std::string& signature);
  void note_rates(const Graph& graph, NodeId node, double seconds);

  std::vector<std::shared_ptr<Device>> lanes_;
  CostCache cache_;
  std::unordered_map<std::string, NodeCost> known_;  // by signature
  KindTable table_;
  int measured_ = 0;
};

// The step as a program on this device would have it. Value ids stay, so a node is found again by its first output; a reorder that the
// passes put in is charged to the node whose result it moves, else to its reader.
Status KindMeter::add(const Graph& step) {
  Graph graph = step;
  ENG_TRY(dead_code(graph).status());
  if (lanes_[0]->prefers_channels_last()) {
    auto takes = [this](const Graph& g, NodeId n) { return can_run(*lanes_[0], g, g.node(n)).ok(); };
    ENG_TRY(assign_layouts(graph, takes).status());
  }
  std::unordered_map<std::string, NodeCost> own;
  for (NodeId n : step.live_nodes()) own.try_emplace(key_of(step, step.node(n)));  // what the step does not need costs nothing
  ENG_TRY(time_whole(step, graph));
  const auto uses = graph.uses();
  auto original_of = [&](NodeId n) -> NodeId {
    for (ValueId v : graph.node(n).outputs)
      if (v != kNoValue && v < step.value_count() && step.value(v).producer != kNoNode) return step.value(v).producer;
    return kNoNode;
  };
  ENG_ASSIGN(const std::vector<NodeId> order, graph.topological_order());
  for (NodeId n : order) {
    ENG_ASSIGN(const NodeCost* found, cost(graph, n));
    const Node& node = graph.node(n);
    NodeId owner = original_of(n);
    if (owner == kNoNode && !node.inputs.empty() && graph.value(node.inputs[0]).producer != kNoNode) owner = original_of(graph.value(node.inputs[0]).producer);
    if (owner == kNoNode && !node.outputs.empty())
      for (NodeId reader : uses[static_cast<size_t>(node.outputs[0])])
        if (owner == kNoNode) owner = original_of(reader);
    if (owner == kNoNode) continue;
    NodeCost& total = own[key_of(step, step.node(owner))];
    total.seconds += found->seconds;
    total.scratch_bytes = std::max(total.scratch_bytes, found->scratch_bytes);
    if (total.refusal.empty()) total.refusal = found->refusal;
    note_rates(graph, n, found->seconds);
  }
  table_.by_key.merge(own);
  return {};
}

// Times all nodes in one go, as parts of the running step, if one of them is not known. Where that cannot be done (a device that refuses a
// node, keeps no times, or lacks the memory), each is timed by itself later.
Status KindMeter::time_whole(const Graph& step, const Graph& graph) {
  bool all_known = true;
  for (NodeId n : graph.live_nodes()) {
    const OpDef* op = find_op(graph.node(n).domain, graph.node(n).op_type);
    all_known &= (op && op->by_executor) || cache_.find(node_signature(graph, graph.node(n)));
  }
  if (all_known || !lanes_[0]->can_trace()) return {};
  const auto times = time_step(lanes_, step);
  if (!times.ok()) return times.status().code() == Code::kUnsupported || times.status().code() == Code::kDevice ? Status() : times.status();
  std::map<std::string, std::vector<NodeTime>> by_signature;
  for (size_t i = 0; i < times->nodes.size(); ++i) by_signature[node_signature(times->graph, times->graph.node(times->nodes[i]))].push_back(times->times[i]);
  for (const auto& [signature, all] : by_signature) {
    if (cache_.find(signature)) continue;
    NodeTime mean = all[0];
    mean.seconds = 0;
    for (const NodeTime& t : all) mean.seconds += t.seconds / static_cast<double>(all.size());
    learn(signature, mean);
  }
  return {};
}

void KindMeter::learn(const std::string& signature, const NodeTime& time) {
  cache_.put(signature, time.seconds);
  cache_.put(signature + " workspace", static_cast<double>(time.workspace));
  ++measured_;
}

Result<const NodeCost*> KindMeter::cost(const Graph& graph, NodeId n) {
  const std::string signature = node_signature(graph, graph.node(n));
  if (const auto it = known_.find(signature); it != known_.end()) return &it->second;
  ENG_ASSIGN(NodeCost c, find_or_time(graph, n, signature));
  return &known_.emplace(signature, std::move(c)).first->second;
}

Result<NodeCost> KindMeter::find_or_time(const Graph& graph, NodeId n, const std::string& signature) {
  const Node& node = graph.node(n);
  const OpDef* op = find_op(node.domain, node.op_type);
  NodeCost c;
  if (op && op->by_executor) return c;
  c.refusal = refusal_of(*lanes_[0], graph, node);
  if (!c.refusal.empty()) return c;
  const double* seconds = cache_.find(signature);
  const double* workspace = cache_.find(signature + " workspace");
  if (seconds && workspace) {
    c.seconds = *seconds;
    c.scratch_bytes = static_cast<uint64_t>(*workspace);
    return c;
  }
  ENG_ASSIGN(const NodeTime time, time_node(lanes_, graph, node));
  c.seconds = time.seconds;
  c.scratch_bytes = time.workspace;
  learn(signature, time);
  return c;
}

void KindMeter::note_rates(const Graph& graph, NodeId n, double seconds) {
  if (seconds <= 0) return;
  const Cost counted = cost_of(graph, graph.node(n));
  table_.flops_per_second = std::max(table_.flops_per_second, counted.flops / seconds);
  if (seconds > 20e-6) table_.bytes_per_second = std::max(table_.bytes_per_second, counted.bytes / seconds);  // not a view
}

void KindMeter::finish(const CostOptions& options) {
  if (const Status s = cache_.save(); !s.ok() && options.warn) options.warn(cat("measured costs are not kept: ", s.message()));
}

// The device and its alike neighbours; where there are too few of them, further streams of the same device.
Result<std::vector<std::shared_ptr<Device>>> lanes_of(size_t which, const std::vector<std::shared_ptr<Device>>& devices, int concurrent) {
  std::vector<std::shared_ptr<Device>> lanes{devices[which]};
  for (size_t d = 0; d < devices.size() && static_cast<int>(lanes.size()) < concurrent; ++d)
    if (d != which && kind_of(*devices[d]) == kind_of(*devices[which])) lanes.push_back(devices[d]);
  while (static_cast<int>(lanes.size()) < concurrent) {
    ENG_ASSIGN(auto more, Device::open(devices[which]->name(), devices[which]->options()));
    lanes.push_back(std::move(more));
  }
  return lanes;
}

}  // namespace

std::string kind_of(const Device& device) {
  auto text = [](const eb_string& s) { return std::string(s.data ? s.data : "", s.length); };
  const int threads = device.options().threads;
  return cat(text(device.backend().name), ' ', text(device.backend().version), ", ", device.backend().kernel_count, " kernels, ", device.description(), ", ",
             threads ? std::to_string(threads) : "all", " threads", device.options().deterministic ? ", deterministic" : "");
}

CostCache open_cost_cache(const CostOptions& options, const std::string& what) {
  return CostCache::load(!options.use_cache ? "" : options.cache_folder.empty() ? user_cache_folder() : options.cache_folder, what, options.warn);
}

Result<NodeCosts> measured_costs(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<const Graph*>& graphs, const CostOptions& options,
                                 CostReport* report) {
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, std::shared_ptr<const KindTable>> kinds;
  std::vector<std::shared_ptr<const KindTable>> tables;
  CostReport counts;
  for (const Graph* g : graphs) counts.nodes += static_cast<int>(g->live_nodes().size());
  for (size_t d = 0; d < devices.size(); ++d) {
    std::shared_ptr<const KindTable>& table = kinds[kind_of(*devices[d])];
    if (!table) {
      ENG_ASSIGN(auto lanes, lanes_of(d, devices, std::max(options.concurrent, 1)));
      KindMeter meter(std::move(lanes), options);
      for (const Graph* g : graphs) ENG_TRY(meter.add(*g));
      meter.finish(options);
      counts.signatures += meter.signatures();
      counts.measured += meter.measured();
      table = std::make_shared<const KindTable>(meter.take());
    }
    tables.push_back(table);
  }
  counts.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report) *report = counts;
  return NodeCosts([tables](const Graph& graph, NodeId n, int device) -> NodeCost {
    const KindTable& table = *tables[static_cast<size_t>(device)];
    if (const auto it = table.by_key.find(key_of(graph, graph.node(n))); it != table.by_key.end()) return it->second;
    const Cost counted = cost_of(graph, graph.node(n));
    NodeCost c;
    if (table.flops_per_second > 0) c.seconds = counted.flops / table.flops_per_second;
    if (table.bytes_per_second > 0) c.seconds = std::max(c.seconds, counted.bytes / table.bytes_per_second);
    return c;
  });
}

}  // namespace eng
