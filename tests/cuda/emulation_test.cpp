// The CUDA emulation itself (tests/support/cuda_emulation): right programs run and give right values, and every planted mistake is caught.
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/launch.h"
#include "tests/cuda/on_device.h"
#include "tests/support/cuda_emulation/emulation.h"

using eng::cuda::launch;
using eng_emulation::Order;
using eng_emulation::Settings;

namespace {

template <class T>
__global__ void scale(T* y, const T* x, float factor, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] * factor;
}

// Sum of a block of threads by warps, then over the warps' sums.
__global__ void block_sums(float* sums, const float* x, int n) {
  ENG_SHARED(float, of_warp, [32]);
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float v = i < n ? x[i] : 0.0f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, static_cast<unsigned>(d));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  v = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0.0f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x == 0) sums[blockIdx.x] = v;
}

// Reverses a block by shared memory; without the barrier where `forgets`.
__global__ void reverse(float* y, const float* x, int forgets) {
  ENG_DYNAMIC_SHARED(float, buffer);
  buffer[threadIdx.x] = x[threadIdx.x];
  if (!forgets) __syncthreads();
  y[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}

__global__ void one_sided_barrier(float* y) {
  if (threadIdx.x % 2) __syncthreads();
  else __syncwarp();
  y[threadIdx.x] = 1;
}

__global__ void write_past(float* y, int at) { y[at] = 1; }

struct Sources {
  const float* of[2];
};
__global__ void add_all(float* y, Sources sources, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < n) y[i] = sources.of[0][i] + sources.of[1][i];
}

__global__ void count_up(int* total) { atomicAdd(total, 1); }

}  // namespace

TEST_CASE("kernels run over all blocks and threads") {
  eng_emulation::reset();
  {
    std::vector<float> x(1000);
    std::iota(x.begin(), x.end(), 0.0f);
    OnDevice<float> from(x), to(x.size()), sums(4);
    OnDevice<int> total(std::vector<int>{0});
    Stream stream;
    CHECK(launch({dim3(4), dim3(256), 0, stream.at}, scale<float>, to.at, from.at, 0.5f, 1000) == cudaSuccess);
    CHECK(launch({dim3(4), dim3(256), 0, stream.at}, block_sums, sums.at, from.at, 1000) == cudaSuccess);
    CHECK(launch({dim3(2, 3), dim3(4, 5, 6), 0, stream.at}, count_up, total.at) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream.at) == cudaSuccess);
    const std::vector<float> scaled = to.host(), summed = sums.host();
    for (size_t i = 0; i < x.size(); ++i) CHECK(scaled[i] == x[i] * 0.5f);
    for (int b = 0; b < 4; ++b) {
      float expected = 0;
      for (int i = b * 256; i < std::min(1000, b * 256 + 256); ++i) expected += static_cast<float>(i);
      CHECK(summed[static_cast<size_t>(b)] == expected);
    }
    CHECK(total.host()[0] == 720);
  }
  CHECK(eng_emulation::violations().empty());
  CHECK(eng_emulation::leaks().empty());
}

TEST_CASE("pointers inside of a struct argument are found") {
  eng_emulation::reset();
  OnDevice<float> a(std::vector<float>{1, 2}), b(std::vector<float>{10, 20}), y(2);
  launch({dim3(1), dim3(32), 0, nullptr}, add_all, y.at, Sources{{a.at, b.at}}, 2);
  CHECK(y.host() == std::vector<float>{11, 22});
  CHECK(eng_emulation::violations().empty());
}

TEST_CASE("a kernel that lacks a barrier gives wrong values, one that has it never does") {
  std::vector<float> x(96);
  std::iota(x.begin(), x.end(), 1.0f);
  const std::vector<float> expected(x.rbegin(), x.rend());
  int wrong = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    eng_emulation::reset({.seed = seed});
    OnDevice<float> from(x), to(x.size());
    launch({dim3(1), dim3(96), 96 * sizeof(float), nullptr}, reverse, to.at, from.at, 0);
    CHECK(to.host() == expected);
    launch({dim3(1), dim3(96), 96 * sizeof(float), nullptr}, reverse, to.at, from.at, 1);
    wrong += to.host() != expected;
  }
  CHECK(wrong == 8);
}

