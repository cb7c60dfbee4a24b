// See program.h. Compiling: passes, order, cutting, kernels and memory of each part (part.cpp), then one flat list of actions. Running: the
// actions in order, each only enqueued on its part's stream.
#include "engine/exec/program.h"

#include <algorithm>
#include <chrono>

#include "engine/exec/part.h"
#include "graph/ops/op.h"
#include "graph/partition/cut.h"
#include "graph/passes/assign_layouts.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/schedule.h"

namespace eng {
namespace {

enum class ActionKind : uint8_t { kKernel, kRecord, kWait, kCopyOut, kCopyIn, kCopyOver };

struct Action {
  ActionKind kind;
  int32_t part;
  size_t index;  // of the part's step, of the event, or of the transfer
};

constexpr size_t kNoEvent = static_cast<size_t>(-1);

// What crosses from one part to another.
struct Transfer {
  size_t event = 0;
  size_t taken = kNoEvent;           // where host memory is used again that another backend's device reads: it has been read
  void* device_to = nullptr;         // where the reader has its own copy
  const void* device_from = nullptr;
  HostBuffer host;                   // between devices that do not see each other's memory
  uint64_t bytes = 0;
};

bool is_state(Role role) { return role == Role::kParameter || role == Role::kState; }
uint64_t bytes_of(const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); }

}  // namespace

struct Program::Impl {
  Graph graph;
  std::vector<std::shared_ptr<Device>> places;
  std::shared_ptr<StateStore> store;
  ProgramOptions options;
  std::map<ValueId, ValueId> fetches;     // as asked for -> as it is after the passes
  std::vector<NodeId> order;
  std::vector<std::vector<NodeId>> part_orders;
  std::vector<std::unique_ptr<ProgramPart>> parts;
  std::vector<Action> actions;
  std::vector<size_t> segment_ends;       // in actions
  std::vector<SyncPoint> sync_points;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<Transfer> transfers;
  std::map<NodeId, size_t> transfer_of;   // Send and Recv nodes
  std::multimap<ValueId, NodeId> sent_externals;  // inputs that are bound at one place: their Recv nodes at others
  std::map<ValueId, std::vector<size_t>> copied;  // events: a copy of the state for another part has been made
  std::vector<std::vector<Event*>> marks;
  std::vector<size_t> done_events;        // per part: its work of a run is over

  bool alone() const { return places.size() == 1; }
  Status prepare(const std::vector<ValueId>& wanted);
  Status cut_parts();
  Status create_parts();
  bool copies(NodeId recv) const;         // whether the receiver has a copy of its own
  void read_in_place();
  void locate();
  void locate_external(NodeId recv, void* memory);
  Status list_actions();
  Status action_of_send(NodeId n, int32_t part);
  Status action_of_recv(NodeId n, int32_t part);
  Status sync_point_of(NodeId n, ProgramPart& part);
  void wait_for_copies(ValueId state, int32_t part);
  Status list_marks(NodeId n, std::vector<std::vector<ValueId>>& open);
  Result<size_t> add_event(int32_t part);
  Status enqueue(const Action& a);
  Status check_fed() const;
  Status run_between(size_t first, size_t last);
  Status finish_run();
  Result<const void*> source_of(ValueId value, ValueId& source, int32_t& part);
};

