// Links and overheads of real devices, see costs.h. Every figure is the best of a few trials of what a Program does: whatever disturbs makes
// them longer.
#include <algorithm>
#include <chrono>

#include "engine/exec/costs.h"
#include "engine/exec/program.h"

namespace eng {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTrials = 9;
constexpr uint64_t kCopied = uint64_t{8} << 20;

template <class F>
Result<double> best_of(F&& seconds_of_one) {
  double best = 0;
  for (int t = 0; t <= kTrials; ++t) {
    ENG_ASSIGN(const double s, seconds_of_one());
    if (t == 1 || (t > 1 && s < best)) best = s;  // the first warms up
  }
  return best;
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// From "recorded there" to "goes on here": half a round trip between the two streams.
Result<double> event_seconds(const std::shared_ptr<Device>& a, const std::shared_ptr<Device>& b) {
  constexpr int kRounds = 50;
  ENG_ASSIGN(auto there, Event::create(a));
  ENG_ASSIGN(auto back, Event::create(b));
  return best_of([&]() -> Result<double> {
    const auto start = Clock::now();
    for (int r = 0; r < kRounds; ++r) {
      ENG_TRY(a->record(*there));
      ENG_TRY(b->wait(*there));
      ENG_TRY(b->record(*back));
      ENG_TRY(a->wait(*back));
    }
    ENG_TRY(a->synchronize());
    ENG_TRY(b->synchronize());
    return since(start) / (2 * kRounds);
  });
}

Result<double> copy_seconds(const std::shared_ptr<Device>& device, void* to, const void* from) {
  return best_of([&]() -> Result<double> {
    const auto start = Clock::now();
    ENG_TRY(device->copy_on_device(to, from, kCopied));
    ENG_TRY(device->synchronize());
    return since(start);
  });
}

// Out of one device's memory into host memory, and from there into the other's.
Result<double> staged_seconds(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to, uint64_t bytes) {
  ENG_ASSIGN(auto source, DeviceBuffer::allocate(from, bytes));
  ENG_ASSIGN(auto host, HostBuffer::allocate(from, bytes));
  ENG_ASSIGN(auto target, DeviceBuffer::allocate(to, bytes));
  ENG_TRY(from->fill_zero(source.data(), bytes));
  return best_of([&]() -> Result<double> {
    const auto start = Clock::now();
    ENG_TRY(from->copy_to_host(host.data(), source.data(), bytes));
    ENG_TRY(from->synchronize());
    ENG_TRY(to->copy_to_device(target.data(), host.data(), bytes));
    ENG_TRY(to->synchronize());
    return since(start);
  });
}

Result<LinkSpec> measure_link(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to) {
  LinkSpec link;
  if (to->sees(*from)) {
    // The reader's kernels fetch the value from where it lies. That costs what reading costs anyway, so no time by the byte is added.
    ENG_ASSIGN(link.latency, event_seconds(from, to));
    return link;
  }
  ENG_ASSIGN(link.latency, staged_seconds(from, to, 64));
  ENG_ASSIGN(const double big, staged_seconds(from, to, kCopied));
  link.bytes_per_second = static_cast<double>(kCopied) / std::max(big - link.latency, 1e-9);
  return link;
}

// A product of two 512 x 512 matrices as a rate, for nodes whose time is not known.
Result<double> flops_of(const std::shared_ptr<Device>& device, const CostOptions& options) {
  Graph g;
  const ValueId a = g.add_value("a", DType::kFloat32, {512, 512}), b = g.add_value("b", DType::kFloat32, {512, 512});
  for (ValueId v : {a, b}) {
    g.value(v).role = Role::kInput;
    g.inputs.push_back(v);
  }
  const NodeId product = g.add_node("", "MatMul", {a, b}, 1, {}, "product");
  g.outputs = g.node(product).outputs;
  Value& y = g.value(g.outputs[0]);
  y.dtype = DType::kFloat32;
  y.shape = {512, 512};
  y.has_shape = true;
  ENG_ASSIGN(const NodeCosts costs, measured_costs({device}, {&g}, options));
  const NodeCost c = costs(g, product, 0);
  return c.refusal.empty() && c.seconds > 0 ? 2.0 * 512 * 512 * 512 / c.seconds : 0.0;
}

Result<double> cached(CostCache& cache, const std::string& key, const std::function<Result<double>()>& measure) {
  if (const double* known = cache.find(key)) return *known;
  ENG_ASSIGN(const double value, measure());
  cache.put(key, value);
  return value;
}

void keep(CostCache& cache, const CostOptions& options) {
  if (const Status s = cache.save(); !s.ok() && options.warn) options.warn(cat("measured costs are not kept: ", s.message()));
}

}  // namespace

Result<Machine> measured_machine(const std::vector<std::shared_ptr<Device>>& devices, const CostOptions& options) {
  Machine machine;
  for (const auto& d : devices) {
    CostCache cache = open_cost_cache(options, kind_of(*d) + ", rates");
    DeviceSpec spec{.name = d->name()};
    ENG_ASSIGN(spec.flops_per_second, cached(cache, "flops", [&] { return flops_of(d, options); }));
    ENG_ASSIGN(spec.bytes_per_second, cached(cache, "bytes", [&]() -> Result<double> {
      ENG_ASSIGN(auto from, DeviceBuffer::allocate(d, kCopied));
      ENG_ASSIGN(auto to, DeviceBuffer::allocate(d, kCopied));
      ENG_TRY(d->fill_zero(from.data(), kCopied));
      ENG_ASSIGN(const double seconds, copy_seconds(d, to.data(), from.data()));
      return 2.0 * static_cast<double>(kCopied) / seconds;
    }));
    keep(cache, options);
    machine.devices.push_back(std::move(spec));
  }
  machine.connect_all({});
  for (size_t a = 0; a < devices.size(); ++a)
    for (size_t b = 0; b < devices.size(); ++b) {
      if (a == b) continue;
      CostCache cache = open_cost_cache(options, kind_of(*devices[a]) + " to " + kind_of(*devices[b]));
      LinkSpec& link = machine.link(static_cast<int>(a), static_cast<int>(b));
      if (const double* latency = cache.find("latency"); latency && cache.find("bytes per second")) {
        link = {*latency, *cache.find("bytes per second")};
        continue;
      }
      ENG_ASSIGN(link, measure_link(devices[a], devices[b]));
      cache.put("latency", link.latency);
      cache.put("bytes per second", link.bytes_per_second);
      keep(cache, options);
    }
  return machine;
}

Result<double> measured_overhead(const std::vector<std::shared_ptr<Device>>& devices, const CostOptions& options) {
  std::string what = cat("overhead of ", devices.size(), " devices");
  for (const auto& d : devices) what += ", " + kind_of(*d);
  CostCache cache = open_cost_cache(options, what);
  ENG_ASSIGN(const double seconds, cached(cache, "step", [&]() -> Result<double> {
    Graph g;  // a node a device, each with its own input
    std::vector<ValueId> fetched;
    for (size_t d = 0; d < devices.size(); ++d) {
      const ValueId x = g.add_value(cat("x", d), DType::kFloat32, {1});
      g.value(x).role = Role::kInput;
      g.inputs.push_back(x);
      const NodeId n = g.add_node("", "Neg", {x}, 1, {}, cat("y", d));
      g.node(n).place = static_cast<int32_t>(d);
      Value& y = g.value(g.node(n).outputs[0]);
      y.dtype = DType::kFloat32;
      y.shape = {1};
      y.has_shape = true;
      fetched.push_back(g.node(n).outputs[0]);
    }
    g.outputs = fetched;
    const std::vector<ValueId> inputs = g.inputs;
    ENG_ASSIGN(auto program, Program::compile(std::move(g), devices, std::make_shared<StateStore>(devices[0]), fetched));
    const Tensor one = Tensor::scalar(DType::kFloat32, 1).reshaped({1});
    Tensor result;
    return best_of([&]() -> Result<double> {
      const auto start = Clock::now();
      for (ValueId x : inputs) ENG_TRY(program->feed(x, one));
      ENG_TRY(program->run());
      ENG_TRY(program->fetch(fetched[0], result));
      return since(start);
    });
  }));
  keep(cache, options);
  return seconds;
}

}  // namespace eng
