// The memory table: the engine's few blocks come from cudaMalloc, pinned host memory from cudaHostAlloc; copies are asynchronous.
#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/error.h"

namespace eng::cuda {
namespace {

std::string room(eb_device* device) {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";
  return "; cuda:" + std::to_string(device->index) + " has " + std::to_string(free) + " of " + std::to_string(total) + " bytes free";
}

int32_t allocate(eb_device* device, uint64_t bytes, void** pointer, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "free memory");
    const cudaError_t result = bytes > total ? cudaErrorMemoryAllocation : cudaMalloc(pointer, bytes ? bytes : 1);
    if (result == cudaSuccess) return;
    (void)cudaGetLastError();
    *pointer = nullptr;
    if (result == cudaErrorMemoryAllocation) throw Failure(EB_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes of device memory" + room(device));
    check(result, "allocating device memory");
  });
}

void release(eb_device* device, void* pointer) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(device);
    (void)cudaFree(pointer);
    (void)cudaGetLastError();
  });
}

int32_t allocate_host(eb_device* device, uint64_t bytes, void** pointer, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    *pointer = nullptr;
    const cudaError_t result = bytes >> 48 ? cudaErrorMemoryAllocation : cudaHostAlloc(pointer, bytes ? bytes : 1, cudaHostAllocPortable);
    if (result == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw Failure(EB_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) + " bytes of pinned host memory");
    }
    check(result, "allocating pinned host memory");
  });
}

void release_host(eb_device* device, void* pointer) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(device);
    (void)cudaFreeHost(pointer);
    (void)cudaGetLastError();
  });
}

int32_t copy(eb_stream* stream, void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, eb_error* error) {
  return guard(error, [&] {
    if (bytes == 0 || to == from) return;
    const DeviceScope scope(stream->device);
    stream->trace.around(stream->stream, EB_SPAN_COPY, nullptr, bytes, [&] { check(cudaMemcpyAsync(to, from, bytes, kind, stream->stream), "copying"); });
  });
}
int32_t copy_to_device(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error* error) { return copy(s, to, from, bytes, cudaMemcpyHostToDevice, error); }
int32_t copy_to_host(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error* error) { return copy(s, to, from, bytes, cudaMemcpyDeviceToHost, error); }
int32_t copy_on_device(eb_stream* s, void* to, const void* from, uint64_t bytes, eb_error* error) { return copy(s, to, from, bytes, cudaMemcpyDeviceToDevice, error); }

int32_t fill_zero(eb_stream* stream, void* to, uint64_t bytes, eb_error* error) {
  return guard(error, [&] {
    if (bytes == 0) return;
    const DeviceScope scope(stream->device);
    stream->trace.around(stream->stream, EB_SPAN_FILL, nullptr, bytes, [&] { check(cudaMemsetAsync(to, 0, bytes, stream->stream), "filling with zeros"); });
  });
}

int32_t copy_between(eb_stream* stream, eb_device* to_device, void* to, eb_device* from_device, const void* from, uint64_t bytes, eb_error* error) {
  return guard(error, [&] {
    if (bytes == 0 || to == from) return;
    const DeviceScope scope(stream->device);
    stream->trace.around(stream->stream, EB_SPAN_COPY, nullptr, bytes, [&] {
      if (to_device->index == from_device->index) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream->stream), "copying");
      else check(cudaMemcpyPeerAsync(to, to_device->index, from, from_device->index, bytes, stream->stream), "copying between devices");
    });
  });
}

}  // namespace

const eb_memory_table kMemory = {sizeof(eb_memory_table), 0, allocate, release, allocate_host, release_host, copy_to_device, copy_to_host, copy_on_device, fill_zero, copy_between};

}  // namespace eng::cuda