TEST_CASE("threads that wait for each other are caught") {
  eng_emulation::reset();
  OnDevice<float> y(32);
  launch({dim3(1), dim3(32), 0, nullptr}, one_sided_barrier, y.at);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(caught("threads wait for each other"));
}

TEST_CASE("a kernel's write out of bounds is caught") {
  for (const int at : {-1, 100, 101, 5000, -100000}) {
    CAPTURE(at);
    eng_emulation::reset();
    OnDevice<float> y(100);
    launch({dim3(1), dim3(1), 0, nullptr}, write_past, y.at, at);
    cudaDeviceSynchronize();
    CHECK((caught("a block of 400 bytes on device 0") && caught(at < 0 ? "bytes before" : "past the end")));
  }
}

// ---- streams and memory ----

TEST_CASE("a program with two streams and the events it needs is right in every order") {
  for (const Order order : {Order::kLazy, Order::kRandom, Order::kEager})
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      eng_emulation::reset({.order = order, .seed = seed});
      {
        std::vector<float> x(64), y(64);
        std::iota(x.begin(), x.end(), 0.0f);
        OnDevice<float> a(64), b(64);
        Stream copies, compute;
        Event copied, computed;
        for (int step = 0; step < 3; ++step) {
          CHECK(cudaStreamWaitEvent(copies.at, computed.at, 0) == cudaSuccess);
          CHECK(cudaMemcpyAsync(a.at, x.data(), 256, cudaMemcpyHostToDevice, copies.at) == cudaSuccess);
          CHECK(cudaEventRecord(copied.at, copies.at) == cudaSuccess);
          CHECK(cudaStreamWaitEvent(compute.at, copied.at, 0) == cudaSuccess);
          CHECK(launch({dim3(2), dim3(32), 0, compute.at}, scale<float>, b.at, a.at, static_cast<float>(step + 1), 64) == cudaSuccess);
          CHECK(cudaEventRecord(computed.at, compute.at) == cudaSuccess);
        }
        CHECK(cudaMemcpyAsync(y.data(), b.at, 256, cudaMemcpyDeviceToHost, compute.at) == cudaSuccess);
        CHECK(cudaStreamSynchronize(compute.at) == cudaSuccess);
        for (size_t i = 0; i < 64; ++i) CHECK(y[i] == 3 * x[i]);
      }
      CHECK(eng_emulation::violations().empty());
      CHECK(eng_emulation::leaks().empty());
    }
}

TEST_CASE("a missing event is caught as a race, and lazily gives what was never written") {
  eng_emulation::reset();
  std::vector<float> x(64, 1.0f), y(64);
  OnDevice<float> a(64), b(64);
  Stream copies, compute;
  cudaMemcpyAsync(a.at, x.data(), 256, cudaMemcpyHostToDevice, copies.at);
  launch({dim3(2), dim3(32), 0, compute.at}, scale<float>, b.at, a.at, 2.0f, 64);  // nothing makes `compute` wait for `copies`
  CHECK(caught("race: kernel"));
  cudaMemcpyAsync(y.data(), b.at, 256, cudaMemcpyDeviceToHost, compute.at);
  cudaStreamSynchronize(compute.at);
  CHECK(std::isnan(y[0]));
  CHECK(caught("never written"));
}

TEST_CASE("memory that is used again too early is caught") {
  eng_emulation::reset();
  OnDevice<float> a(std::vector<float>(64, 1.0f)), b(64);
  Stream one, other;
  launch({dim3(2), dim3(32), 0, one.at}, scale<float>, b.at, a.at, 2.0f, 64);
  cudaMemsetAsync(a.at, 0, 256, other.at);  // `one` may still read
  CHECK(caught("race: cudaMemsetAsync of 256 bytes writes"));
}

