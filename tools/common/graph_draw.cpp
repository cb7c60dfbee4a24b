// Drawings of a graph (see graph_compare.h): DOT for GraphViz, and an SVG of its own, one row a layer.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/common/graph_compare.h"

namespace eng::tools {
namespace {

const char* colour_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "#dbe9f6";
    case Phase::kLoss: return "#f6e3db";
    case Phase::kBackward: return "#e3f1dc";
    case Phase::kUpdate: return "#efe0f3";
  }
  return "#ffffff";
}

std::string escaped(const std::string& text, bool xml) {
  std::string out;
  for (char c : text) {
    if (xml && c == '<') out += "&lt;";
    else if (xml && c == '>') out += "&gt;";
    else if (xml && c == '&') out += "&amp;";
    else if (!xml && (c == '"' || c == '\\')) out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20) out += ' ';
    else out += c;
  }
  return out;
}

std::string shape_of(const Value& v) { return v.has_shape ? cat(v.shape) : v.data ? cat(v.data->shape()) : ""; }

std::string weights_of(const Graph& g, const Node& n) {
  std::string text;
  for (ValueId v : n.inputs) {
    if (v != kNoValue && g.value(v).data) text += (text.empty() ? "" : " ") + shape_of(g.value(v));
  }
  return text;
}

}  // namespace

std::string to_dot(const Graph& g) {
  std::string t = "digraph \"" + escaped(g.name, false) + "\" {\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  for (ValueId v : g.inputs) t += fmt::format("  v{} [label=\"{}\\n{}\", shape=ellipse, fillcolor=\"#ffffff\"];\n", v, escaped(g.value(v).name, false), shape_of(g.value(v)));
  for (ValueId v : g.outputs) t += fmt::format("  o{} [label=\"{}\\n{}\", shape=ellipse, fillcolor=\"#ffffff\"];\n", v, escaped(g.value(v).name, false), shape_of(g.value(v)));
  const auto source = [&g](ValueId v) { return g.value(v).producer == kNoNode ? fmt::format("v{}", v) : fmt::format("n{}", g.value(v).producer); };
  for (NodeId id : g.live_nodes()) {
    const Node& n = g.node(id);
    const std::string weights = weights_of(g, n);
    t += fmt::format("  n{} [label=\"{}{}{}\", fillcolor=\"{}\"];\n", id, escaped(n.op_type, false), n.name.empty() ? "" : "\\n" + escaped(n.name, false),
                     weights.empty() ? "" : "\\n" + weights, colour_of(n.phase));
    for (ValueId v : n.inputs) {
      if (v == kNoValue || g.value(v).data || (g.value(v).producer == kNoNode && g.value(v).role != Role::kInput)) continue;
      t += fmt::format("  {} -> n{} [label=\"{}\", fontsize=8];\n", source(v), id, shape_of(g.value(v)));
    }
  }
  for (ValueId v : g.outputs) t += fmt::format("  {} -> o{};\n", source(v), v);
  return t + "}\n";
}

std::string to_svg(const Graph& g) {
  constexpr int kWidth = 150, kHeight = 34, kGapX = 14, kGapY = 26;
  const auto order = g.topological_order();
  if (!order.ok()) return "";
  std::map<NodeId, int> layer;
  std::map<int, std::vector<NodeId>> rows;
  for (NodeId id : *order) {
    int deepest = 0;
    for (ValueId v : g.node(id).inputs) {
      if (v != kNoValue && g.value(v).producer != kNoNode) deepest = std::max(deepest, layer[g.value(v).producer] + 1);
    }
    layer[id] = deepest;
    rows[deepest].push_back(id);
  }
  std::map<NodeId, double> centre;
  size_t widest = 1;
  for (const auto& [l, row] : rows) widest = std::max(widest, row.size());
  const double width = static_cast<double>(widest) * (kWidth + kGapX) + kGapX;
  for (auto& [l, row] : rows) {  // ordered by the mean place of what feeds them
    const auto pull = [&](NodeId id) {
      double sum = 0;
      int count = 0;
      for (ValueId v : g.node(id).inputs) {
        if (v != kNoValue && g.value(v).producer != kNoNode) sum += centre[g.value(v).producer], ++count;
      }
      return count ? sum / count : width / 2;
    };
    std::stable_sort(row.begin(), row.end(), [&](NodeId a, NodeId b) { return pull(a) < pull(b); });
    const double left = (width - static_cast<double>(row.size()) * (kWidth + kGapX)) / 2;
    for (size_t i = 0; i < row.size(); ++i) centre[row[i]] = left + (static_cast<double>(i) + 0.5) * (kWidth + kGapX);
  }
  const auto top = [&](NodeId id) { return kGapY + layer[id] * (kHeight + kGapY); };
  std::string edges, boxes;
  for (NodeId id : *order) {
    const Node& n = g.node(id);
    for (ValueId v : n.inputs) {
      if (v == kNoValue || g.value(v).producer == kNoNode) continue;
      const NodeId from = g.value(v).producer;
      edges += fmt::format("<path d=\"M{:.0f} {} C{:.0f} {},{:.0f} {},{:.0f} {}\"/>\n", centre[from], top(from) + kHeight, centre[from], top(from) + kHeight + 18,
                           centre[id], top(id) - 18, centre[id], top(id));
    }
    std::string second = n.outputs.empty() || n.outputs[0] == kNoValue ? "" : shape_of(g.value(n.outputs[0]));
    if (second.empty()) second = n.name.size() > 24 ? n.name.substr(n.name.size() - 24) : n.name;
    boxes += fmt::format("<g><title>{}</title><rect x=\"{:.0f}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\"/><text x=\"{:.0f}\" y=\"{}\">{}</text>"
                         "<text x=\"{:.0f}\" y=\"{}\" class=\"s\">{}</text></g>\n",
                         escaped(g.label(id), true), centre[id] - kWidth / 2.0, top(id), kWidth, kHeight, colour_of(n.phase), centre[id], top(id) + 14,
                         escaped(n.op_type, true), centre[id], top(id) + 27, escaped(second, true));
  }
  const double height = static_cast<double>(rows.size()) * (kHeight + kGapY) + kGapY;
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\">\n<style>text{{font:11px sans-serif;"
                     "text-anchor:middle}}.s{{font-size:9px;fill:#555}}rect{{stroke:#667}}path{{fill:none;stroke:#99a}}</style>\n{}{}</svg>\n",
                     width, height, width, height, edges, boxes);
}

}  // namespace eng::tools
