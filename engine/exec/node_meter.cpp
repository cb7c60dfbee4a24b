// See node_meter.h.
#include "engine/exec/node_meter.h"

#include <algorithm>
#include <chrono>

#include "graph/ops/op.h"

namespace eng {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTrialSeconds = 2e-3;      // one trial is repeated for at least this long
constexpr int kTrials = 5, kLongTrials = 2;  // of which the median counts
constexpr double kLong = 30e-3;             // a node that takes longer is tried less often
constexpr uint64_t kRotated = uint64_t{64} << 20;  // bytes over which weights rotate
constexpr size_t kMostSets = 8;

uint64_t bytes_of(const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); }
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One device's kernel with its operands.
struct Bench {
  std::shared_ptr<Device> device;
  std::optional<DeviceKernel> kernel;
  std::vector<DeviceBuffer> memory;
  std::vector<std::vector<const void*>> inputs;  // [set][input]
  std::vector<std::vector<void*>> outputs;
  void* workspace = nullptr;
  size_t next = 0;

  Status prepare(const Graph& graph, const Node& node);
  Result<void*> room(uint64_t bytes);
  Status enqueue(int runs);
};

Result<void*> Bench::room(uint64_t bytes) {
  ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device, std::max<uint64_t>(bytes, 1)));
  ENG_TRY(device->fill_zero(b.data(), b.bytes()));
  memory.push_back(std::move(b));
  return memory.back().data();
}

Status Bench::prepare(const Graph& graph, const Node& node) {
  ENG_ASSIGN(DeviceKernel made, DeviceKernel::create(device, graph, node));
  kernel = std::move(made);
  auto is_weight = [&](size_t i) {
    const Role role = graph.value(node.inputs[i]).role;
    return role == Role::kParameter || role == Role::kState;
  };
  uint64_t weights = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue && is_weight(i)) weights += bytes_of(graph.value(node.inputs[i]));
  const size_t sets = weights == 0 ? 1 : std::clamp<size_t>(kRotated / weights, 1, kMostSets);
  inputs.assign(sets, {});
  outputs.assign(sets, {});
  for (size_t s = 0; s < sets; ++s) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      void* at = nullptr;
      if (node.inputs[i] != kNoValue) {
        if (s > 0 && !is_weight(i)) at = const_cast<void*>(inputs[0][i]);
        else { ENG_ASSIGN(at, room(bytes_of(graph.value(node.inputs[i])))); }
      }
      inputs[s].push_back(at);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      void* at = nullptr;
      if (node.outputs[o] != kNoValue) {
        const uint64_t bytes = bytes_of(graph.value(node.outputs[o]));
        for (const eb_alias& a : kernel->aliases()) {  // a view's bytes are not moved; what may be made in place is, as in a step
          const size_t from = static_cast<size_t>(a.input);
          if (static_cast<size_t>(a.output) != o || from >= node.inputs.size() || node.inputs[from] == kNoValue) continue;
          if (bytes_of(graph.value(node.inputs[from])) == bytes) at = const_cast<void*>(inputs[s][from]);
        }
        if (!at && s > 0) at = outputs[0][o];
        if (!at) { ENG_ASSIGN(at, room(bytes)); }
      }
      outputs[s].push_back(at);
    }
  }
  if (kernel->workspace()) { ENG_ASSIGN(workspace, room(kernel->workspace())); }
  return device->synchronize();
}

Status Bench::enqueue(int runs) {
  for (int r = 0; r < runs; ++r, next = (next + 1) % inputs.size()) ENG_TRY(kernel->run(inputs[next].data(), outputs[next].data(), workspace));
  return {};
}

// Seconds a run of benches[0]; the others do half as many again, so that they are busy until it ends.
Result<double> trial(std::vector<Bench>& benches, int runs) {
  for (size_t b = 1; b < benches.size(); ++b) ENG_TRY(benches[b].enqueue(runs + (runs + 1) / 2));
  const auto start = Clock::now();
  ENG_TRY(benches[0].enqueue(runs));
  ENG_TRY(benches[0].device->synchronize());
  const double seconds = since(start) / runs;
  for (size_t b = 1; b < benches.size(); ++b) ENG_TRY(benches[b].device->synchronize());
  return seconds;
}

}  // namespace

Result<NodeTime> time_node(const std::vector<std::shared_ptr<Device>>& lanes, const Graph& graph, const Node& node) {
  std::vector<Bench> benches(lanes.size());
  for (size_t b = 0; b < lanes.size(); ++b) {
    benches[b].device = lanes[b];
    ENG_TRY(benches[b].prepare(graph, node));
  }
  ENG_TRY(trial(benches, 1).status());  // first touch of memory, kernels' own tables
  ENG_ASSIGN(const double once, trial(benches, 1));
  const int runs = static_cast<int>(std::clamp(kTrialSeconds / std::max(once, 1e-7), 1.0, 200.0));
  std::vector<double> seconds;
  for (int t = 0; t < (once > kLong ? kLongTrials : kTrials); ++t) {
    ENG_ASSIGN(const double s, trial(benches, runs));
    seconds.push_back(s);
  }
  if (once > kLong) seconds.push_back(once);
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return NodeTime{seconds[seconds.size() / 2], benches[0].kernel->workspace()};
}

}  // namespace eng
