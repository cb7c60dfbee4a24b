// See step_meter.h.
#include "engine/exec/step_meter.h"

#include <algorithm>
#include <random>

#include "engine/exec/program.h"
#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr int kFewestRounds = 2, kMostRounds = 15;
constexpr double kEnoughSeconds = 4;  // of timed steps
constexpr int64_t kMostGapNs = 20000;  // between two kernels; more is a stream that was waiting for work

struct Lane {
  std::shared_ptr<Device> device;
  std::unique_ptr<Program> program;
};

Status feed(Program& program, const Graph& step) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (ValueId v : step.inputs) {
    const Value& value = step.value(v);
    Tensor t(value.dtype, value.shape);
    if (is_floating(value.dtype) && !value.shape.empty())
      for (int64_t i = 0; i < t.element_count(); ++i) t.set(i, uniform(random));
    ENG_TRY(program.feed(v, t));
    ENG_TRY(program.synchronize());
  }
  return {};
}

// From the end of the kernel before to its own end: what launching it takes is counted too.
std::vector<double> seconds_of(const std::vector<TraceSpan>& spans) {
  std::vector<double> out;
  int64_t before = -1;
  for (const TraceSpan& s : spans) {
    if (s.kind == TraceSpan::Kind::kKernel) {
      const int64_t gap = before < 0 ? 0 : std::clamp<int64_t>(s.start_ns - before, 0, kMostGapNs);
      out.push_back(static_cast<double>(s.end_ns - s.start_ns + gap) * 1e-9);
    }
    before = s.end_ns;
  }
  return out;
}

}  // namespace

Result<StepTimes> time_step(const std::vector<std::shared_ptr<Device>>& device, const Graph& step) {
  std::vector<Lane> lanes;
  for (const auto& d : device) {
    ENG_ASSIGN(auto program, Program::compile(step, d, std::make_shared<StateStore>(d), step.outputs));
    ENG_TRY(feed(*program, step));
    ENG_TRY(program->run());
    lanes.push_back({d, std::move(program)});
  }
  for (Lane& lane : lanes) ENG_TRY(lane.program->synchronize());

  StepTimes out;
  out.graph = lanes[0].program->graph();
  for (NodeId n : out.graph.live_nodes()) {
    const OpDef* op = find_op(out.graph.node(n).domain, out.graph.node(n).op_type);
    if (!op || !op->by_executor) out.nodes.push_back(n);
  }
  std::vector<std::vector<double>> rounds(out.nodes.size());
  double total = 0;
  for (int r = 0; r < kMostRounds && (r < kFewestRounds || total < kEnoughSeconds); ++r) {
    ENG_TRY(lanes[0].device->start_trace(2 * out.nodes.size() + 64));
    for (size_t l = 1; l < lanes.size(); ++l)
      for (int twice = 0; twice < 2; ++twice) ENG_TRY(lanes[l].program->run());
    ENG_TRY(lanes[0].program->run());
    ENG_ASSIGN(const std::vector<TraceSpan> spans, lanes[0].device->stop_trace());
    for (size_t l = 1; l < lanes.size(); ++l) ENG_TRY(lanes[l].program->synchronize());
    const std::vector<double> seconds = seconds_of(spans);
    if (seconds.size() != out.nodes.size()) return internal_error("a step of ", out.nodes.size(), " kernels ran ", seconds.size());
    for (size_t i = 0; i < seconds.size(); ++i) {
      rounds[i].push_back(seconds[i]);
      total += seconds[i];
    }
  }
  std::vector<uint64_t> workspaces;
  for (const KernelRow& row : lanes[0].program->kernels())
    if (row.implementation != "executor") workspaces.push_back(row.workspace);
  for (std::vector<double>& s : rounds) {
    const size_t quarter = (s.size() - 1) / 4;  // what it takes where nothing disturbs it, and not a lucky once
    std::nth_element(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(quarter), s.end());
    out.times.push_back({s[quarter], workspaces[out.times.size()]});
  }
  return out;
}

}  // namespace eng
