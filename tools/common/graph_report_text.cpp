// Text and JSON of the reports in graph_report.h.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/common/graph_report.h"

namespace eng::tools {
namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& j) { return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"; }

std::string shape_text(const Shape& shape) { return cat(shape); }

}  // namespace

std::string bytes_text(uint64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (b >= 1 << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  return b >= 1 << 20 ? fmt::format("{:.1f} MiB", b / (1 << 20)) : fmt::format("{:.1f} KiB", b / 1024);
}

std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  for (int64_t i = static_cast<int64_t>(text.size()) - 3; i > 0; i -= 3) text.insert(static_cast<size_t>(i), ",");
  return text;
}

std::string flops_text(double flops) {
  if (flops >= 1e9) return fmt::format("{:.2f} GFLOP", flops * 1e-9);
  return flops >= 1e6 ? fmt::format("{:.2f} MFLOP", flops * 1e-6) : fmt::format("{:.0f} FLOP", flops);
}

std::string as_text(const InfoReport& r) {
  std::string t = fmt::format("model       {}\ngraph       {}, IR {}", r.path, r.name, r.ir_version);
  for (const auto& [domain, version] : r.opsets) t += fmt::format(", opset {}{}", domain.empty() ? "" : domain + " ", version);
  t += "\n";
  if (!r.producer.empty()) t += "producer    " + r.producer + "\n";
  for (const std::string& i : r.inputs) t += "input       " + i + "\n";
  for (const std::string& o : r.outputs) t += "output      " + o + "\n";
  t += fmt::format("parameters  {} in {} tensors\n", count_text(r.parameters), r.parameter_tensors);
  if (r.state_tensors) t += fmt::format("statistics  {} in {} tensors\n", count_text(r.state_values), r.state_tensors);
  std::vector<std::pair<int64_t, std::string>> ops;
  for (const auto& [name, n] : r.operators) ops.emplace_back(-n, name);
  std::sort(ops.begin(), ops.end());
  t += fmt::format("nodes       {}:", r.nodes);
  for (const auto& [n, name] : ops) t += fmt::format(" {} {}", -n, name) + (name == ops.back().second ? "" : ",");
  t += "\n";
  if (r.forward_flops > 0) t += "forward     " + flops_text(r.forward_flops) + " a sample (a multiply-add counts 2)\n";
  if (r.training_flops > 0) t += "training    " + flops_text(r.training_flops) + " a sample\n";
  if (!r.flops_problem.empty()) t += "not costed  " + r.flops_problem + "\n";
  for (const MemoryRow& m : r.memory) {
    if (!m.problem.empty()) {
      t += fmt::format("batch {:<5} cannot be compiled: {}\n", m.batch, m.problem);
      continue;
    }
    t += fmt::format("batch {:<5} {} to train (within a step {}, of it workspace {}; weights and optimiser {}; inputs {})\n", m.batch, bytes_text(m.total),
                     bytes_text(m.arena), bytes_text(m.workspace), bytes_text(m.state), bytes_text(m.inputs));
  }
  for (const auto& [key, value] : r.metadata) t += fmt::format("metadata    {} = {}\n", key, value.size() > 100 ? value.substr(0, 100) + "..." : value);
  return t;
}

std::string as_json(const InfoReport& r) {
  ordered_json j{{"model", r.path}, {"graph", r.name}, {"ir_version", r.ir_version}, {"opsets", r.opsets}, {"producer", r.producer},
                 {"inputs", r.inputs}, {"outputs", r.outputs}, {"parameters", r.parameters}, {"parameter_tensors", r.parameter_tensors},
                 {"statistics", r.state_values}, {"nodes", r.nodes}, {"operators", r.operators}, {"forward_flops", r.forward_flops},
                 {"training_flops", r.training_flops}, {"not_costed", r.flops_problem}, {"metadata", r.metadata}, {"memory", ordered_json::array()}};
  for (const MemoryRow& m : r.memory) {
    j["memory"].push_back({{"batch", m.batch}, {"total", m.total}, {"arena", m.arena}, {"workspace", m.workspace}, {"state", m.state}, {"inputs", m.inputs},
                           {"constants", m.constants}, {"activations", m.activations}, {"peak_node", m.peak_node}, {"problem", m.problem}});
  }
  return dump(j);
}

std::string as_text(const TrainableReport& r, bool all_weights) {
  std::string t;
  for (const auto& o : r.obstacles) t += fmt::format("blocks  {}: {}\n        remedy: {}\n", o.node, o.reason, o.remedy);
  if (!r.problem.empty()) t += "problem " + r.problem + "\n";
  const bool fine = r.obstacles.empty() && r.problem.empty();
  if (fine) t += fmt::format("output '{}' can be trained: {} weights in {} of {} tensors\n{}\n", r.target, count_text(r.trained_values), r.trained, r.weights.size(), r.loss);
  else t += fmt::format("output '{}' cannot be trained as it is: {} obstacle{}\n", r.target, r.obstacles.size() + !r.problem.empty(), r.obstacles.size() + !r.problem.empty() == 1 ? "" : "s");
  for (const auto& w : r.weights) {
    if (!w.why.empty() && (fine || all_weights)) t += fmt::format("not trained {} {}: {}\n", w.name, shape_text(w.shape), w.why);
    if (w.why.empty() && all_weights) t += fmt::format("trained     {} {}\n", w.name, shape_text(w.shape));
  }
  return t;
}

std::string as_json(const TrainableReport& r) {
  ordered_json j{{"target", r.target}, {"trainable", r.obstacles.empty() && r.problem.empty()}, {"loss", r.loss}, {"problem", r.problem},
                 {"trained_tensors", r.trained}, {"trained_values", r.trained_values}, {"obstacles", ordered_json::array()}, {"weights", ordered_json::array()}};
  for (const auto& o : r.obstacles) j["obstacles"].push_back({{"node", o.node}, {"reason", o.reason}, {"remedy", o.remedy}});
  for (const auto& w : r.weights) j["weights"].push_back({{"name", w.name}, {"shape", w.shape}, {"trained", w.why.empty()}, {"why", w.why}});
  return dump(j);
}

}  // namespace eng::tools
