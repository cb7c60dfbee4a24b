// What the parts of the emulation share: devices, memory blocks, streams as queues of operations, handles, and the report. One mutex guards all of it; one
// worker thread runs the operations, without the mutex, one at a time. Names ending in _locked want the mutex held.
//
// Device memory has two mappings of address space: the address the program sees, which nobody may touch, and a twin `kTwin` bytes above it that kernels and
// library calls use. So a host access of device memory faults at once, in any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/cuda_emulation/emulation.h"

namespace eng_emulation {

// Quiet NaN as float, half, bfloat16 and double; arithmetic hands it on unchanged.
inline constexpr uint16_t kPoison16 = 0x7FFB;
inline constexpr uint32_t kPoison32 = 0x7FFB7FFB;
inline constexpr uint64_t kPoison64 = 0x7FFB7FFB7FFB7FFB;

// Logical time of streams: how far into each stream (by number) something is ordered behind.
using Clock = std::map<int, uint64_t>;
void merge(Clock& into, const Clock& from);

// The end of an operation, for events and waits.
struct Mark {
  bool done = false;
  double time_ms = 0;
  CUstream_st* stream = nullptr;  // whose queue holds the operation
  Clock clock;
};

struct Span {
  const void* pointer;
  size_t bytes;
  bool write;
};

struct Operation {
  uint64_t number = 0;  // in the order of enqueueing
  std::string what;
  std::vector<Span> spans;                      // device memory it is known to touch; what the race check looks at
  std::vector<std::pair<uintptr_t, size_t>> host;  // host memory that it uses when it runs
  std::vector<std::shared_ptr<Mark>> after;
  std::function<bool()> ready;                  // may be empty; called with the mutex held
  std::function<void()> run;                    // may be empty
  std::shared_ptr<Mark> done = std::make_shared<Mark>();
};

struct Block {
  uintptr_t begin, end;        // what the program sees
  uintptr_t map_begin, map_end;  // with red zones, without guard pages
  int device;
  bool freed = false;
  struct Access {
    uintptr_t begin, end;
    bool write;
    int stream;
    uint64_t at;
    std::string what;
  };
  std::vector<Access> accesses;  // those that something later might still race with
};

struct Device {
  uintptr_t base = 0, next = 0, limit = 0;  // address space
  size_t used = 0;
  cudaError_t lost = cudaSuccess;
  std::map<uintptr_t, Block> blocks;        // by begin; freed ones stay
  CUstream_st* legacy = nullptr;
  std::set<int> peers;                      // accessible after cudaDeviceEnablePeerAccess
};

// Something with a handle that the program must destroy.
struct Object {
  const char* kind;   // "stream"
  int device;
  bool alive = true;
  uint64_t number = 0;
  virtual ~Object() = default;
};

}  // namespace eng_emulation

struct CUstream_st : eng_emulation::Object {
  int id = 0;
  unsigned flags = 0;
  bool legacy = false;
  std::deque<eng_emulation::Operation> queue;
  std::shared_ptr<eng_emulation::Mark> last;  // of what was enqueued last
  eng_emulation::Clock clock;
  uint64_t enqueued = 0;
};

struct CUevent_st : eng_emulation::Object {
  unsigned flags = 0;
  std::shared_ptr<eng_emulation::Mark> mark;  // null: never recorded
};

namespace eng_emulation {

struct World {
  std::mutex mutex;
  std::condition_variable wake;    // the worker
  std::condition_variable passed;  // those who wait for marks
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  uintptr_t base = 0;                               // of device 0's addresses
  std::map<uintptr_t, size_t> pinned;               // begin -> bytes
  std::map<uintptr_t, size_t> registered;           // cudaHostRegister
  std::unordered_map<const void*, std::unique_ptr<Object>> objects;
  std::vector<CUstream_st*> streams;
  std::vector<std::string> violations;
  std::vector<std::shared_ptr<Mark>> demands;       // what threads wait for
  uint64_t nudges = 0, nudges_done = 0;             // queries that let one operation run
  std::shared_ptr<Mark> nudged;
  bool running = false, worker_started = false;
  bool stopping = false;                            // the process ends: nothing more is run
  double last_enqueue_ms = 0;
  std::string running_what;
  std::mt19937_64 random{1};
  Clock host;                                       // what the host has waited for
  uint64_t operations = 0, kernels = 0, allocations = 0, started = 0, objects_made = 0, progress = 0;
  int stream_ids = 0;
};
World& world();

void report_locked(const std::string& text);
bool is_among(const std::string& word, const std::string& list);  // words between commas

// ---- objects ----

template <class T>
T* make_object_locked(const char* kind, int device) {
  auto object = std::make_unique<T>();
  T* raw = object.get();
  raw->kind = kind;
  raw->device = device;
  raw->number = ++world().objects_made;
  world().objects[raw] = std::move(object);
  return raw;
}
// Null, with a violation, where it is no such object or destroyed.
Object* find_object_locked(const void* handle, const char* call);
template <class T>
T* find_locked(const void* handle, const char* call) {
  Object* object = find_object_locked(handle, call);
  T* typed = dynamic_cast<T*>(object);
  if (object && !typed) report_locked(std::string(call) + ": the handle given is a " + object->kind);
  return typed;
}

// ---- memory ----

inline constexpr uintptr_t kTwin = uintptr_t{1} << 40;         // from a device's address to its twin
inline constexpr uintptr_t kDeviceSpace = uintptr_t{1} << 36;  // addresses a device
inline constexpr int kMostDevices = 16;
void map_devices(struct World& w);  // makes the address space of settings.devices devices
int device_of_address_locked(uintptr_t address);  // -1: no device memory
// The block that holds [pointer, pointer + bytes) for use by `device`, or null with a violation that starts with `what`.
Block* check_range_locked(int device, const void* pointer, size_t bytes, const std::string& what);
// "0x7f12 is 16 bytes past the end of a block of 400 bytes on device 0"
std::string describe_address_locked(uintptr_t address);
void check_red_zones_locked(int device, const std::string& what);

bool is_pinned_locked(const void* pointer, size_t bytes);
// Whether an operation that has not run reads or writes that host memory.
bool host_range_pending_locked(const void* pointer, size_t bytes);

// ---- operations ----

int& current_device();
cudaError_t set_error(cudaError_t error);  // remembers it for cudaGetLastError and gives it back
// Orders the operation behind its stream and tells races; wakes the worker.
void enqueue_locked(CUstream_st* stream, Operation operation);
// The stream behind a handle of the API, null for the current device's legacy stream. Null with a violation where it is none.
CUstream_st* stream_locked(cudaStream_t stream, const char* call);
// As above, and a violation where the current device is not the stream's.
CUstream_st* stream_of_current_device_locked(cudaStream_t stream, const char* call);
// Waits until the mark is done. cudaErrorLaunchTimeout after hang_seconds without progress.
cudaError_t wait_for(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Mark>& mark);
// Lets at most one operation run that the mark needs.
void nudge(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Mark>& mark);
cudaError_t wait_for_device(std::unique_lock<std::mutex>& lock, int device);
double now_ms();
// The device is of no use any more.
void lose_device_locked(int device, cudaError_t error);

// ---- inside of an operation ----

// Thrown by reach() after the violation is in the list; the worker ends the operation and loses the device, as the hardware would.
struct OperationFailed {};
// The usable address of device memory.
void* reach(int device, const void* pointer, size_t bytes, const char* what);
void poisoned_read(const std::string& what);  // reports it

}  // namespace eng_emulation
