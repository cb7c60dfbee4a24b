// Devices, streams and events of the CUDA backend, and the libraries' handles. Every entry point makes its device the current one by
// a DeviceScope, so that any thread may call.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>

#include "backends/abi/backend_abi.h"
#include "backends/cuda/libraries.h"
#include "backends/cuda/profiler.h"

struct eb_device {
  int32_t index = 0;
  bool deterministic = false;
  // Made when a kernel first needs one (never while running); a handle serves all streams of the device, one call at a time.
  std::mutex mutex;
  cublasHandle_t blas = nullptr;
  cudnnHandle_t dnn = nullptr;
  cudaStream_t preparing = nullptr;  // what handles hold until a kernel runs
};

struct eb_stream {
  eb_device* device = nullptr;
  cudaStream_t stream = nullptr;
  eng::cuda::StreamTrace trace;
};

struct eb_event {
  eb_device* device = nullptr;
  cudaEvent_t event = nullptr;
};

namespace eng::cuda {

// Makes a device current for the calling thread until the scope ends.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t index);
  explicit DeviceScope(const eb_device* device) : DeviceScope(device->index) {}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = -1;  // -1: nothing to restore
};

// Makes the handle where there is none yet. The device must be current.
void need_blas(eb_device* device);
void need_dnn(eb_device* device);

extern const eb_core_table kCore;
extern const eb_memory_table kMemory;
extern const eb_stream_table kStreams;
extern const eb_collectives_table kCollectives;

}  // namespace eng::cuda