// Roots, dead code, layouts and order. Fetched values that a node makes become the graph's outputs, so that a pass that moves
// content to another value (a reorder) says so there.
Status Program::Impl::prepare(const std::vector<ValueId>& wanted) {
  std::vector<ValueId> asked;
  auto ask = [&](ValueId v) {
    if (graph.value(v).producer != kNoNode && std::find(asked.begin(), asked.end(), v) == asked.end()) asked.push_back(v);
  };
  for (ValueId v : wanted) {
    if (v < 0 || v >= graph.value_count()) return internal_error("value ", v, " is to be fetched but does not exist");
    ask(v);
    fetches[v] = v;
  }
  for (ValueId v : options.external) ask(v);
  for (const auto& [state, next] : graph.updates) {
    if (!is_state(graph.value(state).role)) return internal_error("'", graph.value(state).name, "' is updated but is neither parameter nor state");
    if (graph.value(next).producer == kNoNode) return internal_error("'", graph.value(state).name, "' takes the content of a value that no node makes");
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
  if (!alone()) {
    ENG_ASSIGN(const std::vector<NodeId> first, graph.topological_order());
    place_rest(graph, first);
    for (NodeId n : first)
      if (graph.node(n).place >= static_cast<int32_t>(places.size()))
        return internal_error(graph.label(n), " is placed on device ", graph.node(n).place, " of ", places.size());
  }
  const bool channels_last = std::any_of(places.begin(), places.end(), [](const auto& d) { return d->prefers_channels_last(); });
  if (options.assign_layouts && channels_last) {
    auto takes = [this](const Graph& g, NodeId n) {
      Device& device = *places[static_cast<size_t>(std::max(g.node(n).place, 0))];
      return device.prefers_channels_last() && can_run(device, g, g.node(n)).ok();
    };
    ENG_TRY(assign_layouts(graph, takes).status());
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    if (auto it = fetches.find(asked[i]); it != fetches.end()) it->second = graph.outputs[i];
    for (ValueId& v : options.external)
      if (v == asked[i]) v = graph.outputs[i];
    for (std::vector<ValueId>& group : options.marks) std::replace(group.begin(), group.end(), asked[i], graph.outputs[i]);
  }
  std::vector<NodeId> best;
  if (options.keep_order) {
    ENG_ASSIGN(best, graph.topological_order());
  } else {
    ENG_ASSIGN(best, schedule(graph));
  }
  graph.renumber(best);
  order = graph.live_nodes();
  return {};
}

Status Program::Impl::cut_parts() {
  if (!alone()) {
    place_rest(graph, order);  // what the passes have put in
    const auto known_place = [this](ValueId value) -> int32_t {
      if (const auto it = options.external_places.find(value); it != options.external_places.end()) return it->second;
      if (!is_state(graph.value(value).role)) return -1;
      const std::shared_ptr<Device> device = store->device_of(graph.value(value).name);
      for (size_t i = 0; device && i < places.size(); ++i)
        if (places[i]->same_device(*device)) return static_cast<int32_t>(i);
      return -1;
    };
    const Cut c = cut(graph, order, known_place);
    graph.renumber(c.order);
    order = graph.live_nodes();
  }
  part_orders.resize(places.size());
  for (NodeId n : order) part_orders[alone() ? 0 : static_cast<size_t>(graph.node(n).place)].push_back(n);
  return {};
}

// A state is copied to its readers' device at the start of the step, so that its owner may put the next content over it.
bool Program::Impl::copies(NodeId recv) const {
  const Node& n = graph.node(recv);
  const NodeId send = graph.value(n.inputs[0]).producer;
  const ValueId original = graph.node(send).inputs[0];
  const Device& reader = *places[static_cast<size_t>(n.place)];
  return is_state(graph.value(original).role) || !reader.sees(*places[static_cast<size_t>(graph.node(send).place)]);
}

Status Program::Impl::create_parts() {
  const auto is = [this](NodeId n, const char* op) { return graph.node(n).op_type == op && graph.node(n).domain == kEngineDomain; };
  for (size_t p = 0; p < places.size(); ++p) {
    parts.push_back(std::make_unique<ProgramPart>(graph, places[p], store, p < options.arenas.size() ? options.arenas[p] : nullptr));
    ENG_TRY(parts[p]->create_kernels(part_orders[p]));
  }
  for (size_t p = 0; p < places.size(); ++p) {
    StorageRequest request;
    std::vector<NodeId> views;
    for (const auto& [asked, value] : fetches)
      if (!is_state(graph.value(value).role)) request.kept.push_back(value);
    request.external = options.external;
    for (NodeId n : part_orders[p]) {
      if (is(n, "Send")) {
        request.kept.push_back(graph.node(n).outputs[0]);
        request.joined.push_back(graph.node(n).outputs[0]);
      } else if (is(n, "Recv")) {
        request.external.push_back(graph.node(n).inputs[0]);
        if (!copies(n)) views.push_back(n);
      }
    }
    ENG_TRY(parts[p]->plan_memory(request, views));
  }
  read_in_place();
  for (auto& part : parts) {
    part->connect();
    part->on_move([this] {
      read_in_place();
      locate();
    });
  }
  return {};
}

// Where a receiver reads the sender's memory instead of a copy.
void Program::Impl::read_in_place() {
  for (size_t p = 0; p < places.size(); ++p)
    for (NodeId n : part_orders[p]) {
      if (graph.node(n).op_type != "Recv" || graph.node(n).domain != kEngineDomain || copies(n)) continue;
      const ValueId s = graph.node(n).inputs[0];
      parts[p]->set_external(s, parts[static_cast<size_t>(graph.node(graph.value(s).producer).place)]->pointer(s));
    }
}

// An input that is bound anew, for one receiver.
void Program::Impl::locate_external(NodeId recv, void* memory) {
  transfers[transfer_of.at(recv)].device_from = memory;
  if (!copies(recv)) parts[static_cast<size_t>(graph.node(recv).place)]->set_external(graph.node(recv).inputs[0], memory);
}

// Addresses of what crosses and of what is summed over shards, after they are known or have changed.
void Program::Impl::locate() {
  for (const auto& [n, index] : transfer_of) {
    const Node& node = graph.node(n);
    const ProgramPart& part = *parts[static_cast<size_t>(node.place)];
    if (node.op_type == "Send") transfers[index].device_from = part.pointer(node.outputs[0]);
    else transfers[index].device_to = part.pointer(node.outputs[0]);
  }
  for (SyncPoint& s : sync_points) {
    const NodeId n = graph.value(s.value).producer;
    const ProgramPart& part = *parts[alone() ? 0 : static_cast<size_t>(graph.node(n).place)];
    s.input = part.pointer(graph.node(n).inputs[0]);
    s.output = part.pointer(s.value);
  }
}

Result<size_t> Program::Impl::add_event(int32_t part) {
  ENG_ASSIGN(std::unique_ptr<Event> e, Event::create(places[static_cast<size_t>(part)]));
  events.push_back(std::move(e));
  return events.size() - 1;
}

Status Program::Impl::action_of_send(NodeId n, int32_t part) {
  const ValueId s = graph.node(n).outputs[0];
  NodeId recv = kNoNode;
  for (NodeId m : order)
    if (!graph.node(m).inputs.empty() && graph.node(m).inputs[0] == s) recv = m;
  if (recv == kNoNode) return {};
  const size_t index = transfers.size();
  Transfer& t = transfers.emplace_back();
  transfer_of[n] = transfer_of[recv] = index;
  if (options.external_places.count(graph.node(n).inputs[0])) sent_externals.emplace(graph.node(n).inputs[0], recv);
  t.bytes = bytes_of(graph.value(s));
  const std::shared_ptr<Device>& from = places[static_cast<size_t>(part)];
  if (!places[static_cast<size_t>(graph.node(recv).place)]->sees(*from)) {
    const int32_t reader = graph.node(recv).place;
    const std::shared_ptr<Device>& to = places[static_cast<size_t>(reader)];
    ENG_ASSIGN(t.host, HostBuffer::allocate(from->host_visible() ? to : from, t.bytes));
    if (&from->backend() != &to->backend()) {  // within a backend, runs wait for one another on the devices
      ENG_ASSIGN(transfers[index].taken, add_event(reader));
      actions.push_back({ActionKind::kWait, part, transfers[index].taken});
    }
    actions.push_back({ActionKind::kCopyOut, part, index});
  }
  ENG_ASSIGN(transfers[index].event, add_event(part));
  actions.push_back({ActionKind::kRecord, part, transfers[index].event});
  return {};
}

Status Program::Impl::action_of_recv(NodeId n, int32_t part) {
  const size_t index = transfer_of.at(n);
  actions.push_back({ActionKind::kWait, part, transfers[index].event});
  if (!copies(n)) return {};
  actions.push_back({transfers[index].host.data() ? ActionKind::kCopyIn : ActionKind::kCopyOver, part, index});
  if (transfers[index].taken != kNoEvent) actions.push_back({ActionKind::kRecord, part, transfers[index].taken});
  const ValueId original = graph.node(graph.value(graph.node(n).inputs[0]).producer).inputs[0];
  if (!is_state(graph.value(original).role) || transfers[index].host.data()) return {};
  ENG_ASSIGN(const size_t event, add_event(part));
  actions.push_back({ActionKind::kRecord, part, event});
  copied[original].push_back(event);
  return {};
}

void Program::Impl::wait_for_copies(ValueId state, int32_t part) {
  if (auto it = copied.find(state); it != copied.end())
    for (size_t event : it->second) actions.push_back({ActionKind::kWait, part, event});
}

Status Program::Impl::sync_point_of(NodeId n, ProgramPart& part) {
  const Value& v = graph.value(graph.node(n).outputs[0]);
  sync_points.push_back({graph.node(n).outputs[0], v.dtype, bytes_of(v), nullptr, nullptr, part.device()});
  segment_ends.push_back(actions.size());
  return {};
}

Status Program::Impl::list_marks(NodeId n, std::vector<std::vector<ValueId>>& open) {
  for (size_t m = 0; m < open.size(); ++m) {
    if (open[m].empty()) continue;
    for (ValueId v : graph.node(n).outputs) std::erase(open[m], v);
    if (!open[m].empty()) continue;
    std::vector<int32_t> makers;
    for (ValueId v : options.marks[m]) {
      const NodeId maker = graph.value(v).producer;
      const int32_t at = maker == kNoNode || alone() ? 0 : graph.node(maker).place;
      if (std::find(makers.begin(), makers.end(), at) == makers.end()) makers.push_back(at);
    }
    for (int32_t part : makers) {
      ENG_ASSIGN(const size_t event, add_event(part));
      actions.push_back({ActionKind::kRecord, part, event});
      marks[m].push_back(events[event].get());
    }
  }
  return {};
}

Status Program::Impl::list_actions() {
  std::vector<size_t> at(parts.size(), 0);
  std::vector<std::vector<ValueId>> open = options.marks;
  marks.resize(open.size());
  for (NodeId n : order) {
    const int32_t p = alone() ? 0 : graph.node(n).place;
    ProgramPart& part = *parts[static_cast<size_t>(p)];
    const size_t step = at[static_cast<size_t>(p)]++;
    if (part.steps()[step].kernel) {
      for (const auto& [state, next] : graph.updates)
        if (copied.count(state) && part.writes_in_place(step, state)) wait_for_copies(state, p);
      actions.push_back({ActionKind::kKernel, p, step});
    } else if (graph.node(n).op_type == "Send") {
      ENG_TRY(action_of_send(n, p));
    } else if (graph.node(n).op_type == "Recv") {
      ENG_TRY(action_of_recv(n, p));
    } else {
      ENG_TRY(sync_point_of(n, part));
    }
    ENG_TRY(list_marks(n, open));
  }
  segment_ends.push_back(actions.size());
  locate();
  if (alone()) return {};
  for (int32_t p = 0; p < static_cast<int32_t>(parts.size()); ++p) {
    ENG_ASSIGN(const size_t event, add_event(p));
    done_events.push_back(event);
  }
  return {};
}

Status Program::Impl::check_fed() const {
  for (const auto& part : parts)
    for (const auto& [input, done] : part->fed())
      if (!done) return invalid("input '", graph.value(input).name, "' has not been fed");
  return {};
}

Status Program::Impl::enqueue(const Action& a) {
  Device& device = *places[static_cast<size_t>(a.part)];
  switch (a.kind) {
    case ActionKind::kKernel: return parts[static_cast<size_t>(a.part)]->steps()[a.index].run();
    case ActionKind::kRecord: return device.record(*events[a.index]);
    case ActionKind::kWait: return device.wait(*events[a.index]);
    case ActionKind::kCopyOut: return device.copy_to_host(transfers[a.index].host.data(), transfers[a.index].device_from, transfers[a.index].bytes);
    case ActionKind::kCopyIn: return device.copy_to_device(transfers[a.index].device_to, transfers[a.index].host.data(), transfers[a.index].bytes);
    case ActionKind::kCopyOver: return device.copy_on_device(transfers[a.index].device_to, transfers[a.index].device_from, transfers[a.index].bytes);
  }
  return {};
}

Status Program::Impl::run_between(size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) ENG_TRY(enqueue(actions[i]));
  return {};
}

