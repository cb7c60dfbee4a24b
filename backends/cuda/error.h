// Errors inside the plugin are exceptions that carry an eb_code; guard() turns them into the ABI's code and message at every
// entry point, check() makes them from CUDA's results.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "backends/abi/backend.hpp"

namespace eng::cuda {

class Failure : public std::runtime_error {
 public:
  Failure(int32_t error_code, const std::string& message) : std::runtime_error(message), code(error_code) {}
  int32_t code;
};

// The eb_code of a CUDA error; EB_DEVICE_LOST for those after which every call on the device fails.
int32_t code_of(cudaError_t error);
// Throws Failure("what: CUDA's text") unless `result` is success; clears CUDA's last error.
void check(cudaError_t result, const char* what);

template <class F>
int32_t guard(eb_error* error, F&& f) noexcept {
  return eb::guard(error, [&]() -> int32_t {
    try {
      f();
      return EB_OK;
    } catch (const Failure& e) {
      return eb::fail(error, e.code, e.what());
    }
  });
}

}  // namespace eng::cuda
