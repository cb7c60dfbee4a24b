// The operands of a convolution pass by their part in Y[narrow] = sum W X[wide], and the loop kernels (conv_loops.cpp).
#pragma once

#include <memory>

#include "backends/cpu/window.h"

namespace eng::cpu {

struct ConvShape {
  TensorView wide, narrow, weight;  // X or dX; Y or dY; W or dW
  Window window;
  int64_t group = 1;
};

inline ConvShape conv_shape(const NodeView& n, const TensorView& wide, const TensorView& narrow, const TensorView& weight) {
  ConvShape s{wide, narrow, weight, {}, n.attr_int("group", 1)};
  s.window = read_window(n, wide, narrow, std::vector<int64_t>(weight.dims.begin() + 2, weight.dims.end()));
  return s;
}
inline ConvShape forward_shape(const NodeView& n) { return conv_shape(n, n.in(0), n.out(0), n.in(1)); }
inline ConvShape grad_input_shape(const NodeView& n) { return conv_shape(n, n.out(0), n.in(0), n.in(1)); }
inline ConvShape grad_weight_shape(const NodeView& n) { return conv_shape(n, n.in(0), n.in(1), n.out(0)); }

// Plain loops: any strides, pads, groups; float32 and float64.
std::string conv_loops_can_run(const NodeView& n);
std::unique_ptr<Kernel> create_conv_loops(const NodeView& n, int threads);
std::unique_ptr<Kernel> create_conv_grad_input_loops(const NodeView& n, int threads);
// ConvTranspose: inputs X (narrow), W and an optional bias.
std::unique_ptr<Kernel> create_transposed_loops(const NodeView& n, const ConvShape& s);
std::unique_ptr<Kernel> create_conv_grad_weight_loops(const NodeView& n, int threads);

}  // namespace eng::cpu
