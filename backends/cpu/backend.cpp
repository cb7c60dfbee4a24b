// The CPU backend's function table: devices cpu:0, cpu:1, ... (each with threads of its own on the one processor), host
// memory, streams, and the kernels of kernel_list.cpp wrapped as ABI descriptors.
#include "backends/cpu/entry.h"

#include <omp.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>

#include "backends/abi/backend.hpp"
#include "backends/cpu/kernel.h"
#include "backends/cpu/kernel_object.h"
#include "backends/cpu/stream.h"

namespace {

constexpr int32_t kDevices = 16;
constexpr uint64_t kAlignment = 64;

int32_t processor_count() { return static_cast<int32_t>(std::thread::hardware_concurrency() ? std::thread::hardware_concurrency() : 1); }

const std::string& processor_name() {
  static const std::string name = [] {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
      if (line.rfind("model name", 0) == 0 && line.find(':') != std::string::npos) return line.substr(line.find(':') + 2);
    return std::string("unknown processor");
  }();
  return name;
}

int32_t device_count(int32_t* count, eb_error*) {
  *count = kDevices;
  return EB_OK;
}

int32_t device_info(int32_t index, eb_device_info* info, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    if (index < 0 || index >= kDevices) return eb::fail(error, EB_INVALID_ARGUMENT, "cpu devices are 0 to " + std::to_string(kDevices - 1));
    static std::string names[kDevices];
    static std::once_flag once;
    std::call_once(once, [] { for (int i = 0; i < kDevices; ++i) names[i] = "cpu:" + std::to_string(i); });
    struct sysinfo memory {};
    sysinfo(&memory);
    eb_device_info full{};
    full.struct_size = info->struct_size;
    full.index = index;
    full.name = eb::str(names[index]);
    full.description = eb::str(processor_name());
    full.total_memory = uint64_t{memory.totalram} * memory.mem_unit;
    full.free_memory = uint64_t{memory.freeram} * memory.mem_unit;
    full.capabilities = EB_CAP_HOST_VISIBLE | EB_CAP_CHANNELS_LAST;
    full.alignment = kAlignment;
    std::memcpy(info, &full, std::min<size_t>(info->struct_size, sizeof full));
    return EB_OK;
  });
}

int32_t open_device(int32_t index, const eb_device_options* options, eb_device** device, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    if (index < 0 || index >= kDevices) return eb::fail(error, EB_INVALID_ARGUMENT, "cpu devices are 0 to " + std::to_string(kDevices - 1));
    auto* d = new eb_device;
    d->index = index;
    d->threads = options && options->threads > 0 ? options->threads : processor_count();
    d->deterministic = options && options->deterministic;
    *device = d;
    return EB_OK;
  });
}

void close_device(eb_device* device) { delete device; }
void shutdown() {}
const eb_core_table kCore = {sizeof(eb_core_table), 0, device_count, device_info, open_device, close_device, shutdown};

int32_t allocate(eb_device*, uint64_t bytes, void** pointer, eb_error* error) {
  // More than the machine has is refused here: the system might promise it and kill the process later.
  static const uint64_t most = [] {
    struct sysinfo memory {};
    sysinfo(&memory);
    return (uint64_t{memory.totalram} + memory.totalswap) * memory.mem_unit;
  }();
  const uint64_t rounded = bytes > most ? 0 : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *pointer = bytes > most ? nullptr : std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment);
  if (!*pointer) return eb::fail(error, EB_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  return EB_OK;
}
void release(eb_device*, void* pointer) { std::free(pointer); }

int32_t copy(eb_stream* stream, void* to, const void* from, uint64_t bytes, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    stream->enqueue([&](eng::cpu::Task& t) {
      t.kind = eng::cpu::TaskKind::kCopy;
      t.pointers.assign({to, const_cast<void*>(from)});
      t.number = bytes;
    });
    return EB_OK;
  });
}
int32_t fill_zero(eb_stream* stream, void* to, uint64_t bytes, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    stream->enqueue([&](eng::cpu::Task& t) {
      t.kind = eng::cpu::TaskKind::kZero;
      t.pointers.assign({to});
      t.number = bytes;
    });
    return EB_OK;
  });
}
// One memory for all devices.
int32_t copy_between(eb_stream* stream, eb_device*, void* to, eb_device*, const void* from, uint64_t bytes, eb_error* error) {
  return copy(stream, to, from, bytes, error);
}
const eb_memory_table kMemory = {sizeof(eb_memory_table), 0, allocate, release, allocate, release, copy, copy, copy, fill_zero, copy_between};