// The next contents that were not made in place, and, between parts, what keeps the next run's writes behind this run's reads.
Status Program::Impl::finish_run() {
  for (size_t p = 0; p < parts.size(); ++p) {
    if (!parts[p]->copies().empty() && !alone())
      for (const auto& [state, waits] : copied)
        if (parts[p]->storage_of(state) >= 0)
          for (size_t event : waits) ENG_TRY(places[p]->wait(*events[event]));
    for (const ProgramPart::Copy& c : parts[p]->copies()) ENG_TRY(places[p]->copy_on_device(c.to, c.from, c.bytes));
  }
  for (size_t p = 0; p < done_events.size(); ++p) ENG_TRY(places[p]->record(*events[done_events[p]]));
  for (size_t p = 0; p < done_events.size(); ++p)
    for (size_t q = 0; q < done_events.size(); ++q)
      if (p != q && &places[p]->backend() == &places[q]->backend()) ENG_TRY(places[p]->wait(*events[done_events[q]]));
  return {};
}

Result<std::unique_ptr<Program>> Program::compile(Graph graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options) {
  return compile(std::move(graph), std::vector<std::shared_ptr<Device>>{std::move(device)}, std::move(store), fetches, options);
}

Result<std::unique_ptr<Program>> Program::compile(Graph graph, std::vector<std::shared_ptr<Device>> places, std::shared_ptr<StateStore> store,
                                                  const std::vector<ValueId>& fetches, const ProgramOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->graph = std::move(graph);
  impl->places = std::move(places);
  impl->store = std::move(store);
  impl->options = options;
  ENG_TRY(impl->prepare(fetches));
  ENG_TRY(impl->cut_parts());
  ENG_TRY(impl->create_parts());
  ENG_TRY(impl->list_actions());
  return std::unique_ptr<Program>(new Program(std::move(impl)));
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() {
  if (!impl_) return;
  (void)synchronize();  // nothing enqueued may outlive the buffers
  for (const auto& device : impl_->places)
    if (device->lost()) {  // its work may still read them
      keep_for_lost_device(impl_.release());
      return;
    }
}

Status Program::feed(ValueId input, const Tensor& host) {
  const Impl& p = *impl_;
  if (input < 0 || input >= p.graph.value_count() || p.graph.value(input).role != Role::kInput)
    return internal_error("value ", input, " is fed but is no input of the graph");
  const Value& v = p.graph.value(input);
  if (host.dtype() != v.dtype || host.shape() != v.shape)
    return invalid("input '", v.name, "' is ", name_of(v.dtype), v.shape, ", got ", name_of(host.dtype()), host.shape());
  return feed_bytes(input, host.bytes(), host.byte_count());
}

Status Program::feed_bytes(ValueId input, const void* host, uint64_t bytes) {
  Impl& p = *impl_;
  if (bytes != bytes_of(p.graph.value(input))) return internal_error("input '", p.graph.value(input).name, "' is fed ", bytes, " bytes");
  for (auto& part : p.parts) {
    auto it = part->fed().find(input);
    if (it == part->fed().end()) continue;
    it->second = true;
    ENG_TRY(part->device()->copy_to_device(part->pointer(input), host, bytes));
  }
  return {};
}

void Program::bind(ValueId external, void* memory) {
  const auto fetched = impl_->fetches.find(external);
  const ValueId v = fetched != impl_->fetches.end() ? fetched->second : external;
  for (auto& part : impl_->parts) part->set_external(v, memory);
  for (auto [recv, end] = impl_->sent_externals.equal_range(v); recv != end; ++recv) impl_->locate_external(recv->second, memory);
}

Status Program::run() {
  Impl& p = *impl_;
  if (!p.sync_points.empty()) return internal_error("a program with sums over shards is run in segments");
  return run_segment(0);
}

size_t Program::segments() const { return impl_->segment_ends.size(); }

Status Program::run_segment(size_t index) {
  Impl& p = *impl_;
  if (index == 0) ENG_TRY(p.check_fed());
  ENG_TRY(p.run_between(index ? p.segment_ends[index - 1] : 0, p.segment_ends[index]));
  return index + 1 == p.segment_ends.size() ? p.finish_run() : Status();
}

const std::vector<SyncPoint>& Program::sync_points() const { return impl_->sync_points; }
const std::vector<Event*>& Program::mark(size_t index) const { return impl_->marks[index]; }

Status Program::synchronize() {
  Status first;
  for (const auto& device : impl_->places) {
    Status s = device->synchronize();
    if (first.ok()) first = std::move(s);
  }
  return first;
}

// Where a fetched value, parameter or state lies, and on which part.
Result<const void*> Program::Impl::source_of(ValueId value, ValueId& source, int32_t& part) {
  auto it = fetches.find(value);
  source = it != fetches.end() ? it->second : value;
  if (source < 0 || source >= graph.value_count()) return internal_error("value ", value, " is fetched but does not exist");
  const Value& v = graph.value(source);
  const void* from = nullptr;
  part = v.producer == kNoNode || alone() ? 0 : graph.node(v.producer).place;
  if (is_state(v.role)) {
    for (size_t p = 0; p < parts.size(); ++p)
      if (parts[p]->pointer(source)) from = parts[p]->pointer(source), part = static_cast<int32_t>(p);
  } else if (it != fetches.end()) {
    for (size_t p = 0; !from && p < parts.size(); ++p)  // a fetched input lies wherever it is read
      if (v.producer == kNoNode ? parts[p]->pointer(source) != nullptr : static_cast<int32_t>(p) == part) from = parts[p]->pointer(source), part = static_cast<int32_t>(p);
  }
  if (!from) return invalid("'", v.name, "' is not among the values that this program was compiled to give");
  return from;
}

Status Program::fetch_later(ValueId value, void* host, uint64_t bytes) {
  ValueId source;
  int32_t part;
  ENG_ASSIGN(const void* from, impl_->source_of(value, source, part));
  if (bytes != bytes_of(impl_->graph.value(source))) return internal_error("'", impl_->graph.value(source).name, "' is fetched as ", bytes, " bytes");
  return impl_->places[static_cast<size_t>(part)]->copy_to_host(host, from, bytes);
}

Status Program::fetch(ValueId value, Tensor& host) {
  Impl& p = *impl_;
  auto it = p.fetches.find(value);
  const ValueId known = it != p.fetches.end() ? it->second : value;
  if (known >= 0 && known < p.graph.value_count() && p.graph.value(known).role == Role::kConstant && p.graph.value(known).data) {
    host = *p.graph.value(known).data;
    return synchronize();
  }
  ValueId source;
  int32_t part;
  ENG_ASSIGN(const void* from, p.source_of(value, source, part));
  const Value& v = p.graph.value(source);
  if (host.dtype() != v.dtype || host.shape() != v.shape) host = Tensor(v.dtype, v.shape);
  ENG_TRY(p.places[static_cast<size_t>(part)]->copy_to_host(host.mutable_bytes(), from, host.byte_count()));
  return synchronize();
}

Result<std::vector<NodeTiming>> Program::profile(int repeats) {
  using Clock = std::chrono::steady_clock;
  Impl& p = *impl_;
  ENG_TRY(p.check_fed());
  if (!p.sync_points.empty()) return unsupported("a program with sums over shards cannot be timed node by node");
  ENG_TRY(synchronize());
  std::vector<NodeTiming> out;
  for (int r = 0; r < repeats; ++r) {
    size_t row = 0;
    for (const Action& a : p.actions) {
      const auto start = Clock::now();
      ENG_TRY(p.enqueue(a));
      ENG_TRY(p.places[static_cast<size_t>(a.part)]->synchronize());
      if (a.kind != ActionKind::kKernel) continue;
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      const ProgramPart& part = *p.parts[static_cast<size_t>(a.part)];
      if (r == 0) out.push_back({part.rows()[a.index], a.part, seconds, cost_of(p.graph, p.graph.node(part.steps()[a.index].node)).flops});
      out[row].seconds = std::min(out[row].seconds, seconds);
      ++row;
    }
    ENG_TRY(p.finish_run());
  }
  ENG_TRY(synchronize());
  return out;
}

const std::vector<std::shared_ptr<Device>>& Program::places() const { return impl_->places; }
const MemoryReport& Program::memory(size_t place) const { return impl_->parts[place]->memory(); }
const Graph& Program::graph() const { return impl_->graph; }
const std::vector<KernelRow>& Program::kernels(size_t place) const { return impl_->parts[place]->rows(); }

}  // namespace eng
