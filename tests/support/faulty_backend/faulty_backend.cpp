// A backend plugin for tests that can train: the CPU backend under the name "faulty", with a failure on request. Read from the environment when
// the plugin is loaded:
//   FAULTY_DEVICE=I        the device that fails (default 1)
//   FAULTY_ERROR_AT=N      its N-th kernel (from 1) reports an error        FAULTY_THROW_AT=N   ... throws
//   FAULTY_HANG_AT=N       from its N-th kernel on it takes work and never answers
//   FAULTY_RANK=R          only in the rank of that number (OMPI_COMM_WORLD_RANK)
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "backends/abi/backend.hpp"

extern "C" const eb_backend_table* eb_cpu_backend(void);

namespace {

long number(const char* name, long fallback) {
  const char* value = std::getenv(name);
  return value ? std::atol(value) : fallback;
}

struct State {
  const eb_backend_table* cpu = eb_cpu_backend();
  long error_at, throw_at, hang_at, device;
  std::atomic<long> kernels{0};
  std::atomic<bool> hangs{false};
  std::mutex mutex;
  std::map<const eb_device*, int32_t> devices;
  std::map<const eb_stream*, int32_t> streams;
  State() : error_at(number("FAULTY_ERROR_AT", 0)), throw_at(number("FAULTY_THROW_AT", 0)), hang_at(number("FAULTY_HANG_AT", 0)), device(number("FAULTY_DEVICE", 1)) {
    if (std::getenv("FAULTY_RANK") && number("FAULTY_RANK", 0) != number("OMPI_COMM_WORLD_RANK", -1)) error_at = throw_at = hang_at = 0;
  }
  bool faulty(const eb_stream* stream) {
    std::lock_guard lock(mutex);
    const auto it = streams.find(stream);
    return it != streams.end() && it->second == device;
  }
};

State& state() {
  static State* const s = new State;  // threads of a hanging device may use it until the process is gone
  return *s;
}

int32_t device_info(int32_t index, eb_device_info* info, eb_error* error) {
  const int32_t code = state().cpu->core->device_info(index, info, error);
  static std::deque<std::string> names = [] {
    std::deque<std::string> n;
    for (int i = 0; i < 16; ++i) n.push_back("faulty:" + std::to_string(i));
    return n;
  }();
  if (code == EB_OK && index < 16) info->name = eb::str(names[static_cast<size_t>(index)]);
  return code;
}

int32_t open_device(int32_t index, const eb_device_options* options, eb_device** device, eb_error* error) {
  const int32_t code = state().cpu->core->open_device(index, options, device, error);
  std::lock_guard lock(state().mutex);
  if (code == EB_OK) state().devices[*device] = index;
  return code;
}

int32_t create_stream(eb_device* device, eb_stream** stream, eb_error* error) {
  const int32_t code = state().cpu->streams->create(device, stream, error);
  std::lock_guard lock(state().mutex);
  if (code == EB_OK) state().streams[*stream] = state().devices[device];
  return code;
}

int32_t never(int64_t timeout_ms, eb_error* error) {
  if (timeout_ms < 0) timeout_ms = 1 << 30;
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  return eb::fail(error, EB_TIMEOUT, "no answer");
}

int32_t synchronize(eb_stream* stream, int64_t timeout_ms, eb_error* error) {
  if (state().hangs && state().faulty(stream)) return never(timeout_ms, error);
  return state().cpu->streams->synchronize(stream, timeout_ms, error);
}

// While the device hangs nothing more is recorded on it, so events stay where they are.
int32_t record(eb_stream* stream, eb_event* event, eb_error* error) {
  return state().hangs && state().faulty(stream) ? int32_t{EB_OK} : state().cpu->streams->record(stream, event, error);
}
int32_t event_query(eb_event* event, eb_error* error) { return state().hangs ? int32_t{EB_NOT_READY} : state().cpu->streams->event_query(event, error); }
int32_t event_synchronize(eb_event* event, int64_t timeout_ms, eb_error* error) {
  return state().hangs ? never(timeout_ms, error) : state().cpu->streams->event_synchronize(event, timeout_ms, error);
}

int32_t run(eb_kernel* kernel, eb_stream* stream, const void* const* inputs, void* const* outputs, void* workspace, eb_error* error) {
  State& s = state();
  return eb::guard(error, [&]() -> int32_t {
    if (s.faulty(stream)) {
      const long at = ++s.kernels;
      if (at == s.error_at) return eb::fail(error, EB_DEVICE_LOST, "made to fail at kernel " + std::to_string(at));
      if (at == s.throw_at) throw std::runtime_error("made to throw at kernel " + std::to_string(at));
      if (at == s.hang_at) s.hangs = true;
      if (s.hangs) return EB_OK;
    }
    return s.cpu->kernels[0]->run(kernel, stream, inputs, outputs, workspace, error);  // one function for all of them
  });
}

struct Table {
  eb_core_table core = *state().cpu->core;
  eb_stream_table streams = *state().cpu->streams;
  std::deque<eb_kernel_desc> descriptors;
  std::vector<const eb_kernel_desc*> pointers;
  eb_backend_table table = *state().cpu;
  Table() {
    core.device_info = device_info;
    core.open_device = open_device;
    streams.create = create_stream;
    streams.synchronize = synchronize;
    streams.record = record;
    streams.event_query = event_query;
    streams.event_synchronize = event_synchronize;
    for (uint32_t i = 0; i < table.kernel_count; ++i) {
      descriptors.push_back(*state().cpu->kernels[i]);  // user_data stays the CPU backend's, which its functions look at
      descriptors.back().run = run;
      pointers.push_back(&descriptors.back());
    }
    table.name = eb::str("faulty");
    table.core = &core;
    table.streams = &streams;
    table.kernels = pointers.data();
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const eb_backend_table* eb_get_backend(void) {
  static const Table* const table = new Table;
  return &table->table;
}
