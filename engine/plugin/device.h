// Backends and their devices, seen from the engine: owning handles around the ABI's functions, whose error codes become
// Status. The CPU backend and loaded plugins are the same thing here.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/abi/backend_abi.h"
#include "graph/ir/graph.h"

namespace eng {

struct DeviceOptions {
  int threads = 0;  // 0: as many as the machine has
  bool deterministic = false;
};

class Event;

// What a kernel was made for, as shown in a trace.
struct KernelTag {
  std::string node, op, implementation;  // "Conv 'stem/conv1'", "Conv", "onednn"
  Phase phase = Phase::kForward;
};

// One piece of work of a device's stream. Times are nanoseconds of std::chrono::steady_clock.
struct TraceSpan {
  enum class Kind : uint8_t { kKernel, kCopy, kFill, kWait };
  Kind kind = Kind::kKernel;
  KernelTag kernel;    // of kKernel
  uint64_t bytes = 0;  // of kCopy and kFill
  int64_t start_ns = 0, end_ns = 0;
};

// An open device with one in-order stream. Keep it (shared) as long as buffers and kernels made from it. A device may be opened several
// times: each handle is another stream (with threads of its own on a CPU) over the same memory.
class Device {
 public:
  // `name` is "cpu:0", "cuda:1", ...; "cpu" means "cpu:0". Unknown names list the known ones.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const DeviceOptions& options = {});
  static Result<std::shared_ptr<Device>> open(const eb_backend_table* backend, int32_t index, const DeviceOptions& options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const eb_backend_table& backend() const { return *backend_; }
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }  // "AMD EPYC 9654"
  const std::string& identity() const { return identity_; }        // of the hardware, on its host; empty: not known
  const DeviceOptions& options() const { return options_; }
  uint64_t alignment() const { return alignment_; }
  bool prefers_channels_last() const { return capabilities_ & EB_CAP_CHANNELS_LAST; }
  bool host_visible() const { return capabilities_ & EB_CAP_HOST_VISIBLE; }
  eb_device* handle() const { return device_; }
  eb_stream* stream() const { return stream_; }
  // Waits for everything enqueued; gives the first error of it. At most as long as set_timeout() said: a device that does not answer in
  // time is lost, its stream is never waited for again, and the caller should end the process.
  Status synchronize();
  void set_timeout(int64_t milliseconds) { timeout_ms_ = milliseconds; }  // < 0 (as at first): no limit
  int64_t timeout() const { return timeout_ms_; }
  bool lost() const { return lost_; }
  void give_up() { lost_ = true; }  // treat it as one that did not answer: another handle of the device did not
  // Another handle of the same device.
  bool same_device(const Device& other) const { return backend_ == other.backend_ && index_ == other.index_; }
  // Whether a kernel of this device may read and write the other's memory by its pointers.
  bool sees(const Device& other) const { return (host_visible() && other.host_visible()) || same_device(other); }
  Status record(Event& event);  // enqueues: the event passes when everything before it is done
  // Enqueues: what follows waits for the event's last record. Another backend's event holds up the calling thread instead.
  Status wait(Event& event);
  Status copy_to_device(void* to, const void* from, uint64_t bytes);   // enqueues
  Status copy_to_host(void* to, const void* from, uint64_t bytes);     // enqueues
  Status copy_on_device(void* to, const void* from, uint64_t bytes);   // enqueues
  Status fill_zero(void* to, uint64_t bytes);                          // enqueues

  // Writes down what the stream does between start_trace() and stop_trace(), at most `capacity` pieces of it. Nothing is allocated
  // meanwhile. kUnsupported where the backend has no profiler (can_trace()). stop_trace() waits for the stream; the pieces come in order.
  bool can_trace() const;
  Status start_trace(size_t capacity = size_t{1} << 16);
  Result<std::vector<TraceSpan>> stop_trace();

