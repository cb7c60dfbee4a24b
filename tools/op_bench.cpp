// op-bench: where a training step spends its time and memory. Compiles the step of a model for one batch size, feeds random
// pictures and labels, times whole steps, then every kernel on its own (waiting after each).
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "graph/surgery/training_step.h"
#include "tools/common/model_source.h"
#include "tools/common/option_table.h"

namespace eng::tools {
namespace {

struct BenchOptions {
  std::string model, size, optimizer = "sgd";
  int64_t batch = 8, steps = 5, rows = 25, threads = 0;
  bool evaluate = false, kernels = false;
};

OptionTable bench_table(BenchOptions& o) {
  OptionTable t;
  t.command = "op-bench";
  t.usage = "op-bench MODEL.onnx [options]";
  t.about = "Times a training step of a model on random data, as a whole and kernel by kernel. Results on stdout.";
  t.groups = {{"Words", {{.name = "model", .target = &o.model, .value = "MODEL.onnx", .help = "the model"}}},
              {"Options",
               {{.name = "--batch", .target = &o.batch, .value = "N", .help = "samples a step", .low = 1, .high = 1 << 20},
                {.name = "--size", .target = &o.size, .value = "HxW", .help = "picture size in pixels where the model leaves it open", .default_text = "from the model"},
                {.name = "--steps", .target = &o.steps, .value = "N", .help = "steps to time after two for warming up", .low = 1, .high = 1 << 20},
                {.name = "--threads", .target = &o.threads, .value = "N", .help = "compute threads", .default_text = "all", .low = 0, .high = 4096},
                {.name = "--optimizer", .target = &o.optimizer, .value = "NAME", .help = "sgd (with momentum), rmsprop, adam, adamw", .choices = {"sgd", "rmsprop", "adam", "adamw"}},
                {.name = "--evaluate", .target = &o.evaluate, .help = "the evaluation step instead"},
                {.name = "--kernels", .target = &o.kernels, .help = "time every kernel too"},
                {.name = "--rows", .target = &o.rows, .value = "N", .help = "slowest kernels to list", .low = 0, .high = 100000}}}};
  return t;
}

Tensor random_content(const Value& v, uint64_t& state, int64_t classes) {
  Tensor t(v.dtype, v.shape);
  for (int64_t i = 0; i < t.element_count(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    t.set(i, is_floating(v.dtype) ? u : static_cast<double>(static_cast<int64_t>(u * static_cast<double>(std::max<int64_t>(classes, 1)))));
  }
  return t;
}

void print_memory(const MemoryReport& m) {
  const double mb = 1e-6;
  std::printf("memory: arena %.1f MB (least possible %.1f, largest scratch space %.1f, without sharing %.1f), state %.1f, inputs %.1f, constants %.1f\n",
              static_cast<double>(m.arena) * mb, static_cast<double>(m.lower_bound) * mb, static_cast<double>(m.workspace) * mb,
              static_cast<double>(m.activations) * mb, static_cast<double>(m.state) * mb, static_cast<double>(m.inputs) * mb, static_cast<double>(m.constants) * mb);
  std::printf("most is alive at %s\n", m.peak_node.c_str());
}

Status print_kernels(Program& program, int64_t rows) {
  ENG_ASSIGN(std::vector<NodeTiming> timings, program.profile(3));
  struct Sum {
    double seconds = 0, flops = 0;
    int count = 0;
  };
  std::map<std::string, Sum> sums;
  double total = 0;
  for (const NodeTiming& t : timings) {
    Sum& s = sums[t.kernel.op + " (" + t.kernel.implementation + ")"];
    s.seconds += t.seconds;
    s.flops += t.flops;
    ++s.count;
    total += t.seconds;
  }
  std::vector<std::pair<std::string, Sum>> by_time(sums.begin(), sums.end());
  std::sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  std::printf("\n%-44s %6s %10s %6s %10s\n", "operator (implementation)", "nodes", "ms", "%", "GFLOP/s");
  for (const auto& [name, s] : by_time)
    std::printf("%-44s %6d %10.2f %6.1f %10.1f\n", name.c_str(), s.count, s.seconds * 1e3, 100 * s.seconds / total, s.flops / s.seconds * 1e-9);
  std::printf("%-44s %6zu %10.2f\n\n", "all", timings.size(), total * 1e3);
  std::stable_sort(timings.begin(), timings.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (size_t i = 0; i < timings.size() && i < static_cast<size_t>(rows); ++i)
    std::printf("%10.3f ms %8.1f GFLOP/s  %s (%s)\n", timings[i].seconds * 1e3, timings[i].flops / timings[i].seconds * 1e-9, timings[i].kernel.node.c_str(),
                timings[i].kernel.implementation.c_str());
  return {};
}

Status bench(const BenchOptions& o) {
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const Console console(1);
  auto start = Clock::now();
  ENG_ASSIGN(Graph model, read_model(o.model, console));
  std::printf("read in %.2f s\n", since(start));
  DeviceOptions device_options;
  device_options.threads = static_cast<int>(o.threads);
  ENG_ASSIGN(std::shared_ptr<Device> device, Device::open("cpu:0", device_options));
  ShapeBinding binding;
  binding.batch = o.batch;
  if (!o.size.empty()) {
    long height = 0, width = 0;
    if (std::sscanf(o.size.c_str(), "%ldx%ld", &height, &width) != 2) return usage_error("--size '", o.size, "': wanted HxW, such as 299x299");
    binding.shapes[model.value(model.inputs[0]).name] = {o.batch, -1, height, width};
  }
  StepOptions options;
  options.optimizer.kind = o.optimizer;
  options.optimizer.momentum = o.optimizer == "sgd" ? 0.9 : 0;
  start = Clock::now();
  ENG_ASSIGN(Step step, o.evaluate ? build_evaluation_step(model, binding, options, evaluator_on(device)) : build_training_step(model, binding, options, evaluator_on(device)));
  std::printf("step built in %.2f s\n", since(start));
  start = Clock::now();
  auto store = std::make_shared<StateStore>(device);
  ENG_ASSIGN(auto program, Program::compile(step.graph, device, store, {step.loss}));
  std::printf("compiled in %.2f s: %zu kernels\n", since(start), program->kernels().size());
  print_memory(program->memory());

  uint64_t seed = 1;
  std::vector<std::pair<ValueId, Tensor>> feeds;
  for (ValueId v : step.inputs) feeds.emplace_back(v, random_content(step.graph.value(v), seed, 2));
  feeds.emplace_back(step.labels, random_content(step.graph.value(step.labels), seed, step.classes));
  if (step.learning_rate != kNoValue) feeds.emplace_back(step.learning_rate, Tensor::scalar(DType::kFloat32, 1e-4));
  Tensor loss;
  double best = 1e30;
  for (int64_t i = -2; i < o.steps; ++i) {
    start = Clock::now();
    for (const auto& [v, t] : feeds) ENG_TRY(program->feed(v, t));
    ENG_TRY(program->run());
    ENG_TRY(program->fetch(step.loss, loss));
    if (i >= 0) best = std::min(best, since(start));
    std::printf("step %lld: loss %.6f, %.1f ms\n", static_cast<long long>(i + 3), loss.at(0), since(start) * 1e3);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("best %.1f ms a step, %.3f samples/s; peak memory of the process %.0f MB\n", best * 1e3, static_cast<double>(o.batch) / best,
              static_cast<double>(usage.ru_maxrss) / 1024);
  return o.kernels ? print_kernels(*program, o.rows) : Status();
}

int main_of(const std::vector<std::string>& words) {
  BenchOptions options;
  const OptionTable table = bench_table(options);
  const auto line = parse_options(table, words);
  const Console console(1);
  if (!line.ok()) return console.finish(line.status());
  if (line->help) {
    BenchOptions defaults;
    std::fputs(help_text(bench_table(defaults)).c_str(), stdout);
    return 0;
  }
  return console.finish(bench(options));
}

}  // namespace
}  // namespace eng::tools

int main(int argc, char** argv) { return eng::tools::main_of({argv + 1, argv + argc}); }