int32_t stream_create(eb_device* device, eb_stream** stream, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    *stream = new eb_stream(device);
    return EB_OK;
  });
}
void stream_destroy(eb_stream* stream) { delete stream; }
int32_t stream_synchronize(eb_stream* stream, int64_t timeout_ms, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    int32_t code = EB_OK;
    std::string message;
    if (!stream->synchronize(timeout_ms, &code, &message)) return eb::fail(error, EB_TIMEOUT, "the stream did not finish in time");
    return code == EB_OK ? EB_OK : eb::fail(error, code, message);
  });
}
int32_t event_create(eb_device*, eb_event** event, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    *event = new eb_event;
    return EB_OK;
  });
}
void event_destroy(eb_event* event) { delete event; }
int32_t event_task(eb_stream* stream, eb_event* event, eng::cpu::TaskKind kind, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    uint64_t number;
    {
      std::lock_guard lock(event->mutex);
      number = kind == eng::cpu::TaskKind::kRecord ? ++event->recorded : event->recorded;
    }
    stream->enqueue([&](eng::cpu::Task& t) {
      t.kind = kind;
      t.event = event;
      t.number = number;
    });
    return EB_OK;
  });
}
int32_t record(eb_stream* stream, eb_event* event, eb_error* error) { return event_task(stream, event, eng::cpu::TaskKind::kRecord, error); }
int32_t wait(eb_stream* stream, eb_event* event, eb_error* error) { return event_task(stream, event, eng::cpu::TaskKind::kWait, error); }
int32_t event_query(eb_event* event, eb_error*) {
  std::lock_guard lock(event->mutex);
  return event->reached >= event->recorded ? EB_OK : EB_NOT_READY;
}
int32_t event_synchronize(eb_event* event, int64_t timeout_ms, eb_error* error) {
  std::unique_lock lock(event->mutex);
  auto done = [&] { return event->reached >= event->recorded; };
  if (timeout_ms < 0) event->passed.wait(lock, done);
  else if (!event->passed.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) return eb::fail(error, EB_TIMEOUT, "the event did not pass in time");
  return EB_OK;
}
const eb_stream_table kStreams = {sizeof(eb_stream_table), 0, stream_create, stream_destroy, stream_synchronize, event_create,
                                  event_destroy, record, wait, event_query, event_synchronize};

// ---- profiler ----

int32_t trace_task(eb_stream* stream, eb_trace* trace, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    stream->enqueue([&](eng::cpu::Task& t) {
      t.kind = eng::cpu::TaskKind::kTrace;
      t.pointers.assign({trace});
    });
    return EB_OK;
  });
}
int32_t trace_start(eb_stream* stream, eb_trace* trace, eb_error* error) {
  trace->count = trace->lost = 0;
  return trace_task(stream, trace, error);
}
int32_t trace_stop(eb_stream* stream, eb_error* error) { return trace_task(stream, nullptr, error); }
const eb_profiler_table kProfiler = {sizeof(eb_profiler_table), 1, trace_start, trace_stop};

// ---- kernels ----

const eng::cpu::KernelDef& def_of(const eb_kernel_desc* self) { return *static_cast<const eng::cpu::KernelDef*>(self->user_data); }