TEST_CASE("pageable memory is staged when the call is made, pinned memory is read when the copy runs") {
  eng_emulation::reset();
  float pageable = 1, *pinned = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4) == cudaSuccess);
  *pinned = 1;
  OnDevice<float> a(1), b(1);
  Stream stream;
  cudaMemcpyAsync(a.at, &pageable, 4, cudaMemcpyHostToDevice, stream.at);
  cudaMemcpyAsync(b.at, pinned, 4, cudaMemcpyHostToDevice, stream.at);
  pageable = *pinned = 2;
  cudaStreamSynchronize(stream.at);
  CHECK(a.host()[0] == 1);
  CHECK(b.host()[0] == 2);
  cudaMemcpyAsync(b.at, pinned, 4, cudaMemcpyHostToDevice, stream.at);
  cudaFreeHost(pinned);
  CHECK(caught("cudaFreeHost: a copy that has not run yet"));
}

TEST_CASE("queries do not stay at not-ready for ever and do not wait") {
  eng_emulation::reset({.grace_ms = 100000});
  OnDevice<float> a(64);
  Stream stream;
  Event event;
  cudaMemsetAsync(a.at, 0, 256, stream.at);
  cudaEventRecord(event.at, stream.at);
  CHECK(cudaEventQuery(event.at) == cudaErrorNotReady);
  int queries = 1;
  while (cudaEventQuery(event.at) == cudaErrorNotReady && queries < 100) ++queries;
  CHECK(queries <= 3);
  CHECK(cudaStreamQuery(stream.at) == cudaSuccess);
}

TEST_CASE("work that nobody waits for begins after a while") {
  eng_emulation::reset({.grace_ms = 1});
  OnDevice<float> a(64);
  Stream stream;
  cudaMemsetAsync(a.at, 0, 256, stream.at);
  for (int i = 0; i < 5000 && eng_emulation::counts().pending > 0; ++i) usleep(1000);
  CHECK(eng_emulation::counts().pending == 0);
}

