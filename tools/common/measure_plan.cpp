// See measure_plan.h.
#include "tools/common/measure_plan.h"

#include <algorithm>
#include <map>

#include "engine/report/chrome_trace.h"

namespace eng::tools {
namespace {

// What a label quotes, the node's name or its first output's: "Conv 'stem/conv1'" -> stem/conv1.
std::string quoted(const std::string& label) {
  const size_t end = label.rfind('\''), begin = end == std::string::npos || end == 0 ? std::string::npos : label.find('\'');
  return begin == std::string::npos || begin >= end ? "" : label.substr(begin + 1, end - begin - 1);
}

}  // namespace

Status measure_plan(Prepared& p, double learning_rate, Plan& plan) {
  Batch batch;
  p.training_pipeline->begin_epoch(0);
  ENG_ASSIGN(const bool any, p.training_pipeline->next(batch));
  if (!any) return {};
  const std::vector<std::shared_ptr<Device>>& devices = p.fleet->replicas[0].lanes[0];
  std::vector<TraceRow> rows;
  for (const auto& device : devices) rows.push_back({device->name(), device});
  StepTrace trace(std::move(rows));
  StepOutcome outcome;
  ENG_TRY(trace.start());
  const Status run = p.steps->train(batch, learning_rate, false, outcome);
  ENG_TRY(trace.stop());
  ENG_TRY(run);

  std::map<std::pair<std::string, std::string>, TraceSpan> first;  // by operator and quoted name: of the first shard
  int64_t start = INT64_MAX;
  for (const StepTrace::Row& row : trace.rows())
    for (const TraceSpan& span : row.spans) {
      if (span.kind != TraceSpan::Kind::kKernel) continue;
      start = std::min(start, span.start_ns);
      first.try_emplace({span.kernel.op, quoted(span.kernel.node)}, span);
    }
  for (PlanNode& n : plan.nodes) {
    const auto it = first.find({n.op_type, n.name.empty() ? n.output : n.name});
    if (it == first.end()) continue;
    n.measured = Span{static_cast<double>(it->second.start_ns - start) * 1e-9, static_cast<double>(it->second.end_ns - start) * 1e-9};
  }
  if (!p.fleet->single()) return {};
  ENG_ASSIGN(const CompiledStep* c, p.steps->training(batch.size));
  for (size_t d = 0; d < devices.size() && d < plan.memory.size(); ++d) plan.memory[d].measured_peak = c->program->memory(d).total();
  return {};
}

}  // namespace eng::tools