int32_t can_run(const eb_kernel_desc* self, const eb_device*, const eb_node* node, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    const eng::cpu::KernelDef& def = def_of(self);
    eb::NodeView view(*node);
    const int32_t type = view.input_count() && view.in(0).present() ? view.in(0).dtype : view.out(0).dtype;
    if (!(def.types >> type & 1)) return eb::fail(error, EB_UNSUPPORTED, "element type " + std::to_string(type) + " is not handled");
    for (uint32_t i = 0; i < node->input_count && i < 64; ++i)
      if ((def.host_inputs >> i & 1) && view.in(static_cast<int>(i)).present() && !view.host(static_cast<int>(i)))
        return eb::fail(error, EB_UNSUPPORTED, "input " + std::to_string(i) + " must be known before the step");
    const std::string reason = def.can_run ? def.can_run(view) : eng::cpu::require_row_major(view);
    return reason.empty() ? int32_t{EB_OK} : eb::fail(error, EB_UNSUPPORTED, reason);
  });
}

int32_t create(const eb_kernel_desc* self, eb_device* device, const eb_node* node, eb_kernel** kernel, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    // What is made here divides its work by the threads that OpenMP promises the caller: those of the stream that will run it.
    struct ThreadsOfDevice {
      int before = omp_get_max_threads();
      explicit ThreadsOfDevice(int threads) { omp_set_num_threads(threads); }
      ~ThreadsOfDevice() { omp_set_num_threads(before); }
    } const as_on_the_stream(device->threads);
    auto k = std::make_unique<eb_kernel>();
    eb::NodeView view(*node);
    k->impl = def_of(self).create(view, device->threads);
    if (!k->impl) return eb::fail(error, EB_UNSUPPORTED, "the kernel cannot be made for these operands");
    k->name = std::string(view.op()) + " '" + std::string(view.name()) + "' (" + def_of(self).name + ")";
    k->input_count = node->input_count;
    k->output_count = node->output_count;
    *kernel = k.release();
    return EB_OK;
  });
}

int32_t workspace(const eb_kernel* kernel, uint64_t* bytes, eb_error*) {
  *bytes = kernel->impl->workspace();
  return EB_OK;
}

int32_t run(eb_kernel* kernel, eb_stream* stream, const void* const* inputs, void* const* outputs, void* workspace, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    stream->enqueue([&](eng::cpu::Task& t) {
      t.kind = eng::cpu::TaskKind::kKernel;
      t.kernel = kernel;
      t.workspace = workspace;
      t.input_count = kernel->input_count;
      t.pointers.clear();
      for (uint32_t i = 0; i < kernel->input_count; ++i) t.pointers.push_back(const_cast<void*>(inputs[i]));
      for (uint32_t i = 0; i < kernel->output_count; ++i) t.pointers.push_back(outputs[i]);
    });
    return EB_OK;
  });
}

void destroy(eb_kernel* kernel) { delete kernel; }

const void* query(eb_string name, int32_t minor) { return eb::view(name) == "profiler" && minor <= 1 ? &kProfiler : nullptr; }

struct Table {
  std::deque<eb_kernel_desc> descriptors;
  std::deque<std::vector<eb_alias>> aliases;
  std::vector<const eb_kernel_desc*> pointers;
  eb_backend_table table{};
  Table() {
    for (const eng::cpu::KernelDef* def : eng::cpu::all_kernels()) {
      std::vector<eb_alias>& list = aliases.emplace_back();
      for (const eng::cpu::Alias& a : def->aliases) list.push_back({sizeof(eb_alias), a.kind, a.output, a.input});
      eb_kernel_desc d{};
      d.struct_size = sizeof d;
      d.opset_min = 1;
      d.alias_count = static_cast<uint32_t>(list.size());
      d.domain = eb::str(def->domain);
      d.op_type = eb::str(def->op);
      d.name = eb::str(def->name);
      d.types = def->types;
      d.host_inputs = def->host_inputs;
      d.aliases = list.data();
      d.user_data = def;
      d.can_run = can_run;
      d.create = create;
      d.workspace = workspace;
      d.run = run;
      d.destroy = destroy;
      pointers.push_back(&descriptors.emplace_back(d));
    }
    table = {sizeof(eb_backend_table), EB_ABI_MAJOR, EB_ABI_MINOR, static_cast<uint32_t>(pointers.size()), eb::str("cpu"), eb::str("0.1.0"),
             &kCore, &kMemory, &kStreams, pointers.data(), query};
  }
};

}  // namespace

extern "C" const eb_backend_table* eb_cpu_backend(void) {
  static const Table instance;
  return &instance.table;
}
