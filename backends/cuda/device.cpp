// The core table: which devices there are, why one cannot be used, opening and closing. The driver is first asked when somebody asks
// for devices; a context, cuBLAS and cuDNN come into being when a device is opened and kernels need them.
#include "backends/cuda/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/error.h"
#include "backends/cuda/kernel.h"

namespace eng::cuda {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr int kLowestMajor = 8;  // compute capability; what CMakeLists.txt compiles for

struct Found {
  std::string name, description, unavailable, identity;
  uint64_t total = 0;
};

// Open handles of each device, so that free memory can be asked for without making a context.
constexpr int32_t kMost = 64;
std::array<std::atomic<int>, kMost> open_handles{};

std::string no_device_reason(cudaError_t error) {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  if (error == cudaErrorInsufficientDriver && driver == 0) return "no NVIDIA driver is installed (libcuda.so.1 is missing)";
  if (error == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is too old: it supports CUDA " + version(driver) + ", this plugin needs " + version(runtime) + "; update the driver";
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "the NVIDIA driver sees no device (is one there, and does CUDA_VISIBLE_DEVICES hide it?)";
  return std::string("the NVIDIA driver cannot be used: ") + cudaGetErrorString(error);
}

Found look_at(int32_t index) {
  Found f;
  f.name = "cuda:" + std::to_string(index);
  cudaDeviceProp p{};
  const cudaError_t error = cudaGetDeviceProperties(&p, index);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    f.description = "CUDA device";
    f.unavailable = std::string("its properties cannot be read: ") + cudaGetErrorString(error);
    return f;
  }
  const std::string capability = std::to_string(p.major) + "." + std::to_string(p.minor);
  f.description = std::string(p.name) + ", compute capability " + capability;
  f.total = p.totalGlobalMem;
  f.identity = "GPU-";
  for (const char byte : p.uuid.bytes)
    for (const int half : {byte >> 4 & 15, byte & 15}) f.identity += "0123456789abcdef"[half];
  int mode = cudaComputeModeDefault;
  (void)cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, index);
  if (p.major < kLowestMajor) f.unavailable = "it has compute capability " + capability + ", at least " + std::to_string(kLowestMajor) + ".0 is needed";
  else if (mode == cudaComputeModeProhibited) f.unavailable = "its compute mode is 'prohibited' (nvidia-smi -c)";
  return f;
}

// At least one entry: where there is none to use, cuda:0 with the reason.
const std::vector<Found>& devices() {
  static const std::vector<Found> list = [] {
    std::vector<Found> all;
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    if (error == cudaSuccess)
      for (int32_t i = 0; i < std::min(count, kMost); ++i) all.push_back(look_at(i));
    if (all.empty()) all.push_back({"cuda:0", "no CUDA device", no_device_reason(error), {}, 0});
    return all;
  }();
  return list;
}

const Found& found(int32_t index) {
  const auto& list = devices();
  if (index < 0 || index >= static_cast<int32_t>(list.size())) {
    const Found& last = list.back();
    if (list.size() == 1) throw Failure(EB_INVALID_ARGUMENT, last.unavailable.empty() ? "there is cuda:0 alone" : "there is none: " + last.unavailable);
    throw Failure(EB_INVALID_ARGUMENT, "there are cuda:0 to " + last.name);
  }
  return list[static_cast<size_t>(index)];
}

int32_t device_count(int32_t* count, eb_error* error) {
  return guard(error, [&] { *count = static_cast<int32_t>(devices().size()); });
}

int32_t device_info(int32_t index, eb_device_info* info, eb_error* error) {
  return guard(error, [&] {
    const Found& f = found(index);
    eb_device_info full{};
    full.struct_size = info->struct_size;
    full.index = index;
    full.name = eb::str(f.name);
    full.description = eb::str(f.description);
    full.total_memory = full.free_memory = f.total;  // all of it while the process has no context there
    if (open_handles[static_cast<size_t>(index)] > 0) {
      const DeviceScope scope(index);
      size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "free memory");
      full.free_memory = free;
    }
    // No EB_CAP_CHANNELS_LAST: in float32 without tensor cores cuDNN has more algorithms for row-major operands.
    full.alignment = kAlignment;
    full.unavailable = eb::str(f.unavailable);
    full.identity = eb::str(f.identity);
    std::memcpy(info, &full, std::min<size_t>(info->struct_size, sizeof full));
  });
}

// Direct copies between devices that can; the others go through the host, which cudaMemcpyPeerAsync does by itself.
void enable_peers(int32_t index) {
  for (int32_t other = 0; other < static_cast<int32_t>(devices().size()); ++other) {
    if (other == index || open_handles[static_cast<size_t>(other)] == 0) continue;
    for (const auto& [from, to] : {std::pair(index, other), std::pair(other, index)}) {
      int can = 0;
      if (cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || !can) continue;
      const DeviceScope scope(from);
      (void)cudaDeviceEnablePeerAccess(to, 0);  // enabled already is fine
    }
  }
  (void)cudaGetLastError();
}

int32_t open_device(int32_t index, const eb_device_options* options, eb_device** device, eb_error* error) {
  return guard(error, [&] {
    const Found& f = found(index);
    if (!f.unavailable.empty()) throw Failure(EB_DEVICE_LOST, f.unavailable);
    const DeviceScope scope(index);
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "making a context");  // and a device that is lost says so here
    check_device_code();
    auto d = std::make_unique<eb_device>();
    d->index = index;
    d->deterministic = options && options->deterministic;  // all kernels are, in any case
    if (open_handles[static_cast<size_t>(index)]++ == 0) enable_peers(index);
    *device = d.release();
  });
}

void close_device(eb_device* device) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(device);
    if (device->blas) (void)cublas().cublasDestroy_v2(device->blas);
    if (device->dnn) (void)cudnn().cudnnDestroy(device->dnn);
    if (device->preparing) (void)cudaStreamDestroy(device->preparing);
  });
  --open_handles[static_cast<size_t>(device->index)];
  delete device;
}

void shutdown() {}

}  // namespace

DeviceScope::DeviceScope(int32_t index) {
  int now = -1;
  check(cudaGetDevice(&now), "asking for the current device");
  if (now == index) return;
  const cudaError_t result = cudaSetDevice(index);
  if (result != cudaSuccess) (void)cudaSetDevice(now);  // of a lost device it may fail and yet take effect
  check(result, "making the device current");
  before_ = now;
}
DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

void need_blas(eb_device* device) {
  const std::lock_guard lock(device->mutex);
  if (!device->blas) check(cublas().cublasCreate_v2(&device->blas), "making a cuBLAS handle");
}
void need_dnn(eb_device* device) {
  const std::lock_guard lock(device->mutex);
  if (device->dnn) return;
  if (!device->preparing) check(cudaStreamCreateWithFlags(&device->preparing, cudaStreamNonBlocking), "making a stream");
  check(cudnn().cudnnCreate(&device->dnn), "making a cuDNN handle");
  check(cudnn().cudnnSetStream(device->dnn, device->preparing), "cuDNN's stream");
}

const eb_core_table kCore = {sizeof(eb_core_table), 0, device_count, device_info, open_device, close_device, shutdown};

}  // namespace eng::cuda
