// See device.h.
#include "engine/plugin/device.h"

#include <mutex>

#include "engine/plugin/abi_words.h"
#include "engine/plugin/node_desc.h"

extern "C" const eb_backend_table* eb_cpu_backend(void);  // linked in; the engine sees nothing else of it

namespace eng {
namespace {

std::vector<const eb_backend_table*>& registry() {
  static std::vector<const eb_backend_table*> list{eb_cpu_backend()};
  return list;
}

}  // namespace

const std::vector<const eb_backend_table*>& backends() { return registry(); }
void register_backend(const eb_backend_table* table) { registry().push_back(table); }

Status to_status(int32_t code, const eb_error& error, const std::string& what) {
  if (code == EB_OK) return {};
  std::string message = what + ": " + (error.message[0] ? error.message : "backend error " + std::to_string(code));
  if (code == EB_OUT_OF_MEMORY) message += "; a smaller --batch needs less, and --memory BYTES keeps a step within so much";
  return Status(code == EB_UNSUPPORTED ? Code::kUnsupported : Code::kDevice, message);
}

Result<std::shared_ptr<Device>> Device::open(const std::string& name, const DeviceOptions& options) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  std::string known;
  for (const eb_backend_table* b : backends()) {
    known += (known.empty() ? "" : ", ") + text(b->name);
    if (text(b->name) != kind) continue;
    int32_t index = 0;
    if (colon != std::string::npos) {
      const std::string number = name.substr(colon + 1);
      if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos || (number[0] == '0' && number.size() > 1))
        return usage_error("device '", name, "': wanted a form like ", kind, ":0");
      index = std::stoi(number);
    }
    return open(b, index, options);
  }
  return usage_error("device '", name, "': there is no backend '", kind, "'; there are: ", known);
}

Result<std::shared_ptr<Device>> Device::open(const eb_backend_table* backend, int32_t index, const DeviceOptions& options) {
  std::shared_ptr<Device> d(new Device);
  d->backend_ = backend;
  d->index_ = index;
  eb_error error = no_error();
  eb_device_info info{};
  info.struct_size = sizeof info;
  ENG_TRY(to_status(backend->core->device_info(index, &info, &error), error, "device " + text(backend->name) + ":" + std::to_string(index)));
  d->name_ = text(info.name);
  d->description_ = text(info.description);
  d->identity_ = text(info.identity);
  d->options_ = options;
  if (info.unavailable.length) return device_error("device ", d->name_, " cannot be used: ", text(info.unavailable), "; engine-graph devices lists those that can");
  d->capabilities_ = info.capabilities;
  if (info.alignment) d->alignment_ = info.alignment;
  eb_device_options o{sizeof(eb_device_options), options.threads, options.deterministic ? 1 : 0};
  ENG_TRY(to_status(backend->core->open_device(index, &o, &d->device_, &error), error, "device " + d->name_));
  ENG_TRY(to_status(backend->streams->create(d->device_, &d->stream_, &error), error, "stream on " + d->name_));
  return d;
}

void keep_for_lost_device(const void* pointer) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<const void*>;
  std::lock_guard lock(mutex);
  kept->push_back(pointer);
}

Device::~Device() {
  if (lost_) {  // its work may still be going on: nothing of it can be taken away
    keep_for_lost_device(stream_);
    keep_for_lost_device(device_);
    return;
  }
  if (stream_) backend_->streams->destroy(stream_);
  if (device_) backend_->core->close_device(device_);
}

static Status late(const Device& device, int64_t timeout_ms) {
  return device_error(device.name(), " has not answered for ", static_cast<double>(timeout_ms) / 1000, " s: its work hangs or takes longer than expected; --device-timeout SECONDS sets how long to wait");
}

Status Device::synchronize() {
  if (lost_) return late(*this, timeout_ms_);
  eb_error error = no_error();
  const int32_t code = backend_->streams->synchronize(stream_, timeout_ms_, &error);
  if (code == EB_TIMEOUT) {
    lost_ = true;
    return late(*this, timeout_ms_);
  }
  return code == EB_OK ? Status() : to_status(code, error, name_);
}

