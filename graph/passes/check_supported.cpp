// See check_supported.h.
#include "graph/passes/check_supported.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

std::string shown_domain(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string first_name(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return "node '" + node.name + "'";
  for (ValueId v : node.outputs)
    if (v != kNoValue) return "node with output '" + graph.value(v).name + "'";
  return "node without name and outputs";
}

bool has_graph(const Node& node) {
  for (const auto& [name, attribute] : node.attributes)
    if (std::holds_alternative<std::shared_ptr<Graph>>(attribute)) return true;
  return false;
}

}  // namespace

std::vector<std::string> unsupported_nodes(const Graph& graph) {
  std::vector<std::string> out;
  for (ValueId v : graph.inputs)
    if (graph.value(v).dtype == DType::kUndefined || graph.value(v).dtype == DType::kString)
      out.push_back(cat("input '", graph.value(v).name, "' is not a tensor of numbers"));
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (!find_op(node.domain, node.op_type)) {
      const auto& opsets = graph.file_opsets.empty() ? graph.opsets : graph.file_opsets;
      auto version = opsets.find(node.domain);
      out.push_back(cat("operator ", node.op_type, " (domain ", shown_domain(node.domain), ", opset ",
                        version == opsets.end() ? std::string("not imported") : std::to_string(version->second), "), ", first_name(graph, node),
                        has_graph(node) ? ": control flow is not supported" : ": not supported"));
      continue;
    }
    for (ValueId v : node.inputs)
      if (v != kNoValue && graph.value(v).data && size_of(graph.value(v).dtype) == 0)
        out.push_back(cat("operator ", node.op_type, ", ", first_name(graph, node), ": reads '", graph.value(v).name, "' of ",
                          name_of(graph.value(v).dtype), ", an element type that is not computed with"));
  }
  return out;
}

Status check_supported(const Graph& graph) {
  const std::vector<std::string> lines = unsupported_nodes(graph);
  if (lines.empty()) return {};
  std::string text = lines.size() == 1 ? "not supported: " : cat(lines.size(), " things in the graph are not supported:");
  for (const std::string& line : lines) text += (lines.size() == 1 ? "" : "\n  ") + line;
  return unsupported(text);
}

}  // namespace eng
