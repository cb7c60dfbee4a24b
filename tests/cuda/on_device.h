// What the tests of the emulation share: violations by part of their text, device memory, streams and events that are destroyed at the end of a scope.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/cuda_emulation/emulation.h"

inline bool caught(const std::string& part) {
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
