// What the kernels that call cuDNN share: descriptors that end with their owner, tensors as cuDNN is to see them, the device's handle on the
// stream of a run, and the kernel of this backend that takes over where cuDNN refuses.
//
// A file kernels/<stem>_cudnn holds cuDNN's kernels of a family and stands before <stem> in kernel_list.cpp; its KernelDefs are named "cudnn".
#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/kernel.h"

namespace eng::cuda {

template <class Handle, class Create, class Destroy>
class Descriptor {
 public:
  Descriptor(Create create, Destroy destroy) : destroy_(destroy) { check(create(&handle_), "making a descriptor"); }
  ~Descriptor() { (void)destroy_(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
  Destroy destroy_;
};

// A float32 tensor of four or five axes.
class TensorDescriptor {
 public:
  TensorDescriptor(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);
  cudnnTensorDescriptor_t get() const { return d_.get(); }

 private:
  Descriptor<cudnnTensorDescriptor_t, decltype(Cudnn::cudnnCreateTensorDescriptor), decltype(Cudnn::cudnnDestroyTensorDescriptor)> d_;
};

// (N, C) as (N, C, 1, 1), (N, C, L) as (N, C, 1, L); else as it is.
TensorView planar(const TensorView& t);
std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& dims);

using Operands = std::initializer_list<const TensorView*>;
// How all of the operands lie that cuDNN is given; absent ones do not count.
bool all_row_major(Operands operands);
bool all_channels_last(Operands operands);
// Why cuDNN is not given these operands, empty where it is: it is not there, they are not float32, empty, too large, or lie neither all row-major nor all channels-last.
std::string refused_by_cudnn(Operands operands);
// `t` in the order that all operands have.
std::unique_ptr<TensorDescriptor> describe(const TensorView& t, Operands all);

// The device's handle on the run's stream, for one call: the handle is shared by the device's streams.
class DnnHandle {
 public:
  explicit DnnHandle(const RunContext& c) : held_(c.device->mutex), handle_(c.device->dnn) { check(cudnn().cudnnSetStream(handle_, c.stream), "cuDNN's stream"); }
  operator cudnnHandle_t() const { return handle_; }

 private:
  std::unique_lock<std::mutex> held_;
  cudnnHandle_t handle_;
};

// Factors of a result and of what was there before.
inline constexpr float kDnnOne = 1, kDnnZero = 0;

// The kernel with the first of the node's kernels that does without cuDNN behind it. Whether cuDNN supports the operands cannot be asked beforehand but for
// convolutions: its answer "not supported", which it gives before it enqueues anything, comes with the first run. From then on the other one runs.
std::unique_ptr<Kernel> with_own_kernel(std::unique_ptr<Kernel> by_cudnn, const NodeView& n, eb_device* device);

template <class K>
std::unique_ptr<Kernel> create_cudnn(const NodeView& n, eb_device* device) {
  need_dnn(device);
  return with_own_kernel(std::make_unique<K>(n), n, device);
}

}  // namespace eng::cuda