Status Device::record(Event& event) {
  eb_error error = no_error();
  const int32_t code = backend_->streams->record(stream_, event.handle(), &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}

Status Device::wait(Event& event) {
  if (&event.backend() != backend_) return event.synchronize();
  eb_error error = no_error();
  const int32_t code = backend_->streams->wait(stream_, event.handle(), &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}

Result<std::unique_ptr<Event>> Event::create(const std::shared_ptr<Device>& device) {
  std::unique_ptr<Event> e(new Event);
  eb_error error = no_error();
  ENG_TRY(to_status(device->backend().streams->create_event(device->handle(), &e->event_, &error), error, device->name()));
  e->device_ = device;
  return e;
}
Event::~Event() {
  if (!event_) return;
  if (device_->lost()) {
    keep_for_lost_device(event_);
    return;
  }
  device_->backend().streams->destroy_event(event_);
}
Status Event::passed(bool& yes, std::chrono::milliseconds patience) {
  eb_error error = no_error();
  const int32_t code = device_->backend().streams->event_synchronize(event_, patience.count(), &error);
  yes = code == EB_OK;
  return code == EB_OK || code == EB_TIMEOUT ? Status() : to_status(code, error, device_->name());
}
Status Event::passed(bool& yes) {
  eb_error error = no_error();
  const int32_t code = device_->backend().streams->event_query(event_, &error);
  yes = code == EB_OK;
  return code == EB_OK || code == EB_NOT_READY ? Status() : to_status(code, error, device_->name());
}
Status Event::synchronize() {
  eb_error error = no_error();
  const int32_t code = device_->backend().streams->event_synchronize(event_, device_->timeout(), &error);
  if (code == EB_TIMEOUT) return late(*device_, device_->timeout());
  return code == EB_OK ? Status() : to_status(code, error, device_->name());
}

Status Device::copy_to_device(void* to, const void* from, uint64_t bytes) {
  eb_error error = no_error();
  const int32_t code = backend_->memory->copy_to_device(stream_, to, from, bytes, &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}
Status Device::copy_to_host(void* to, const void* from, uint64_t bytes) {
  eb_error error = no_error();
  const int32_t code = backend_->memory->copy_to_host(stream_, to, from, bytes, &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}
Status Device::copy_on_device(void* to, const void* from, uint64_t bytes) {
  eb_error error = no_error();
  const int32_t code = backend_->memory->copy_on_device(stream_, to, from, bytes, &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}
Status Device::fill_zero(void* to, uint64_t bytes) {
  eb_error error = no_error();
  const int32_t code = backend_->memory->fill_zero(stream_, to, bytes, &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}

static const eb_profiler_table* profiler_of(const eb_backend_table& backend) { return optional_table<eb_profiler_table>(backend, "profiler"); }

bool Device::can_trace() const { return profiler_of(*backend_) != nullptr; }

Status Device::start_trace(size_t capacity) {
  const eb_profiler_table* profiler = profiler_of(*backend_);
  if (!profiler) return unsupported(name_, ": its backend keeps no times of its work");
  ENG_TRY(synchronize());  // a trace that was not stopped still writes
  spans_.assign(capacity, eb_span{});
  trace_ = {sizeof(eb_trace), sizeof(eb_span), spans_.data(), capacity, 0, 0};
  eb_error error = no_error();
  const int32_t code = profiler->start(stream_, &trace_, &error);
  return code == EB_OK ? Status() : to_status(code, error, name_);
}

Result<std::vector<TraceSpan>> Device::stop_trace() {
  const eb_profiler_table* profiler = profiler_of(*backend_);
  if (!profiler || spans_.empty()) return internal_error(name_, ": no trace has been started");
  eb_error error = no_error();
  ENG_TRY(to_status(profiler->stop(stream_, &error), error, name_));
  ENG_TRY(synchronize());
  std::vector<TraceSpan> out(trace_.count);
  std::lock_guard lock(tags_mutex_);
  for (size_t i = 0; i < out.size(); ++i) {
    const eb_span& s = spans_[i];
    out[i].kind = s.kind == EB_SPAN_KERNEL ? TraceSpan::Kind::kKernel : s.kind == EB_SPAN_COPY ? TraceSpan::Kind::kCopy
                : s.kind == EB_SPAN_FILL   ? TraceSpan::Kind::kFill : TraceSpan::Kind::kWait;
    if (const auto it = tags_.find(s.object); s.kind == EB_SPAN_KERNEL && it != tags_.end()) out[i].kernel = it->second;
    out[i].bytes = s.bytes;
    out[i].start_ns = s.start_ns;
    out[i].end_ns = s.end_ns;
  }
  std::vector<eb_span>().swap(spans_);
  return out;
}

template <auto kAllocate, auto kRelease>
Result<OwnedMemory<kAllocate, kRelease>> OwnedMemory<kAllocate, kRelease>::allocate(const std::shared_ptr<Device>& device, uint64_t bytes) {
  OwnedMemory m;
  eb_error error = no_error();
  ENG_TRY(to_status((device->backend().memory->*kAllocate)(device->handle(), bytes, &m.data_, &error), error, device->name()));
  m.device_ = device;
  m.bytes_ = bytes;
  return m;
}
template <auto kAllocate, auto kRelease>
OwnedMemory<kAllocate, kRelease>& OwnedMemory<kAllocate, kRelease>::operator=(OwnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
template <auto kAllocate, auto kRelease>
OwnedMemory<kAllocate, kRelease>::~OwnedMemory() {
  if (!data_) return;
  if (device_->lost()) {
    keep_for_lost_device(data_);
    return;
  }
  (device_->backend().memory->*kRelease)(device_->handle(), data_);
}
template class OwnedMemory<&eb_memory_table::allocate, &eb_memory_table::release>;
template class OwnedMemory<&eb_memory_table::allocate_host, &eb_memory_table::release_host>;

// The first descriptor that takes the node; `refusals` gets the reasons of those before it.
static const eb_kernel_desc* choose(Device& device, const eb_node& node, std::string* refusals) {
  const eb_backend_table& b = device.backend();
  for (uint32_t i = 0; i < b.kernel_count; ++i) {
    const eb_kernel_desc* d = b.kernels[i];
    if (text(d->op_type) != text(node.op_type) || text(d->domain) != text(node.domain)) continue;
    if (node.opset < d->opset_min || (d->opset_max && node.opset > d->opset_max)) {
      *refusals += "; " + text(d->name) + ": opset " + std::to_string(node.opset) + " is not handled";
      continue;
    }
    eb_error error = no_error();
    if (d->can_run(d, device.handle(), &node, &error) == EB_OK) return d;
    *refusals += "; " + text(d->name) + ": " + error.message;
  }
  if (refusals->empty()) *refusals = "; it has no kernel for this operator";
  return nullptr;
}

static Status check_rank(const Graph& graph, const Node& node) {
  for (const auto* list : {&node.inputs, &node.outputs})
    for (ValueId v : *list)
      if (v != kNoValue && graph.value(v).shape.size() > EB_MAX_RANK)
        return unsupported(graph.label(node), ": '", graph.value(v).name, "' has ", graph.value(v).shape.size(), " dimensions; at most ", EB_MAX_RANK, " are handled");
  return {};
}

Result<DeviceKernel> DeviceKernel::create(const std::shared_ptr<Device>& device, const Graph& graph, const Node& node,
                                          const std::vector<std::vector<int64_t>>& strides) {
  ENG_TRY(check_rank(graph, node));
  NodeDesc desc(graph, node, strides);
  std::string refusals;
  DeviceKernel k;
  k.descriptor_ = choose(*device, desc.get(), &refusals);
  k.label_ = graph.label(node);
  if (!k.descriptor_) return unsupported(k.label_, ": ", device->name(), " cannot run it", refusals);
  eb_error error = no_error();
  k.device_ = device;
  ENG_TRY(to_status(k.descriptor_->create(k.descriptor_, device->handle(), &desc.get(), &k.kernel_, &error), error, k.label_));
  ENG_TRY(to_status(k.descriptor_->workspace(k.kernel_, &k.workspace_, &error), error, k.label_));
  k.implementation_ = text(k.descriptor_->name);
  k.aliases_.assign(k.descriptor_->aliases, k.descriptor_->aliases + k.descriptor_->alias_count);
  std::lock_guard lock(device->tags_mutex_);
  device->tags_[k.kernel_] = {k.label_, node.op_type, k.implementation_, node.phase};
  return k;
}

DeviceKernel& DeviceKernel::operator=(DeviceKernel&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(kernel_, other.kernel_);
  std::swap(workspace_, other.workspace_);
  std::swap(implementation_, other.implementation_);
  std::swap(label_, other.label_);
  std::swap(aliases_, other.aliases_);
  return *this;
}
DeviceKernel::~DeviceKernel() {
  if (!kernel_) return;
  if (device_->lost()) {
    keep_for_lost_device(kernel_);
    return;
  }
  {
    std::lock_guard lock(device_->tags_mutex_);
    device_->tags_.erase(kernel_);
  }
  descriptor_->destroy(kernel_);
}

Status DeviceKernel::run(const void* const* inputs, void* const* outputs, void* workspace) {
  eb_error error = no_error();
  const int32_t code = descriptor_->run(kernel_, device_->stream(), inputs, outputs, workspace, &error);
  return code == EB_OK ? Status() : to_status(code, error, cat(device_->name(), ": ", label_));
}

Status can_run(Device& device, const Graph& graph, const Node& node) {
  ENG_TRY(check_rank(graph, node));
  NodeDesc desc(graph, node, {});
  std::string refusals;
  if (choose(device, desc.get(), &refusals)) return {};
  return unsupported(graph.label(node), ": ", device.name(), " cannot run it", refusals);
}

std::string refusal_of(Device& device, const Graph& graph, const Node& node) {
  const Status s = can_run(device, graph, node);
  if (s.ok()) return {};
  std::string why = s.message();
  for (const std::string& known : {graph.label(node) + ": ", device.name() + " cannot run it; "})
    if (why.rfind(known, 0) == 0) why.erase(0, known.size());
  return why;
}

}  // namespace eng
