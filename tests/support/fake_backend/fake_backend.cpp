// A backend plugin for tests: some devices, three plain kernels (Identity, Add, MatMul of float32), and failures on request. Device
// pointers are not addresses that the host may use (they are shifted out of the valid range), so an engine that peeks is caught.
// The environment is read each time eb_get_backend is called; every call gives a table of its own.
//   FAKE_NAME=fake  FAKE_DEVICES=2
//   FAKE_MAJOR=N         another major version      FAKE_SHORT=backend|core|kernel   a struct that is too short
//   FAKE_MINOR=0         version 1.0, whose memory table ends before copy_between
//   FAKE_NULL=table|allocate|run                    a null where none may be
//   FAKE_FAIL_ALLOCATION=K   the K-th allocation is out of memory (from 1)
//   FAKE_ERROR_AT=N          the N-th kernel fails on the stream        FAKE_HANG_AT=N   the N-th kernel never ends (until its stream is destroyed)
//   FAKE_THROW_AT=N          the N-th kernel throws                     FAKE_LATE_EVENT=MS   events pass that much later
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/abi/backend.hpp"

namespace {

struct Settings {
  std::string name = "fake";
  int devices = 2, late_event_ms = 0;
  long fail_allocation = 0, error_at = 0, hang_at = 0, throw_at = 0;
};
Settings settings;
std::atomic<long> allocations{0}, kernels_run{0};

long number(const char* variable, long fallback) {
  const char* value = std::getenv(variable);
  return value ? std::atol(value) : fallback;
}
std::string word(const char* variable, const char* fallback = "") {
  const char* value = std::getenv(variable);
  return value ? value : fallback;
}

constexpr uintptr_t kShift = uintptr_t{1} << 60;
void* to_device(void* host) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(host) + kShift); }
template <class T>
T* to_host(T* device) { return device ? reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(device) - kShift) : nullptr; }

}  // namespace

struct eb_device {
  int index;
};

struct eb_event {
  std::mutex mutex;
  std::condition_variable passed;
  uint64_t recorded = 0, reached = 0;
};

struct eb_stream {
  std::mutex mutex;
  std::condition_variable work, idle;
  std::deque<std::function<int32_t(std::string*)>> tasks;
  bool busy = false, stop = false;
  int32_t code = EB_OK;
  std::string message;
  std::thread thread{[this] { loop(); }};

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [this] { return stop || !tasks.empty(); });
      if (tasks.empty()) return;
      auto task = std::move(tasks.front());
      tasks.pop_front();
      busy = true;
      lock.unlock();
      std::string text;
      eb_error error{sizeof(eb_error), 0, {0}};
      int32_t result = eb::guard(&error, [&] { return task(&text); });
      lock.lock();
      if (result != EB_OK && code == EB_OK) code = result, message = text.empty() ? error.message : text;
      busy = false;
      if (tasks.empty()) idle.notify_all();
    }
  }
  void enqueue(std::function<int32_t(std::string*)> task) {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    work.notify_one();
  }
  bool stopping() {
    std::lock_guard lock(mutex);
    return stop;
  }
  ~eb_stream() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    work.notify_one();
    thread.join();
  }
};

