// See error.h.
#include "backends/cuda/error.h"

namespace eng::cuda {

int32_t code_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return EB_OK;
    case cudaErrorNotReady: return EB_NOT_READY;
    case cudaErrorMemoryAllocation: return EB_OUT_OF_MEMORY;
    case cudaErrorInvalidValue: return EB_INVALID_ARGUMENT;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver: return EB_DEVICE_LOST;
    default: return EB_INTERNAL;
  }
}

void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Failure(code_of(result), std::string(what) + ": " + cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")");
}

}  // namespace eng::cuda
