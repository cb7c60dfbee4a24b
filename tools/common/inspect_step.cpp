// See inspect_step.h. Everything works on the first batch of the training data.
#include "tools/common/inspect_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "engine/distributed/text_of_rank.h"
#include "engine/io/file.h"
#include "engine/report/chrome_trace.h"

namespace eng::tools {
namespace {

double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Status feed(CompiledStep& c, const Batch& batch, const Tensor& rate) {
  ENG_TRY(c.feed(batch));
  return c.program->feed(c.step.learning_rate, rate);
}

Result<double> loss_of(CompiledStep& c, const Batch& batch, const Tensor& rate) {
  ENG_TRY(feed(c, batch, rate));
  ENG_TRY(c.program->run());
  Tensor loss;
  ENG_TRY(c.program->fetch(c.step.loss, loss));
  return loss.at(0);
}

void print_memory(const CompiledStep& c, int64_t batch) {
  const MemoryReport& m = c.program->memory();
  std::printf("training step, batch %lld: %zu kernels, %.1f MiB (arena %.1f, of it workspace %.1f; state %.1f; inputs %.1f; constants %.1f)\n",
              static_cast<long long>(batch), c.program->kernels().size(), mib(m.total()), mib(m.arena), mib(m.workspace), mib(m.state), mib(m.inputs), mib(m.constants));
  std::printf("values made in a step: %.1f MiB; most alive at once: %.1f MiB, at %s\n", mib(m.activations), mib(m.lower_bound), for_terminal(m.peak_node).c_str());
}

Status print_profile(CompiledStep& c, const Batch& batch, const Tensor& rate) {
  ENG_TRY(loss_of(c, batch, rate).status());
  ENG_TRY(feed(c, batch, rate));
  ENG_ASSIGN(std::vector<NodeTiming> rows, c.program->profile(3));
  double total = 0;
  for (const NodeTiming& r : rows) total += r.seconds;
  std::stable_sort(rows.begin(), rows.end(), [](const NodeTiming& a, const NodeTiming& b) { return a.seconds > b.seconds; });
  std::printf("%zu nodes, %.3f ms a step node by node; the slowest:\n", rows.size(), total * 1e3);
  for (size_t i = 0; i < rows.size() && i < 30; ++i) {
    const NodeTiming& r = rows[i];
    fmt::print("{:9.3f} ms {:5.1f} % {:8.1f} GFLOP/s  {:<28} {:<24} {}\n", r.seconds * 1e3, 100 * r.seconds / total,
               r.seconds > 0 ? r.flops / r.seconds * 1e-9 : 0, r.kernel.op, r.kernel.implementation, for_terminal(r.kernel.node));
  }
  return {};
}

// For each weight tensor w with gradient g: (loss(w + h d) - loss(w - h d)) / 2h against g.d, for the direction d = g/|g|. Rate 0 keeps the
// weights; states are put back before each run, so that dropout and running statistics are those of the first.
Status check_gradients(ModelSteps& steps, const Batch& batch) {
  steps.fetch_gradients(true);
  ENG_ASSIGN(CompiledStep * c, steps.training(batch.size));
  const Tensor rate = Tensor::scalar(DType::kFloat32, 0);
  ENG_ASSIGN(const auto start, steps.contents(batch.size));
  ENG_ASSIGN(const double loss, loss_of(*c, batch, rate));
  std::vector<Tensor> gradients(c->step.gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) ENG_TRY(c->program->fetch(c->step.gradients[i], gradients[i]));
  double worst = 0;
  std::string worst_name;
  fmt::print("loss {:.6g}\n{:<50} {:>13} {:>13} {:>10}\n", loss, "weight", "gradient", "difference", "error");
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = c->step.graph.value(c->step.parameters[i]).name;
    const Tensor& g = gradients[i];
    const Tensor& w = start.at(name);
    double norm = 0, size = 0;
    for (int64_t k = 0; k < g.element_count(); ++k) norm += g.at(k) * g.at(k), size += w.at(k) * w.at(k);
    norm = std::sqrt(norm), size = std::sqrt(size);
    if (norm < 1e-6) {
      fmt::print("{:<50} {:13.6g} {:>13} {:>10}\n", for_terminal(name), norm, "-", "too small");
      continue;
    }
    const double step = std::min(3e-3 * std::max(std::fabs(loss), 0.1) / norm, 1e-2 * std::max(size, 1e-2));
    double side[2];
    for (int s = 0; s < 2; ++s) {
      ENG_TRY(steps.restore(start));
      Tensor moved = w.clone();
      for (int64_t k = 0; k < g.element_count(); ++k) moved.set(k, w.at(k) + (s == 0 ? step : -step) * g.at(k) / norm);
      ENG_TRY(steps.store().set(name, moved));
      ENG_ASSIGN(side[s], loss_of(*c, batch, rate));
    }
    const double measured = (side[0] - side[1]) / (2 * step), error = std::fabs(measured - norm) / norm;
    if (error > worst) worst = error, worst_name = name;
    fmt::print("{:<50} {:13.6g} {:13.6g} {:10.2e}\n", for_terminal(name), norm, measured, error);
  }
  ENG_TRY(steps.restore(start));
  fmt::print("largest relative error: {:.2e}{}\n", worst, worst_name.empty() ? "" : " (" + for_terminal(worst_name) + ")");
  if (worst <= 0.05) return {};
  return internal_error("the gradient of ", worst_name, " differs from finite differences by ", worst,
                        " (float32: up to 0.05 is rounding, or kinks as of ReLU); a smaller --batch can tell");
}

// The pieces of all ranks' traces as one file of the first rank's.
Status write_trace(const StepTrace& trace, Ranks& ranks, const std::string& path) {
  std::string all;
  for (int r = 0; r < ranks.size(); ++r) {
    ENG_ASSIGN(const std::string text, text_of_rank(ranks, r, r == ranks.rank() ? trace.json() : ""));
    const size_t begin = text.find('[') + 1, end = text.rfind(']');
    if (r > 0) all += ",\n";
    all += r == 0 ? text.substr(0, end) : text.substr(begin, end - begin);
  }
  if (ranks.rank() > 0) return {};
  return write_file_atomic(path, all + "]}\n");
}

double milliseconds(const TraceSpan& s) { return static_cast<double>(s.end_ns - s.start_ns) * 1e-6; }

// What each stream of this process does in a step, and the kernels that take most of it, all streams together.
void print_trace(const StepTrace& trace) {
  struct Total {
    KernelTag kernel;
    double ms = 0;
    int count = 0;
  };
  std::map<std::string, Total> kernels;
  double all = 0;
  for (const StepTrace::Row& row : trace.rows()) {
    double ms[4] = {};  // by kind
    for (const TraceSpan& s : row.spans) {
      ms[static_cast<int>(s.kind)] += milliseconds(s);
      if (s.kind != TraceSpan::Kind::kKernel) continue;
      Total& t = kernels[s.kernel.node + "\n" + s.kernel.op + "\n" + s.kernel.implementation];
      t.kernel = s.kernel;
      t.ms += milliseconds(s);
      ++t.count;
      all += milliseconds(s);
    }
    const double step = row.spans.empty() ? 0 : static_cast<double>(row.spans.back().end_ns - row.spans.front().start_ns) * 1e-6;
    using Kind = TraceSpan::Kind;
    fmt::print("{:<16} {:9.3f} ms: kernels {:.3f}, copies and fills {:.3f}, waiting {:.3f}\n", row.name, step, ms[static_cast<int>(Kind::kKernel)],
               ms[static_cast<int>(Kind::kCopy)] + ms[static_cast<int>(Kind::kFill)], ms[static_cast<int>(Kind::kWait)]);
  }
  std::vector<Total> rows;
  for (const auto& [key, total] : kernels) rows.push_back(total);
  std::stable_sort(rows.begin(), rows.end(), [](const Total& a, const Total& b) { return a.ms > b.ms; });
  std::printf("%zu kernels, %.3f ms on all streams of this process; the slowest, with how often they ran:\n", rows.size(), all);
  for (size_t i = 0; i < rows.size() && i < 30; ++i)
    fmt::print("{:9.3f} ms {:5.1f} % {:>4} x  {:<28} {:<24} {}\n", rows[i].ms, 100 * rows[i].ms / all, rows[i].count, rows[i].kernel.op, rows[i].kernel.implementation,
               for_terminal(rows[i].kernel.node));
}

// A step after two others, with the times of everything that the streams and the ranks do.
Status trace_step(const TrainOptions& o, Prepared& p, const Batch& batch, const Console& console) {
  Fleet& fleet = *p.fleet;
  StepOutcome outcome;
  for (int i = 0; i < 2; ++i) ENG_TRY(p.steps->train(batch, o.lr, false, outcome));
  StepTrace trace(trace_rows(fleet), fleet.ranks->rank());
  fleet.trace = trace.sink();
  ENG_TRY(fleet.ranks->barrier());
  ENG_TRY(trace.start());
  const Status run = p.steps->train(batch, o.lr, false, outcome);
  const Status stopped = trace.stop();
  fleet.trace = nullptr;
  ENG_TRY(run);
  ENG_TRY(stopped);
  for (const std::string& note : trace.notes()) console.note(note);
  if (!fleet.single() && fleet.ranks->rank() == 0) print_trace(trace);
  if (fleet.ranks->rank() == 0) ENG_TRY(make_folder(o.out));
  ENG_TRY(write_trace(trace, *fleet.ranks, join_path(o.out, "trace.json")));
  console.note(cat("the trace of a step is in ", join_path(o.out, "trace.json"), ": open it in chrome://tracing or Perfetto"));
  return {};
}

}  // namespace