namespace {

int32_t device_count(int32_t* count, eb_error*) {
  *count = settings.devices;
  return EB_OK;
}
int32_t device_info(int32_t index, eb_device_info* info, eb_error* error) {
  if (index < 0 || index >= settings.devices) return eb::fail(error, EB_INVALID_ARGUMENT, "no such device");
  static std::deque<std::string> names;
  names.push_back(settings.name + ":" + std::to_string(index));
  eb_device_info full{};
  full.struct_size = info->struct_size;
  full.index = index;
  full.name = eb::str(names.back());
  full.description = eb::str("a device for tests");
  full.total_memory = full.free_memory = uint64_t{1} << 30;
  full.alignment = 256;
  std::memcpy(info, &full, info->struct_size < sizeof full ? info->struct_size : sizeof full);
  return EB_OK;
}
int32_t open_device(int32_t index, const eb_device_options*, eb_device** device, eb_error* error) {
  if (index < 0 || index >= settings.devices) return eb::fail(error, EB_INVALID_ARGUMENT, "no such device");
  *device = new eb_device{index};
  return EB_OK;
}
void close_device(eb_device* device) { delete device; }
void shutdown() {}

int32_t allocate(eb_device*, uint64_t bytes, void** pointer, eb_error* error) {
  if (++allocations == settings.fail_allocation || bytes > (uint64_t{1} << 30)) return eb::fail(error, EB_OUT_OF_MEMORY, "out of device memory (" + std::to_string(bytes) + " bytes)");
  *pointer = to_device(std::aligned_alloc(256, (bytes + 256) / 256 * 256));
  return EB_OK;
}
void release(eb_device*, void* pointer) { std::free(to_host(pointer)); }
int32_t allocate_host(eb_device*, uint64_t bytes, void** pointer, eb_error*) {
  *pointer = std::malloc(bytes + 1);
  return EB_OK;
}
void release_host(eb_device*, void* pointer) { std::free(pointer); }

int32_t move_bytes(eb_stream* stream, void* to, const void* from, uint64_t bytes) {
  stream->enqueue([=](std::string*) {
    std::memmove(to, from, bytes);
    return int32_t{EB_OK};
  });
  return EB_OK;
}
int32_t copy_to_device(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error*) { return move_bytes(s, to_host(to), from, bytes); }
int32_t copy_to_host(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error*) { return move_bytes(s, to, to_host(from), bytes); }
int32_t copy_on_device(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error*) { return move_bytes(s, to_host(to), to_host(from), bytes); }
int32_t fill_zero(eb_stream* stream, void* to, uint64_t bytes, eb_error*) {
  stream->enqueue([=](std::string*) {
    std::memset(to_host(to), 0, bytes);
    return int32_t{EB_OK};
  });
  return EB_OK;
}

int32_t stream_create(eb_device*, eb_stream** stream, eb_error*) {
  *stream = new eb_stream;
  return EB_OK;
}
void stream_destroy(eb_stream* stream) { delete stream; }
int32_t synchronize(eb_stream* stream, int64_t timeout_ms, eb_error* error) {
  std::unique_lock lock(stream->mutex);
  auto done = [&] { return stream->tasks.empty() && !stream->busy; };
  if (timeout_ms < 0) stream->idle.wait(lock, done);
  else if (!stream->idle.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) return eb::fail(error, EB_TIMEOUT, "the stream did not finish in time");
  if (stream->code == EB_OK) return EB_OK;
  const int32_t code = eb::fail(error, stream->code, stream->message);
  stream->code = EB_OK;
  return code;
}
int32_t create_event(eb_device*, eb_event** event, eb_error*) {
  *event = new eb_event;
  return EB_OK;
}
void destroy_event(eb_event* event) { delete event; }
int32_t record(eb_stream* stream, eb_event* event, eb_error*) {
  uint64_t mine;
  {
    std::lock_guard lock(event->mutex);
    mine = ++event->recorded;
  }
  stream->enqueue([=](std::string*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(settings.late_event_ms));
    std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, mine);
    event->passed.notify_all();
    return int32_t{EB_OK};
  });
  return EB_OK;
}
int32_t wait(eb_stream* stream, eb_event* event, eb_error*) {
  uint64_t wanted;
  {
    std::lock_guard lock(event->mutex);
    wanted = event->recorded;
  }
  stream->enqueue([=](std::string*) {
    std::unique_lock lock(event->mutex);
    event->passed.wait(lock, [&] { return event->reached >= wanted; });
    return int32_t{EB_OK};
  });
  return EB_OK;
}
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

}  // namespace

struct eb_kernel {
  std::function<void(const float* const*, float*)> compute;
  uint32_t inputs = 0;
};

