// The operands of a convolution by their part in Y[narrow] = sum W X[wide], and the direct kernels (conv_direct.cu): any strides, pads, groups and one to three
// spatial axes; a thread an element, dW a reduction. First choice for depthwise convolutions, the last resort for all others.
#pragma once

#include <memory>

#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"
#include "backends/cuda/window.h"

namespace eng::cuda {

struct ConvShape {
  TensorView wide, narrow, weight;  // X or dX; Y or dY; W or dW
  Window window;
  int64_t group = 1;
  bool depthwise() const { return group == wide.dims[1] && group == narrow.dims[1]; }
};

inline ConvShape conv_shape(const NodeView& n, const TensorView& wide, const TensorView& narrow, const TensorView& weight) {
  return {wide, narrow, weight, read_window(n, wide, narrow, std::vector<int64_t>(weight.dims.begin() + 2, weight.dims.end())), n.attr_int("group", 1)};
}
inline ConvShape forward_shape(const NodeView& n) { return conv_shape(n, n.in(0), n.out(0), n.in(1)); }
inline ConvShape grad_input_shape(const NodeView& n) { return conv_shape(n, n.out(0), n.in(0), n.in(1)); }
inline ConvShape grad_weight_shape(const NodeView& n) { return conv_shape(n, n.in(0), n.in(1), n.out(0)); }

std::unique_ptr<Kernel> create_conv_direct(const NodeView& n, eb_device* device);
std::unique_ptr<Kernel> create_conv_grad_input_direct(const NodeView& n, eb_device* device);
std::unique_ptr<Kernel> create_conv_grad_weight_direct(const NodeView& n, eb_device* device);

// Y += bias, a value a channel; float32 and float64.
class AddBias {
 public:
  AddBias() = default;
  explicit AddBias(const TensorView& y);
  void run(cudaStream_t stream, int32_t dtype, void* y, const void* bias) const;

 private:
  Loop<2> loop_{};
};

// The sum of dY over all but its channels.
class SumOverChannels {
 public:
  SumOverChannels() = default;
  explicit SumOverChannels(const TensorView& dy);
  size_t workspace() const { return workspace_; }
  void run(cudaStream_t stream, int32_t dtype, const void* dy, void* bias, void* space) const;

 private:
  Loop<1> inside_{};
  int64_t step_ = 0, channels_ = 0;
  bool side_by_side_ = false;
  size_t workspace_ = 0;
};

}  // namespace eng::cuda