 private:
  friend class DeviceKernel;
  Device() = default;
  const eb_backend_table* backend_ = nullptr;
  int32_t index_ = 0;
  int64_t timeout_ms_ = -1;
  bool lost_ = false;
  eb_device* device_ = nullptr;
  eb_stream* stream_ = nullptr;
  std::string name_, description_, identity_;
  DeviceOptions options_;
  uint64_t alignment_ = 64, capabilities_ = 0;
  std::vector<eb_span> spans_;
  eb_trace trace_{};
  std::mutex tags_mutex_;
  std::unordered_map<const void*, KernelTag> tags_;  // of the kernels that there are
};

// What work of a lost device may still touch is never given back; it is kept here until the process ends.
void keep_for_lost_device(const void* pointer);

// Backends known to the process: the linked-in CPU backend, then loaded plugins. See load_backend in loader.h.
const std::vector<const eb_backend_table*>& backends();
void register_backend(const eb_backend_table* table);

// A point in a stream's work. Made for one device; the streams of its backend may wait for it.
class Event {
 public:
  static Result<std::unique_ptr<Event>> create(const std::shared_ptr<Device>& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Status passed(bool& yes);               // does not wait
  Status passed(bool& yes, std::chrono::milliseconds patience);  // waits for it, at most so long
  Status synchronize();                   // holds up the caller, at most as long as the device's set_timeout() says
  eb_event* handle() const { return event_; }
  const eb_backend_table& backend() const { return device_->backend(); }

 private:
  Event() = default;
  std::shared_ptr<Device> device_;
  eb_event* event_ = nullptr;
};

// One block of a device's memory, or of host memory that copies to and from it are fast from. Owned by one at a time.
template <auto kAllocate, auto kRelease>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  static Result<OwnedMemory> allocate(const std::shared_ptr<Device>& device, uint64_t bytes);
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept;
  ~OwnedMemory();
  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

extern template class OwnedMemory<&eb_memory_table::allocate, &eb_memory_table::release>;
extern template class OwnedMemory<&eb_memory_table::allocate_host, &eb_memory_table::release_host>;
using DeviceBuffer = OwnedMemory<&eb_memory_table::allocate, &eb_memory_table::release>;
using HostBuffer = OwnedMemory<&eb_memory_table::allocate_host, &eb_memory_table::release_host>;

// A kernel made for one node on one device.
class DeviceKernel {
 public:
  // Takes the first descriptor that can run the node; the error lists every refusal with its reason. Operand strides come
  // from Value::layout unless `strides` (inputs then outputs, empty entries: from the layout) says otherwise.
  static Result<DeviceKernel> create(const std::shared_ptr<Device>& device, const Graph& graph, const Node& node,
                                     const std::vector<std::vector<int64_t>>& strides = {});
  DeviceKernel(DeviceKernel&& other) noexcept { *this = std::move(other); }
  DeviceKernel& operator=(DeviceKernel&& other) noexcept;
  ~DeviceKernel();
  uint64_t workspace() const { return workspace_; }
  const std::string& implementation() const { return implementation_; }
  const std::vector<eb_alias>& aliases() const { return aliases_; }
  // Enqueues; pointers per input and output of the node, null where omitted.
  Status run(const void* const* inputs, void* const* outputs, void* workspace);

 private:
  DeviceKernel() = default;
  std::shared_ptr<Device> device_;
  const eb_kernel_desc* descriptor_ = nullptr;
  eb_kernel* kernel_ = nullptr;
  uint64_t workspace_ = 0;
  std::string implementation_, label_;
  std::vector<eb_alias> aliases_;
};

// Whether some kernel of the backend takes the node; the reasons of all refusals otherwise.
Status can_run(Device& device, const Graph& graph, const Node& node);
// The same without the names of node and device: "it has no kernel for this operator"; empty where it can run.
std::string refusal_of(Device& device, const Graph& graph, const Node& node);

Status to_status(int32_t code, const eb_error& error, const std::string& what);

}  // namespace eng
