// See graph_compare.h.
#include "tools/common/graph_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/common/model_source.h"

namespace eng::tools {
namespace {

std::map<std::string, const Node*> nodes_by_name(const Graph& g) {
  std::map<std::string, const Node*> out;
  for (NodeId id : g.live_nodes()) {
    const Node& n = g.node(id);
    std::string name = n.name;
    for (ValueId v : n.outputs) {
      if (name.empty() && v != kNoValue) name = g.value(v).name;
    }
    out[name] = &n;
  }
  return out;
}

std::map<std::string, const Value*> weights_by_name(const Graph& g) {
  std::map<std::string, const Value*> out;
  for (ValueId id = 0; id < g.value_count(); ++id) {
    if (g.value(id).data) out[g.value(id).name] = &g.value(id);
  }
  return out;
}

std::string operands(const Graph& g, const std::vector<ValueId>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) text += (i ? ", " : "") + (ids[i] == kNoValue ? std::string("-") : g.value(ids[i]).name);
  return text;
}

void compare_ends(const Graph& a, const Graph& b, const std::vector<ValueId>& left, const std::vector<ValueId>& right, const char* what, std::vector<std::string>& out) {
  std::map<std::string, std::string> l, r;
  for (ValueId v : left) l[a.value(v).name] = name_of(a.value(v).dtype) + " " + dims_text(a.value(v));
  for (ValueId v : right) r[b.value(v).name] = name_of(b.value(v).dtype) + " " + dims_text(b.value(v));
  for (const auto& [name, text] : l) {
    if (!r.count(name)) out.push_back(fmt::format("- {} {} {}", what, name, text));
    else if (r[name] != text) out.push_back(fmt::format("~ {} {}: {} -> {}", what, name, text, r[name]));
  }
  for (const auto& [name, text] : r) {
    if (!l.count(name)) out.push_back(fmt::format("+ {} {} {}", what, name, text));
  }
}

std::string compare_content(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return cat(name_of(a.dtype()), " ", a.shape(), " -> ", name_of(b.dtype()), " ", b.shape());
  double largest = 0;
  int64_t changed = 0;
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++changed;
    largest = std::max(largest, std::fabs(x - y));
  }
  return changed ? fmt::format("{} of {} values differ, by up to {:.3g}", changed, a.element_count(), largest) : "";
}

}  // namespace

std::vector<std::string> differences(const Graph& a, const Graph& b) {
  std::vector<std::string> out;
  for (const auto& [domain, version] : a.opsets) {
    const auto found = b.opsets.find(domain);
    if (found == b.opsets.end() || found->second != version) {
      out.push_back(fmt::format("~ opset {}: {} -> {}", domain.empty() ? "ai.onnx" : domain, version, found == b.opsets.end() ? "none" : std::to_string(found->second)));
    }
  }
  compare_ends(a, b, a.inputs, b.inputs, "input", out);
  compare_ends(a, b, a.outputs, b.outputs, "output", out);
  const auto left = nodes_by_name(a), right = nodes_by_name(b);
  for (const auto& [name, n] : left) {
    const auto found = right.find(name);
    if (found == right.end()) {
      out.push_back(fmt::format("- node {} {}", n->op_type, name));
      continue;
    }
    const Node& m = *found->second;
    if (n->op_type != m.op_type) out.push_back(fmt::format("~ node {}: {} -> {}", name, n->op_type, m.op_type));
    const std::string before = operands(a, n->inputs), after = operands(b, m.inputs);
    if (before != after) out.push_back(fmt::format("~ node {}: inputs {} -> {}", name, before, after));
  }
  for (const auto& [name, n] : right) {
    if (!left.count(name)) out.push_back(fmt::format("+ node {} {}", n->op_type, name));
  }
  const auto old_weights = weights_by_name(a), new_weights = weights_by_name(b);
  for (const auto& [name, v] : old_weights) {
    const auto found = new_weights.find(name);
    if (found == new_weights.end()) {
      out.push_back(cat("- weight ", name, " ", v->data->shape()));
    } else if (const std::string text = compare_content(*v->data, *found->second->data); !text.empty()) {
      out.push_back("~ weight " + name + ": " + text);
    }
  }
  for (const auto& [name, v] : new_weights) {
    if (!old_weights.count(name)) out.push_back(cat("+ weight ", name, " ", v->data->shape()));
  }
  return out;
}

}  // namespace eng::tools
