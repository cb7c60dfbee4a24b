// See program.h. Compiling: passes, order, kernels, storages, arena, pointers. Running: the kernels in order, then the copies of
// those states that are not updated in place.
#include "engine/exec/program.h"

#include <algorithm>
#include <chrono>

#include "engine/exec/storage.h"
#include "engine/memory/arena.h"
#include "graph/ops/op.h"
#include "graph/passes/assign_layouts.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/schedule.h"

namespace eng {
namespace {

struct Step {
  NodeId node;
  DeviceKernel kernel;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;
};

struct Copy {
  void* to;
  const void* from;
  uint64_t bytes;
};

bool is_state(Role role) { return role == Role::kParameter || role == Role::kState; }

// A tensor's bytes as a channels-last value lies.
Tensor to_channels_last(const Tensor& t) {
  Tensor out(t.dtype(), t.shape());
  const Shape& shape = t.shape();
  const std::vector<int64_t> strides = channels_last_strides(shape);
  const size_t element = size_of(t.dtype());
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < t.element_count(); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < shape.size(); ++a) at += index[a] * strides[a];
    std::copy_n(t.bytes() + static_cast<size_t>(i) * element, element, out.mutable_bytes() + static_cast<size_t>(at) * element);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
  return out;
}

}  // namespace

struct Program::Impl {
  Graph graph;
  std::shared_ptr<Device> device;
  std::shared_ptr<StateStore> store;
  std::map<ValueId, ValueId> fetches;     // as asked for -> as it is after the passes
  std::vector<NodeId> order;
  std::vector<Step> steps;
  std::vector<Copy> copies;
  std::vector<KernelRow> rows;
  std::vector<DeviceBuffer> buffers;      // inputs and constants
  std::vector<Tensor> host_constants;     // constants that the device reads where they are
  DeviceBuffer arena;
  StoragePlan storage;
  std::vector<void*> pointers;            // per storage
  std::map<ValueId, bool> fed;            // needed inputs
  MemoryReport memory;

  void* pointer(ValueId v) const {
    if (v == kNoValue || storage.of[static_cast<size_t>(v)] < 0) return nullptr;
    return pointers[static_cast<size_t>(storage.of[static_cast<size_t>(v)])];
  }

  Status prepare(const std::vector<ValueId>& wanted, const ProgramOptions& options);
  Status create_kernels();
  Status plan_memory();
  Status place(Storage& s, void** pointer);
  Status place_constant(const Storage& s, void** pointer);
  void connect();
  Status check_fed() const;
};

// Roots, dead code, layouts and order. Fetched values that a node makes become the graph's outputs, so that a pass that moves
// content to another value (a reorder) says so there.
Status Program::Impl::prepare(const std::vector<ValueId>& wanted, const ProgramOptions& options) {
  std::vector<ValueId> asked;
  auto ask = [&](ValueId v) {
    if (graph.value(v).producer != kNoNode && std::find(asked.begin(), asked.end(), v) == asked.end()) asked.push_back(v);
  };
  for (ValueId v : wanted) {
    if (v < 0 || v >= graph.value_count()) return internal_error("value ", v, " is to be fetched but does not exist");
    ask(v);
    fetches[v] = v;
  }
  for (const auto& [state, next] : graph.updates) {
    if (!is_state(graph.value(state).role)) return internal_error("'", graph.value(state).name, "' is updated but is neither parameter nor state");
    if (is_state(graph.value(next).role)) return internal_error("'", graph.value(state).name, "' takes the content of a state; a node must make it");
  }
  graph.outputs = asked;
  if (options.keep_all) {
    ENG_TRY(dead_code(graph).status());
    for (NodeId n : graph.live_nodes())
      for (ValueId v : graph.node(n).outputs)
        if (v != kNoValue) ask(v);
    graph.outputs = asked;
  }
  ENG_TRY(dead_code(graph).status());
  if (options.assign_layouts && device->prefers_channels_last()) {
    auto takes = [this](const Graph& g, NodeId n) { return can_run(*device, g, g.node(n)).ok(); };
    ENG_TRY(assign_layouts(graph, takes).status());
  }
  for (size_t i = 0; i < asked.size(); ++i) fetches[asked[i]] = graph.outputs[i];
  ENG_ASSIGN(std::vector<NodeId> best, schedule(graph));
  graph.renumber(best);
  order = graph.live_nodes();
  return {};
}

