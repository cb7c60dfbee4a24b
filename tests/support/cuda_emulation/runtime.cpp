// The CUDA runtime: devices, errors, streams, events, copies.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "tests/support/cuda_emulation/world.h"

namespace eng_emulation {

namespace {
thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;
}  // namespace

int& current_device() { return device_of_thread; }

cudaError_t set_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUstream_st* stream_locked(cudaStream_t stream, const char* call) {
  World& w = world();
  if (stream == cudaStreamPerThread) {
    report_locked(std::string(call) + ": the emulation has no per-thread default stream");
    return nullptr;
  }
  if (stream && stream != cudaStreamLegacy) return find_locked<CUstream_st>(stream, call);
  if (w.devices.empty()) return nullptr;
  Device& device = *w.devices[static_cast<size_t>(current_device())];
  if (!device.legacy) {
    device.legacy = make_object_locked<CUstream_st>("stream", current_device());
    device.legacy->legacy = true;
    device.legacy->id = ++w.stream_ids;
    w.streams.push_back(device.legacy);
  }
  return device.legacy;
}

CUstream_st* stream_of_current_device_locked(cudaStream_t stream, const char* call) {
  CUstream_st* found = stream_locked(stream, call);
  if (found && found->device != current_device()) {
    report_locked(std::string(call) + ": the stream is device " + std::to_string(found->device) + "'s, the current device is " + std::to_string(current_device()));
    return nullptr;
  }
  return found;
}

namespace {

int driver_version_locked() { return world().settings.driver >= 0 ? world().settings.driver : CUDART_VERSION; }
bool valid_device_locked(int device) { return device >= 0 && device < static_cast<int>(world().devices.size()); }

std::string bytes_text(size_t bytes) { return " of " + std::to_string(bytes) + " bytes"; }

// One copy. device_to, device_from: -1 for host memory.
cudaError_t copy_locked(std::unique_lock<std::mutex>&, CUstream_st* stream, void* to, int device_to, const void* from, int device_from, size_t bytes, std::string what) {
  World& w = world();
  if (w.devices[static_cast<size_t>(stream->device)]->lost != cudaSuccess) return w.devices[static_cast<size_t>(stream->device)]->lost;
  if (bytes == 0) return cudaSuccess;
  if (device_to >= 0 && !check_range_locked(device_to, to, bytes, what + ", destination")) return cudaErrorInvalidValue;
  if (device_from >= 0 && !check_range_locked(device_from, from, bytes, what + ", source")) return cudaErrorInvalidValue;
  Operation op;
  op.what = what;
  if (device_to >= 0) op.spans.push_back({to, bytes, true});
  if (device_from >= 0) op.spans.push_back({from, bytes, false});
  std::shared_ptr<std::vector<char>> staged;
  if (device_from < 0) {
    // Pageable memory is staged before the call returns; pinned memory is read when the copy runs.
    if (is_pinned_locked(from, bytes)) op.host.emplace_back(reinterpret_cast<uintptr_t>(from), bytes);
    else staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  }
  if (device_to < 0) op.host.emplace_back(reinterpret_cast<uintptr_t>(to), bytes);
  op.run = [=] {
    void* target = device_to < 0 ? to : reach(device_to, to, bytes, (what + ", destination").c_str());
    const void* source = staged ? staged->data() : device_from < 0 ? from : reach(device_from, from, bytes, (what + ", source").c_str());
    if (device_from >= 0 && device_to < 0 && bytes >= 4) {
      bool poisoned = false;
      for (size_t i = 0; i + 4 <= bytes && !poisoned; i += 4) poisoned = std::memcmp(static_cast<const char*>(source) + i, &kPoison32, 4) == 0;
      if (poisoned) poisoned_read(what);
    }
    std::memmove(target, source, bytes);
  };
  enqueue_locked(stream, std::move(op));
  return cudaSuccess;
}

const char* kind_name(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost: return "host to host";
    case cudaMemcpyHostToDevice: return "host to device";
    case cudaMemcpyDeviceToHost: return "device to host";
    case cudaMemcpyDeviceToDevice: return "device to device";
    default: return "default";
  }
}

cudaError_t copy_by_kind_locked(std::unique_lock<std::mutex>& lock, CUstream_st* stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind, const char* call) {
  const int device_to = device_of_address_locked(reinterpret_cast<uintptr_t>(to));
  const int device_from = device_of_address_locked(reinterpret_cast<uintptr_t>(from));
  const std::string what = std::string(call) + " (" + kind_name(kind) + ")" + bytes_text(bytes);
  const bool wants_device_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_device_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (wants_device_to != (device_to >= 0) || wants_device_from != (device_from >= 0))) {
    report_locked(what + ": the direction does not fit the pointers: to " + (device_to >= 0 ? "device" : "host") + " memory, from " + (device_from >= 0 ? "device" : "host") + " memory");
    return cudaErrorInvalidMemcpyDirection;
  }
  return copy_locked(lock, stream, to, device_to, from, device_from, bytes, what);
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

#define LOCKED                                       \
  World& w = world();                                \
  std::unique_lock<std::mutex> lock(w.mutex);        \
  (void)lock
#define WITH_DEVICE                                                \
  LOCKED;                                                          \
  if (w.devices.empty()) return set_error(cudaErrorNoDevice);      \
  Device& device = *w.devices[static_cast<size_t>(current_device())]; \
  if (device.lost != cudaSuccess) return set_error(device.lost)

// ---- devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  LOCKED;
  *count = 0;
  if (driver_version_locked() < CUDART_VERSION / 1000 * 1000) return set_error(cudaErrorInsufficientDriver);  // an older major version
  *count = static_cast<int>(w.devices.size());
  return set_error(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int index) {
  LOCKED;
  if (!valid_device_locked(index)) return set_error(cudaErrorInvalidDevice);
  current_device() = index;
  return set_error(w.devices[static_cast<size_t>(index)]->lost);
}

cudaError_t cudaGetDevice(int* index) {
  *index = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int index) {
  LOCKED;
  if (!valid_device_locked(index)) return set_error(cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof p->name, "Emulated GPU %d", index);
  p->totalGlobalMem = w.settings.memory;
  p->uuid.bytes[0] = 0x0E;
  p->uuid.bytes[15] = static_cast<char>(w.settings.visible.empty() ? index : w.settings.visible[static_cast<size_t>(index)]);
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->reservedSharedMemPerBlock = 1 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = 0x7fffffff;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 64 << 10;
  p->major = w.settings.major, p->minor = w.settings.minor;
  p->textureAlignment = 512;
  p->multiProcessorCount = 4;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = p->streamPrioritiesSupported = p->hostRegisterSupported = 1;
  p->asyncEngineCount = 2;
  p->memoryBusWidth = 64;
  p->l2CacheSize = 1 << 20;
  p->pciBusID = index;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, index); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    case cudaDevAttrMemoryClockRate: *value = 1000000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrComputeMode: *value = cudaComputeModeDefault; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrPciBusId: *value = index; break;
    case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrManagedMemory: case cudaDevAttrCooperativeLaunch: case cudaDevAttrIntegrated: *value = 0; break;
    default: report("cudaDeviceGetAttribute: the emulation does not know attribute " + std::to_string(attribute)); return set_error(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  LOCKED;
  return *version = driver_version_locked(), cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  LOCKED;
  if (!valid_device_locked(from) || !valid_device_locked(to)) return set_error(cudaErrorInvalidDevice);
  *can = from != to && w.settings.peers;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  WITH_DEVICE;
  if (!valid_device_locked(peer) || peer == current_device() || flags != 0) return set_error(cudaErrorInvalidDevice);
  if (!w.settings.peers) return set_error(cudaErrorPeerAccessUnsupported);
  return set_error(device.peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  WITH_DEVICE;
  return set_error(device.peers.erase(peer) ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaDeviceSynchronize() {
  WITH_DEVICE;
  return set_error(wait_for_device(lock, current_device()));
}

cudaError_t cudaDeviceReset() {
  report("cudaDeviceReset: refused: a plugin shares the process with others");
  return set_error(cudaErrorNotSupported);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int index) {
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", index);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

// ---- errors ----

cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetLastError() {
  LOCKED;
  const cudaError_t lost = w.devices.empty() ? cudaSuccess : w.devices[static_cast<size_t>(current_device())]->lost;
  const cudaError_t error = lost != cudaSuccess ? lost : last_error;
  last_error = cudaSuccess;
  return error;
}

namespace {
struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported", "peer access is not supported between these two devices"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return e.name;
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return e.text;
  return "unrecognized error code";
}

// ---- streams ----

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  WITH_DEVICE;
  if (flags & ~cudaStreamNonBlocking) return set_error(cudaErrorInvalidValue);
  *stream = make_object_locked<CUstream_st>("stream", current_device());
  (*stream)->flags = flags;
  (*stream)->id = ++w.stream_ids;
  w.streams.push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  LOCKED;
  auto* s = find_locked<CUstream_st>(stream, "cudaStreamDestroy");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  s->alive = false;  // what is enqueued still runs
  if (s->queue.empty()) std::erase(w.streams, s);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaStreamSynchronize");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  if (s->last)
    if (const cudaError_t error = wait_for(lock, s->last); error != cudaSuccess) return set_error(error);
  return set_error(w.devices[static_cast<size_t>(s->device)]->lost);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaStreamQuery");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  if (const cudaError_t lost = w.devices[static_cast<size_t>(s->device)]->lost; lost != cudaSuccess) return set_error(lost);
  if (s->last && !s->last->done) return nudge(lock, s->last), set_error(cudaErrorNotReady);
  if (s->last) merge(w.host, s->last->clock);
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* index) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaStreamGetDevice");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  *index = s->device;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaStreamWaitEvent");
  auto* e = find_locked<CUevent_st>(event, "cudaStreamWaitEvent");
  if (!s || !e) return set_error(cudaErrorInvalidResourceHandle);
  if (flags != 0) return set_error(cudaErrorInvalidValue);
  if (!e->mark) return cudaSuccess;  // never recorded: nothing to wait for
  Operation op;
  op.what = "cudaStreamWaitEvent";
  op.after.push_back(e->mark);
  enqueue_locked(s, std::move(op));
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaLaunchHostFunc");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  if (!function) return set_error(cudaErrorInvalidValue);
  Operation op;
  op.what = "cudaLaunchHostFunc";
  op.run = [=] { function(data); };
  enqueue_locked(s, std::move(op));
  return set_error(w.devices[static_cast<size_t>(s->device)]->lost);
}

// ---- events ----

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  WITH_DEVICE;
  *event = make_object_locked<CUevent_st>("event", current_device());
  (*event)->flags = flags;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  LOCKED;
  auto* e = find_locked<CUevent_st>(event, "cudaEventDestroy");
  if (!e) return set_error(cudaErrorInvalidResourceHandle);
  e->alive = false;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  LOCKED;
  auto* e = find_locked<CUevent_st>(event, "cudaEventRecord");
  CUstream_st* s = stream_locked(stream, "cudaEventRecord");
  if (!e || !s) return set_error(cudaErrorInvalidResourceHandle);
  if (flags != 0) return set_error(cudaErrorInvalidValue);
  if (e->device != s->device) {
    report_locked("cudaEventRecord: the event is device " + std::to_string(e->device) + "'s, the stream is device " + std::to_string(s->device) + "'s");
    return set_error(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t lost = w.devices[static_cast<size_t>(s->device)]->lost; lost != cudaSuccess) return set_error(lost);
  Operation op;
  op.what = "cudaEventRecord";
  e->mark = op.done;
  enqueue_locked(s, std::move(op));
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }

cudaError_t cudaEventQuery(cudaEvent_t event) {
  LOCKED;
  auto* e = find_locked<CUevent_st>(event, "cudaEventQuery");
  if (!e) return set_error(cudaErrorInvalidResourceHandle);
  if (const cudaError_t lost = w.devices[static_cast<size_t>(e->device)]->lost; lost != cudaSuccess) return set_error(lost);
  if (e->mark && !e->mark->done) return nudge(lock, e->mark), set_error(cudaErrorNotReady);
  if (e->mark) merge(w.host, e->mark->clock);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  LOCKED;
  auto* e = find_locked<CUevent_st>(event, "cudaEventSynchronize");
  if (!e) return set_error(cudaErrorInvalidResourceHandle);
  return set_error(e->mark ? wait_for(lock, e->mark) : cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  LOCKED;
  auto* a = find_locked<CUevent_st>(start, "cudaEventElapsedTime");
  auto* b = find_locked<CUevent_st>(end, "cudaEventElapsedTime");
  if (!a || !b || !a->mark || !b->mark || ((a->flags | b->flags) & cudaEventDisableTiming)) return set_error(cudaErrorInvalidResourceHandle);
  if (!a->mark->done || !b->mark->done) return set_error(cudaErrorNotReady);
  *ms = static_cast<float>(b->mark->time_ms - a->mark->time_ms);
  return cudaSuccess;
}

// ---- copies ----

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaMemcpyAsync");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  return set_error(copy_by_kind_locked(lock, s, to, from, bytes, kind, "cudaMemcpyAsync"));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  LOCKED;
  CUstream_st* s = stream_locked(nullptr, "cudaMemcpy");
  if (!s) return set_error(cudaErrorNoDevice);
  const cudaError_t error = copy_by_kind_locked(lock, s, to, from, bytes, kind, "cudaMemcpy");
  if (error != cudaSuccess || bytes == 0) return set_error(error);
  return set_error(wait_for(lock, s->last));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int device_to, const void* from, int device_from, size_t bytes, cudaStream_t stream) {
  LOCKED;
  CUstream_st* s = stream_locked(stream, "cudaMemcpyPeerAsync");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  if (!valid_device_locked(device_to) || !valid_device_locked(device_from)) return set_error(cudaErrorInvalidDevice);
  const std::string what = "cudaMemcpyPeerAsync" + bytes_text(bytes);
  if (device_of_address_locked(reinterpret_cast<uintptr_t>(to)) != device_to || device_of_address_locked(reinterpret_cast<uintptr_t>(from)) != device_from) {
    report_locked(what + ": the pointers are not of the devices named");
    return set_error(cudaErrorInvalidValue);
  }
  return set_error(copy_locked(lock, s, to, device_to, from, device_from, bytes, what));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  LOCKED;
  CUstream_st* s = stream_of_current_device_locked(stream, "cudaMemsetAsync");
  if (!s) return set_error(cudaErrorInvalidResourceHandle);
  if (const cudaError_t lost = w.devices[static_cast<size_t>(s->device)]->lost; lost != cudaSuccess) return set_error(lost);
  if (bytes == 0) return cudaSuccess;
  Operation op;
  op.what = "cudaMemsetAsync" + bytes_text(bytes);
  if (!check_range_locked(s->device, to, bytes, op.what)) return set_error(cudaErrorInvalidValue);
  op.spans.push_back({to, bytes, true});
  op.run = [=, what = op.what, index = s->device] { std::memset(reach(index, to, bytes, what.c_str()), value, bytes); };
  enqueue_locked(s, std::move(op));
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