Status inspect_step(const TrainOptions& o, Prepared& p, const Console& console) {
  DataPipeline& data = *p.training_pipeline;
  data.begin_epoch(0);
  Batch batch;
  ENG_ASSIGN(const bool any, data.next(batch));
  if (!any) return invalid(o.data, ": no sample");
  console.note(cat(p.plan.parameters.size(), " weights would be trained; ", p.plan.loss_note));
  const bool single = p.fleet->single();
  if (o.dry_run && !single) {
    ENG_ASSIGN(const uint64_t bytes, p.steps->prepare(batch.size));
    std::printf("training step, batch %lld: %s; %.1f MiB on the fullest device\n", static_cast<long long>(batch.size), p.fleet->describe().c_str(), mib(bytes));
  }
  CompiledStep* c = nullptr;
  if (single || o.check_gradients) {
    ENG_ASSIGN(c, p.steps->training(batch.size));
  }
  if (o.dry_run && single) print_memory(*c, batch.size);
  if (o.profile) {
    if (single) ENG_TRY(print_profile(*c, batch, Tensor::scalar(DType::kFloat32, o.lr)));
    ENG_TRY(trace_step(o, p, batch, console));
  }
  if (o.check_gradients) ENG_TRY(check_gradients(*p.steps, batch));
  return {};
}

}  // namespace eng::tools