Status Program::Impl::create_kernels() {
  std::string errors;
  int failed = 0;
  Code code = Code::kOk;
  steps.reserve(order.size());
  for (NodeId n : order) {
    auto kernel = DeviceKernel::create(device, graph, graph.node(n));
    if (!kernel.ok()) {
      if (code == Code::kOk) code = kernel.status().code();
      if (++failed <= 20) errors += (errors.empty() ? "" : "\n  ") + kernel.status().message();
      continue;
    }
    rows.push_back({graph.label(n), graph.node(n).op_type, kernel->implementation(), graph.node(n).phase});
    steps.push_back({n, std::move(*kernel), {}, {}, nullptr});
  }
  if (failed == 0) return {};
  return Status(code, failed == 1 ? errors : cat(failed, " nodes cannot run on ", device->name(), ":\n  ", errors, failed > 20 ? "\n  ..." : ""));
}

Status Program::Impl::place_constant(const Storage& s, void** pointer) {
  const Value& v = graph.value(s.owner);
  if (!v.data) return internal_error("constant '", v.name, "' has no content");
  Tensor content = v.layout == Layout::kChannelsLast ? to_channels_last(*v.data) : *v.data;
  if (device->host_visible()) {
    *pointer = const_cast<std::byte*>(content.bytes());
    host_constants.push_back(std::move(content));
    return {};
  }
  bool read_on_device = false;
  for (NodeId n : order) {
    const OpDef* op = find_op(graph.node(n).domain, graph.node(n).op_type);
    for (size_t i = 0; i < graph.node(n).inputs.size(); ++i)
      read_on_device |= graph.node(n).inputs[i] == s.owner && (!op || slot_of(*op, static_cast<int>(i)) != Slot::kHost);
  }
  if (!read_on_device) return {};
  ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device, s.bytes));
  ENG_TRY(device->copy_to_device(b.data(), content.bytes(), s.bytes));
  ENG_TRY(device->synchronize());
  *pointer = b.data();
  memory.constants += s.bytes;
  buffers.push_back(std::move(b));
  return {};
}

Status Program::Impl::place(Storage& s, void** pointer) {
  const Value& v = graph.value(s.owner);
  switch (s.kind) {
    case StorageKind::kArena: return {};
    case StorageKind::kConstant: return place_constant(s, pointer);
    case StorageKind::kState: {
      if (!v.data && !v.has_shape) return internal_error("'", v.name, "' has neither content nor shape");
      ENG_TRY(store->ensure(v.name, v.data ? *v.data : Tensor(v.dtype, v.shape)));  // optimiser slots start at zero
      memory.state += s.bytes;
      *pointer = store->pointer(v.name);
      return {};
    }
    case StorageKind::kInput: {
      ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device, s.bytes));
      memory.inputs += s.bytes;
      *pointer = b.data();
      fed[s.owner] = false;
      buffers.push_back(std::move(b));
      return {};
    }
  }
  return {};
}

Status Program::Impl::plan_memory() {
  std::vector<std::vector<eb_alias>> aliases;
  for (const Step& s : steps) aliases.push_back(s.kernel.aliases());
  std::vector<ValueId> kept;
  for (const auto& [asked, value] : fetches)
    if (!is_state(graph.value(value).role)) kept.push_back(value);
  storage = plan_storage(graph, order, aliases, kept);

  std::vector<Interval> intervals;
  std::vector<size_t> which;
  pointers.assign(storage.storages.size(), nullptr);
  for (size_t i = 0; i < storage.storages.size(); ++i) {
    Storage& s = storage.storages[i];
    ENG_TRY(place(s, &pointers[i]));
    if (s.kind != StorageKind::kArena) continue;
    intervals.push_back({s.first, s.last, s.bytes});
    which.push_back(i);
  }
  for (NodeId n : order)
    for (ValueId v : graph.node(n).outputs)
      if (v != kNoValue) memory.activations += static_cast<uint64_t>(element_count(graph.value(v).shape)) * size_of(graph.value(v).dtype);
  std::vector<size_t> with_workspace;
  for (size_t i = 0; i < steps.size(); ++i) {
    const uint64_t bytes = steps[i].kernel.workspace();
    memory.workspace = std::max(memory.workspace, bytes);
    if (bytes == 0) continue;
    intervals.push_back({static_cast<int>(i), static_cast<int>(i), bytes});
    with_workspace.push_back(i);
  }
  const ArenaPlan plan = plan_arena(intervals, static_cast<int>(order.size()), std::max<uint64_t>(64, device->alignment()));
  memory.arena = plan.bytes;
  memory.lower_bound = plan.lower_bound;
  memory.live = plan.live;
  if (!order.empty()) memory.peak_node = rows[static_cast<size_t>(plan.peak_step)].node;
  auto block = DeviceBuffer::allocate(device, plan.bytes);
  if (!block.ok()) return block.status().in(cat("the step needs ", plan.bytes, " bytes for its activations (most at ", memory.peak_node, ")"));
  arena = std::move(*block);
  auto at = [&](size_t interval) -> void* { return static_cast<std::byte*>(arena.data()) + plan.offsets[interval]; };
  for (size_t i = 0; i < which.size(); ++i) pointers[which[i]] = at(i);
  for (size_t i = 0; i < with_workspace.size(); ++i) steps[with_workspace[i]].workspace = at(which.size() + i);
  return {};
}

