// See plan_dot.h. Rows of the view become clusters; what flows from row to row leaves from the last block of one and enters the first of the next.
#include "engine/report/plan_dot.h"

#include <fmt/format.h>

#include <map>

#include "engine/report/plan_view.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string to_dot(const Plan& plan, const Graph& step) {
  const PlanView view = view_of(plan, step);
  std::string t = fmt::format("digraph \"{}\" {{\n  label=\"{}\\nstep {}; {}\"; labelloc=t; fontname=\"sans-serif\"; compound=true;\n"
                              "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n",
                              escaped(plan.graph_name), escaped(arrangement_text(plan)), seconds_text(plan.seconds), escaped(bound_text(plan)));
  for (int d = 0; d < plan.device_count(); ++d)
    t += fmt::format("  device{} [label=\"{}\", fillcolor=\"{}\", shape=ellipse];\n", d, escaped(device_text(plan, d)), device_colour(d));
  std::map<int, int> drawn;  // place in view.groups -> the group that is drawn for it
  std::string edges;
  for (size_t r = 0; r < view.rows.size(); ++r) {
    const ViewRow& row = view.rows[r];
    const auto& shown = view.blocks[static_cast<size_t>(row.first)].groups;
    t += fmt::format("  subgraph cluster_{} {{\n    label=\"{}{}\"; color=\"#999999\"; fontname=\"sans-serif\";\n", r, escaped(row.name), row.count > 1 ? fmt::format(" x{}", row.count) : "");
    for (int b = row.first; b < row.first + row.count; ++b) {
      const auto& groups = view.blocks[static_cast<size_t>(b)].groups;
      for (size_t i = 0; i < groups.size(); ++i) drawn[groups[i]] = shown[i];
    }
    for (int g : shown) {
      const ViewGroup& group = view.groups[static_cast<size_t>(g)];
      t += fmt::format("    g{} [label=\"{}\\n{}\\n{}\", fillcolor=\"{}\", tooltip=\"{}\"];\n", g, escaped(group.label), escaped(group.operators), seconds_text(group.total()),
                       device_colour(group.device), escaped(plan.device(group.device).name + ": " + group.reason));
      for (int from : group.inputs) {
        const bool crosses = view.groups[static_cast<size_t>(from)].device != group.device;
        edges += fmt::format("  g{} -> g{}{};\n", drawn.count(from) ? drawn[from] : from, g, crosses ? " [color=\"#cc2222\", penwidth=2]" : "");
      }
    }
    t += "  }\n";
  }
  return t + edges + "}\n";
}

}  // namespace eng