namespace {

int32_t can_run(const eb_kernel_desc* self, const eb_device*, const eb_node* node, eb_error* error) {
  eb::NodeView n(*node);
  for (int i = 0; i < n.input_count(); ++i) {
    if (n.in(i).dtype != EB_FLOAT32) return eb::fail(error, EB_UNSUPPORTED, "float32 only");
    if (!n.in(i).row_major()) return eb::fail(error, EB_UNSUPPORTED, "row-major only");
  }
  if (eb::view(self->op_type) == "Add" && n.in(0).dims != n.in(1).dims) return eb::fail(error, EB_UNSUPPORTED, "operands of one shape only");
  if (eb::view(self->op_type) == "MatMul" && (n.in(0).rank() != 2 || n.in(1).rank() != 2)) return eb::fail(error, EB_UNSUPPORTED, "matrices only");
  return EB_OK;
}
int32_t create(const eb_kernel_desc* self, eb_device*, const eb_node* node, eb_kernel** kernel, eb_error* error) {
  return eb::guard(error, [&]() -> int32_t {
    eb::NodeView n(*node);
    auto* k = new eb_kernel;
    k->inputs = node->input_count;
    const int64_t count = n.out(0).count();
    if (eb::view(self->op_type) == "Identity") {
      k->compute = [count](const float* const* in, float* out) { std::memmove(out, in[0], static_cast<size_t>(count) * sizeof(float)); };
    } else if (eb::view(self->op_type) == "Add") {
      k->compute = [count](const float* const* in, float* out) {
        for (int64_t i = 0; i < count; ++i) out[i] = in[0][i] + in[1][i];
      };
    } else {
      const int64_t rows = n.in(0).dim(0), inner = n.in(0).dim(1), columns = n.in(1).dim(1);
      k->compute = [=](const float* const* in, float* out) {
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (int64_t m = 0; m < inner; ++m) sum += static_cast<double>(in[0][i * inner + m]) * static_cast<double>(in[1][m * columns + j]);
            out[i * columns + j] = static_cast<float>(sum);
          }
      };
    }
    *kernel = k;
    return EB_OK;
  });
}
int32_t workspace(const eb_kernel*, uint64_t* bytes, eb_error*) {
  *bytes = 0;
  return EB_OK;
}
int32_t run(eb_kernel* kernel, eb_stream* stream, const void* const* inputs, void* const* outputs, void*, eb_error*) {
  const long number = ++kernels_run;
  const float* in[2] = {nullptr, nullptr};
  for (uint32_t i = 0; i < kernel->inputs && i < 2; ++i) in[i] = static_cast<const float*>(to_host(inputs[i]));
  float* out = static_cast<float*>(to_host(outputs[0]));
  stream->enqueue([=](std::string* message) {
    if (number == settings.hang_at) {
      while (!stream->stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return int32_t{EB_DEVICE_LOST};
    }
    if (number == settings.throw_at) throw std::runtime_error("kernel " + std::to_string(number) + " threw on request");
    if (number == settings.error_at) {
      *message = "kernel " + std::to_string(number) + " failed on request";
      return int32_t{EB_DEVICE_LOST};
    }
    const float* const operands[2] = {in[0], in[1]};
    kernel->compute(operands, out);
    return int32_t{EB_OK};
  });
  return EB_OK;
}
void destroy(eb_kernel* kernel) { delete kernel; }
const void* query(eb_string, int32_t) { return nullptr; }

// Everything that one call of eb_get_backend hands out; never freed.
struct Tables {
  std::string name;
  eb_core_table core{};
  eb_memory_table memory{};
  eb_stream_table streams{};
  eb_alias view{sizeof(eb_alias), EB_ALIAS_VIEW, 0, 0};
  eb_kernel_desc descriptors[3]{};
  const eb_kernel_desc* pointers[3]{};
  eb_backend_table table{};
};

void fill(Tables& t) {
  t.name = settings.name;
  t.core = {sizeof t.core, 0, device_count, device_info, open_device, close_device, shutdown};
  t.memory = {sizeof t.memory, 0, allocate, release, allocate_host, release_host, copy_to_device, copy_to_host, copy_on_device, fill_zero};
  t.streams = {sizeof t.streams, 0, stream_create, stream_destroy, synchronize, create_event, destroy_event, record, wait, event_query, event_synchronize};
  const char* ops[3] = {"Identity", "Add", "MatMul"};
  for (int i = 0; i < 3; ++i) {
    eb_kernel_desc& d = t.descriptors[i];
    d.struct_size = sizeof d;
    d.opset_min = 1;
    d.op_type = eb::str(ops[i]);
    d.name = eb::str("plain");
    d.types = uint64_t{1} << EB_FLOAT32;
    d.alias_count = i == 0 ? 1 : 0;
    d.aliases = i == 0 ? &t.view : nullptr;
    d.can_run = can_run;
    d.create = create;
    d.workspace = workspace;
    d.run = run;
    d.destroy = destroy;
    t.pointers[i] = &d;
  }
  t.table = {sizeof t.table, EB_ABI_MAJOR, EB_ABI_MINOR, 3, eb::str(t.name), eb::str("1"), &t.core, &t.memory, &t.streams, t.pointers, query};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const eb_backend_table* eb_get_backend(void) {
  settings = Settings();
  settings.name = word("FAKE_NAME", "fake");
  settings.devices = static_cast<int>(number("FAKE_DEVICES", 2));
  settings.late_event_ms = static_cast<int>(number("FAKE_LATE_EVENT", 0));
  settings.fail_allocation = number("FAKE_FAIL_ALLOCATION", 0);
  settings.error_at = number("FAKE_ERROR_AT", 0);
  settings.hang_at = number("FAKE_HANG_AT", 0);
  settings.throw_at = number("FAKE_THROW_AT", 0);
  allocations = 0;
  kernels_run = 0;
  if (word("FAKE_NULL") == "table") return nullptr;
  static std::deque<Tables> all;
  Tables& t = all.emplace_back();
  fill(t);
  t.table.abi_major = static_cast<int32_t>(number("FAKE_MAJOR", EB_ABI_MAJOR));
  t.table.abi_minor = static_cast<int32_t>(number("FAKE_MINOR", EB_ABI_MINOR));
  if (t.table.abi_minor == 0) t.memory.struct_size = offsetof(eb_memory_table, copy_between);
  const std::string too_short = word("FAKE_SHORT"), null = word("FAKE_NULL");
  if (too_short == "backend") t.table.struct_size = 40;
  if (too_short == "core") t.core.struct_size = 16;
  if (too_short == "kernel") t.descriptors[1].struct_size = 64;
  if (null == "allocate") t.memory.allocate = nullptr;
  if (null == "run") t.descriptors[2].run = nullptr;
  return &t.table;
}