void Program::Impl::connect() {
  for (Step& s : steps) {
    for (ValueId v : graph.node(s.node).inputs) s.inputs.push_back(pointer(v));
    for (ValueId v : graph.node(s.node).outputs) s.outputs.push_back(pointer(v));
  }
  for (const auto& [state, next] : storage.copies)
    copies.push_back({pointer(state), pointer(next), static_cast<uint64_t>(element_count(graph.value(state).shape)) * size_of(graph.value(state).dtype)});
}

Status Program::Impl::check_fed() const {
  for (const auto& [input, done] : fed)
    if (!done) return invalid("input '", graph.value(input).name, "' has not been fed");
  return {};
}

Result<std::unique_ptr<Program>> Program::compile(Graph graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->graph = std::move(graph);
  impl->device = std::move(device);
  impl->store = std::move(store);
  ENG_TRY(impl->prepare(fetches, options));
  ENG_TRY(impl->create_kernels());
  ENG_TRY(impl->plan_memory());
  impl->connect();
  return std::unique_ptr<Program>(new Program(std::move(impl)));
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() {
  if (impl_) (void)impl_->device->synchronize();  // nothing enqueued may outlive the buffers
}

Status Program::feed(ValueId input, const Tensor& host) {
  Impl& p = *impl_;
  if (input < 0 || input >= p.graph.value_count() || p.graph.value(input).role != Role::kInput)
    return internal_error("value ", input, " is fed but is no input of the graph");
  const Value& v = p.graph.value(input);
  if (host.dtype() != v.dtype || host.shape() != v.shape)
    return invalid("input '", v.name, "' is ", name_of(v.dtype), v.shape, ", got ", name_of(host.dtype()), host.shape());
  auto it = p.fed.find(input);
  if (it == p.fed.end()) return {};
  it->second = true;
  return p.device->copy_to_device(p.pointer(input), host.bytes(), host.byte_count());
}

Status Program::run() {
  Impl& p = *impl_;
  ENG_TRY(p.check_fed());
  for (Step& s : p.steps) ENG_TRY(s.kernel.run(s.inputs.data(), s.outputs.data(), s.workspace));
  for (const Copy& c : p.copies) ENG_TRY(p.device->copy_on_device(c.to, c.from, c.bytes));
  return {};
}

Status Program::fetch(ValueId value, Tensor& host) {
  Impl& p = *impl_;
  auto it = p.fetches.find(value);
  const ValueId source = it != p.fetches.end() ? it->second : value;
  if (source < 0 || source >= p.graph.value_count()) return internal_error("value ", value, " is fetched but does not exist");
  const Value& v = p.graph.value(source);
  if (v.role == Role::kConstant && v.data) {
    host = *v.data;
    return p.device->synchronize();
  }
  const void* from = it != p.fetches.end() || is_state(v.role) ? p.pointer(source) : nullptr;
  if (!from) return invalid("'", v.name, "' is not among the values that this program was compiled to give");
  if (host.dtype() != v.dtype || host.shape() != v.shape) host = Tensor(v.dtype, v.shape);
  ENG_TRY(p.device->copy_to_host(host.mutable_bytes(), from, host.byte_count()));
  return p.device->synchronize();
}

Result<std::vector<NodeTiming>> Program::profile(int repeats) {
  using Clock = std::chrono::steady_clock;
  Impl& p = *impl_;
  ENG_TRY(p.check_fed());
  ENG_TRY(p.device->synchronize());
  std::vector<NodeTiming> out;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    NodeTiming t;
    t.kernel = p.rows[i];
    t.seconds = 1e30;
    t.flops = cost_of(p.graph, p.graph.node(p.order[i])).flops;
    out.push_back(t);
  }
  for (int r = 0; r < repeats; ++r) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const auto start = Clock::now();
      ENG_TRY(p.steps[i].kernel.run(p.steps[i].inputs.data(), p.steps[i].outputs.data(), p.steps[i].workspace));
      ENG_TRY(p.device->synchronize());
      out[i].seconds = std::min(out[i].seconds, std::chrono::duration<double>(Clock::now() - start).count());
    }
    for (const Copy& c : p.copies) ENG_TRY(p.device->copy_on_device(c.to, c.from, c.bytes));
  }
  ENG_TRY(p.device->synchronize());
  return out;
}

const MemoryReport& Program::memory() const { return impl_->memory; }
const Graph& Program::graph() const { return impl_->graph; }
const std::vector<KernelRow>& Program::kernels() const { return impl_->rows; }
const std::shared_ptr<Device>& Program::device() const { return impl_->device; }

}  // namespace eng
