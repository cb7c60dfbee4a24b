// See host_fallback.h.
#include "tools/common/host_fallback.h"

#include <algorithm>

#include "graph/ops/op.h"

namespace eng::tools {
namespace {

bool runs(Device& device, const Graph& g, NodeId n) {
  const OpDef* op = find_op(g.node(n).domain, g.node(n).op_type);
  return (op && op->by_executor) || can_run(device, g, g.node(n)).ok();
}

}  // namespace

std::vector<std::string> nodes_for_host(const std::vector<std::string>& devices, const Graph& step) {
  std::vector<std::shared_ptr<Device>> open;
  for (const std::string& name : devices) {
    if (name.rfind("cpu", 0) == 0) return {};
    auto device = Device::open(name, {.threads = 1});
    if (!device.ok()) return {};
    open.push_back(std::move(*device));
  }
  std::vector<std::string> labels;
  for (NodeId n : step.live_nodes())
    if (std::any_of(open.begin(), open.end(), [&](const auto& device) { return !runs(*device, step, n); })) labels.push_back(step.label(n));
  return labels;
}

int place_on_host(Graph& graph, Device& device) {
  int count = 0;
  for (NodeId n : graph.live_nodes()) {
    graph.node(n).place = runs(device, graph, n) ? 0 : 1;
    count += graph.node(n).place;
  }
  return count;
}

std::string host_note(const std::vector<std::string>& labels, const std::string& devices) {
  constexpr size_t kTold = 5;
  std::string told;
  for (size_t i = 0; i < labels.size() && i < kTold; ++i) told += (i ? ", " : "") + labels[i];
  if (labels.size() > kTold) told += cat(" and ", labels.size() - kTold, " more");
  return cat(labels.size(), labels.size() == 1 ? " node that " : " nodes that ", devices, labels.size() == 1 ? " cannot run is" : " cannot run are", " computed by the host's CPU: ", told);
}

std::vector<std::string> with_hosts(const std::vector<std::string>& devices, bool each, std::vector<bool>& host) {
  std::vector<std::string> all;
  host.clear();
  auto add = [&](const std::string& name, bool is_host) {
    all.push_back(name);
    host.push_back(is_host);
  };
  for (size_t i = 0; i < devices.size(); ++i) {
    add(devices[i], false);
    if (each || i + 1 == devices.size()) add(cat("cpu:", each ? i : 0), true);
  }
  return all;
}

}  // namespace eng::tools
