// See libraries.h.
#include "backends/cuda/libraries.h"

#include <dlfcn.h>

#include "backends/cuda/error.h"
#if defined(ENGINE_CUDA_LINKED)
#include "cuda_emulation/emulation.h"
#endif

namespace eng::cuda {
namespace {

#if defined(ENGINE_CUDA_LINKED)

void need(const char* what) {
  if (eng_emulation::is_missing(what)) throw Failure(EB_UNSUPPORTED, std::string(what) + " is needed but cannot be loaded: the emulation is without it");
}

#define ENG_LINK(name) f.name = ::name;
Cublas load_cublas() { need("cuBLAS"); Cublas f; ENG_CUBLAS_FUNCTIONS(ENG_LINK) return f; }
Cudnn load_cudnn() { need("cuDNN"); Cudnn f; ENG_CUDNN_FUNCTIONS(ENG_LINK) return f; }
Nccl load_nccl() { need("NCCL"); Nccl f; ENG_NCCL_FUNCTIONS(ENG_LINK) return f; }
#undef ENG_LINK

#else

// A shared library by its versioned name, as the system's loader and this plugin's run path find it.
class Library {
 public:
  Library(const char* what, const std::string& file) : what_(what), file_(file), handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw Failure(EB_UNSUPPORTED, std::string(what_) + " is needed but cannot be loaded: " + dlerror());
  }
  template <class F>
  void find(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (!function) throw Failure(EB_UNSUPPORTED, std::string(what_) + ": " + file_ + " has no function " + name + "; another version is needed");
  }

 private:
  const char* what_;
  std::string file_;
  void* handle_;
};

#define ENG_FIND(name) library.find(#name, f.name);
Cublas load_cublas() {
  const Library library("cuBLAS", "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR));
  Cublas f;
  ENG_CUBLAS_FUNCTIONS(ENG_FIND)
  return f;
}
Cudnn load_cudnn() {
  const Library library("cuDNN", "libcudnn.so." + std::to_string(CUDNN_MAJOR));
  Cudnn f;
  ENG_CUDNN_FUNCTIONS(ENG_FIND)
  return f;
}
Nccl load_nccl() {
  const Library library("NCCL", "libnccl.so." + std::to_string(NCCL_MAJOR));
  Nccl f;
  ENG_NCCL_FUNCTIONS(ENG_FIND)
  return f;
}
#undef ENG_FIND

#endif

template <class F>
std::string reason(F&& load) {
  try {
    load();
    return "";
  } catch (const Failure& e) {
    return e.what();
  }
}

}  // namespace

const Cublas& cublas() {
  static const Cublas functions = load_cublas();
  return functions;
}
const Cudnn& cudnn() {
  static const Cudnn functions = load_cudnn();
  return functions;
}
const Nccl& nccl() {
  static const Nccl functions = load_nccl();
  return functions;
}

std::string missing_cublas() { return reason(cublas); }
std::string missing_cudnn() { return reason(cudnn); }
std::string missing_nccl() { return reason(nccl); }

void check(cublasStatus_t result, const char* what) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  const int32_t code = result == CUBLAS_STATUS_ALLOC_FAILED ? EB_OUT_OF_MEMORY : result == CUBLAS_STATUS_EXECUTION_FAILED ? EB_DEVICE_LOST : EB_INTERNAL;
  throw Failure(code, std::string(what) + ": cuBLAS: " + cublas().cublasGetStatusString(result));
}
void check(cudnnStatus_t result, const char* what) {
  if (result == CUDNN_STATUS_SUCCESS) return;
  throw Failure(result == CUDNN_STATUS_NOT_SUPPORTED ? EB_UNSUPPORTED : EB_INTERNAL, std::string(what) + ": cuDNN: " + cudnn().cudnnGetErrorString(result));
}
void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const int32_t code = result == ncclInvalidArgument || result == ncclInvalidUsage ? EB_INVALID_ARGUMENT : result == ncclUnhandledCudaError ? EB_DEVICE_LOST : EB_INTERNAL;
  throw Failure(code, std::string(what) + ": NCCL: " + nccl().ncclGetErrorString(result));
}

}  // namespace eng::cuda