TEST_CASE("device memory cannot be read by the host") {
  eng_emulation::reset();
  OnDevice<float> a(std::vector<float>{1, 2});
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  CHECK(write(ends[1], a.at, 8) == -1);  // EFAULT instead of a crash
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("use after free, double free and wrong pointers are caught") {
  eng_emulation::reset();
  float *a = nullptr, host = 0;
  cudaMalloc(reinterpret_cast<void**>(&a), 256);
  OnDevice<float> y(64);
  Stream stream;
  CHECK(cudaFree(a) == cudaSuccess);
  CHECK(cudaMemcpyAsync(&host, a, 4, cudaMemcpyDeviceToHost, stream.at) == cudaErrorInvalidValue);
  CHECK(caught("freed memory"));
  CHECK(cudaFree(a) == cudaErrorInvalidValue);
  CHECK(caught("cudaFree: not the begin of a live block"));
  CHECK(cudaFree(y.at + 1) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(y.at + 60, &host, 256, cudaMemcpyHostToDevice, stream.at) == cudaErrorInvalidValue);
  CHECK(caught("out of bounds"));
  CHECK(cudaMemcpyAsync(&host, y.at, 4, cudaMemcpyHostToDevice, stream.at) == cudaErrorInvalidMemcpyDirection);
  eng_emulation::clear_violations();
  launch({dim3(1), dim3(1), 0, stream.at}, scale<float>, y.at, static_cast<const float*>(a), 1.0f, 1);
  CHECK(cudaStreamSynchronize(stream.at) == cudaErrorIllegalAddress);
  CHECK(caught("freed memory"));
  CHECK(cudaMemsetAsync(y.at, 0, 4, stream.at) == cudaErrorIllegalAddress);  // the device is lost
}

TEST_CASE("host pointers in kernels are caught") {
  eng_emulation::reset();
  OnDevice<float> y(4);
  std::vector<float> x(4);
  launch({dim3(1), dim3(4), 0, nullptr}, scale<float>, y.at, static_cast<const float*>(x.data()), 1.0f, 4);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(caught("a pointer argument is host memory"));
}

TEST_CASE("the wrong current device is caught, as is memory of another device") {
  eng_emulation::reset();
  {
    OnDevice<float> x(std::vector<float>{1, 2}), y(2);
    Stream stream;
    cudaSetDevice(1);
    CHECK(launch({dim3(1), dim3(2), 0, stream.at}, scale<float>, y.at, x.at, 1.0f, 2) == cudaErrorInvalidResourceHandle);
    CHECK(caught("the stream is device 0's, the current device is 1"));
    Event event;
    CHECK(cudaEventRecord(event.at, stream.at) == cudaErrorInvalidResourceHandle);
    Stream second;
    eng_emulation::clear_violations();
    launch({dim3(1), dim3(2), 0, second.at}, scale<float>, y.at, x.at, 1.0f, 2);
    CHECK(cudaStreamSynchronize(second.at) == cudaErrorIllegalAddress);
    CHECK(caught("without peer access"));
  }
  eng_emulation::reset();
  cudaSetDevice(0);
  {
    OnDevice<float> x(std::vector<float>{1, 2}), y(2);
    cudaSetDevice(1);
    CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
    Stream second;
    launch({dim3(1), dim3(2), 0, second.at}, scale<float>, y.at, x.at, 3.0f, 2);
    CHECK(cudaStreamSynchronize(second.at) == cudaSuccess);
    CHECK(y.host() == std::vector<float>{3, 6});
    OnDevice<float> z(2);
    CHECK(cudaMemcpyPeerAsync(z.at, 1, y.at, 0, 8, second.at) == cudaSuccess);
    CHECK(cudaStreamSynchronize(second.at) == cudaSuccess);
    CHECK(z.host() == std::vector<float>{3, 6});
    cudaSetDevice(0);
  }
  CHECK(eng_emulation::violations().empty());
}

TEST_CASE("what is not destroyed is listed") {
  eng_emulation::reset();
  cudaStream_t stream;
  cudaEvent_t event;
  void* memory;
  cudnnTensorDescriptor_t tensor;
  cudaStreamCreate(&stream);
  cudaEventCreate(&event);
  cudaMalloc(&memory, 100);
  cudnnCreateTensorDescriptor(&tensor);
  const std::vector<std::string> leaks = eng_emulation::leaks();
  REQUIRE(leaks.size() == 4);
  CHECK(leaks[0].find("100 bytes on device 0") != std::string::npos);
  CHECK(leaks[3].find("cuDNN tensor descriptor") != std::string::npos);
  CHECK(eng_emulation::counts().descriptors == 1);
  CHECK(cudnnDestroyTensorDescriptor(tensor) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnDestroyTensorDescriptor(tensor) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("was destroyed"));
  cudaStreamDestroy(stream);
  cudaEventDestroy(event);
  cudaFree(memory);
  CHECK(eng_emulation::leaks().empty());
}

TEST_CASE("failures come where the settings say") {
  eng_emulation::reset({.devices = 3, .memory = 1 << 20, .fail_allocation = 2, .fail_operation = 2});
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 3);
  void *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&a, 1024) == cudaSuccess);
  CHECK(cudaMalloc(&b, 1024) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&b, 2 << 20) == cudaErrorMemoryAllocation);
  Stream stream;
  cudaMemsetAsync(a, 0, 4, stream.at);
  CHECK(cudaStreamSynchronize(stream.at) == cudaSuccess);
  cudaMemsetAsync(a, 0, 4, stream.at);
  CHECK(cudaStreamSynchronize(stream.at) == cudaErrorLaunchFailure);
  eng_emulation::reset({.hang_seconds = 1, .hang_operation = 1});
  cudaMalloc(&a, 1024);
  Stream second;
  cudaMemsetAsync(a, 0, 4, second.at);
  CHECK(cudaStreamSynchronize(second.at) == cudaErrorLaunchTimeout);
  CHECK(caught("made no progress"));
}
