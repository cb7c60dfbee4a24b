// What the plugin's own loading of cuBLAS, cuDNN and NCCL says, in a process of its own, for tests/cuda/errors_test.cpp.
// Usage: cuda-libraries-probe file|missing cuBLAS|cuDNN|NCCL      file: the name it looks for; missing: why it cannot be used, nothing where it can
#include <cstdio>
#include <string>

#include "backends/cuda/libraries.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string what = argv[1], library = argv[2];
  std::string text;
  if (what == "file") text = library == "cuBLAS" ? "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR) : library == "cuDNN" ? "libcudnn.so." + std::to_string(CUDNN_MAJOR) : "libnccl.so." + std::to_string(NCCL_MAJOR);
  else text = library == "cuBLAS" ? eng::cuda::missing_cublas() : library == "cuDNN" ? eng::cuda::missing_cudnn() : eng::cuda::missing_nccl();
  std::fputs(text.c_str(), stdout);
  return 0;
}
