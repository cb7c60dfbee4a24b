// cuDNN's descriptors and the common begin of its calls.
#pragma once

#include <cudnn.h>

#include "tests/support/cuda_emulation/library.h"

struct cudnnContext : eng_emulation::LibraryHandle {};

struct cudnnTensorStruct : eng_emulation::Object {
  eng_emulation::Layout layout;
  bool set = false;
};
struct cudnnFilterStruct : eng_emulation::Object {
  eng_emulation::Layout layout;
  bool set = false, channels_last = false;
};
struct cudnnConvolutionStruct : eng_emulation::Object {
  std::vector<int> pad, stride, dilation;
  int groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  eng_emulation::Type compute = eng_emulation::Type::kFloat;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  bool set = false;
};
struct cudnnPoolingStruct : eng_emulation::Object {
  std::vector<int> window, pad, stride;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  bool nans = true, set = false;  // nans: a NaN is the maximum
};
struct cudnnActivationStruct : eng_emulation::Object {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
  double coefficient = 0, swish_beta = 1;
  bool set = false;
};
struct cudnnOpTensorStruct : eng_emulation::Object {
  cudnnOpTensorOp_t op = CUDNN_OP_TENSOR_ADD;
  bool set = false;
};
struct cudnnReduceTensorStruct : eng_emulation::Object {
  cudnnReduceTensorOp_t op = CUDNN_REDUCE_TENSOR_ADD;
  bool set = false;
};
struct cudnnLRNStruct : eng_emulation::Object {
  unsigned n = 5;
  double alpha = 1e-4, beta = 0.75, k = 2;
  bool set = true;  // has defaults
};

namespace eng_emulation {

bool type_of(cudnnDataType_t from, Type& to);  // false: the emulation has no such type
bool same_dims(const Layout& a, const Layout& b);

struct WorldLock {
  std::unique_lock<std::mutex> lock{world().mutex};
};

class DnnCall : private WorldLock, public Call {
 public:
  DnnCall(const char* name, cudnnHandle_t handle) : Call(name, find_locked<cudnnContext>(handle, name)) {}

  // The descriptor where it is alive and was set; else an empty one and a violation.
  template <class T>
  const T& get(const T* descriptor, const char* argument) {
    static const T kNone{};
    if (!good) return kNone;
    const T* found = find_locked<T>(descriptor, (what + ", " + argument).c_str());
    if (!found) good = false;
    else require(found->set, std::string(argument) + " was made but not set");
    return good ? *found : kNone;
  }
  void same(const Layout& a, const Layout& b, const char* operands);
  void identical(const Layout& a, const Layout& b, const char* operands);  // strides too
  // alpha and beta lie on the host: double for double tensors, else float.
  double scalar(const void* from, Type tensor, const char* argument);
  cudnnStatus_t failed() const { return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM; }
  cudnnStatus_t run(std::function<void(const Call&)> f);
};

}  // namespace eng_emulation
