// The CUDA emulation itself (tests/support/cuda_emulation): right programs run and give right values, and every planted mistake is caught.
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cuda/launch.h"
#include "tests/support/cuda_emulation/emulation.h"

using eng::cuda::launch;
using eng_emulation::Order;
using eng_emulation::Settings;

namespace {

bool caught(const std::string& part) {
  for (const std::string& v : eng_emulation::violations())
    if (v.find(part) != std::string::npos) return true;
  return false;
}

// Device memory with content, freed at the end.
template <class T>
struct OnDevice {
  T* at = nullptr;
  size_t count;
  explicit OnDevice(size_t n) : count(n) { REQUIRE(cudaMalloc(reinterpret_cast<void**>(&at), n * sizeof(T)) == cudaSuccess); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) { REQUIRE(cudaMemcpy(at, values.data(), count * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess); }
  ~OnDevice() { cudaFree(at); }
  std::vector<T> host() const {
    std::vector<T> out(count);
    cudaMemcpy(out.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
  }
};

struct Stream {
  cudaStream_t at = nullptr;
  Stream() { REQUIRE(cudaStreamCreateWithFlags(&at, cudaStreamNonBlocking) == cudaSuccess); }
  ~Stream() { cudaStreamDestroy(at); }
};

struct Event {
  cudaEvent_t at = nullptr;
  Event() { REQUIRE(cudaEventCreateWithFlags(&at, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(at); }
};

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
