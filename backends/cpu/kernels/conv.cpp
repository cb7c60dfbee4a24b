// Conv, ConvGradInput, ConvGradWeight with oneDNN, and plain loops for what oneDNN refuses (float64, odd pads).
// Activations are used channels-last (oneDNN's brgemm kernels); others are copied into that order in the workspace. Weights
// come in any order and are copied into oneDNN's packed form at each run. Backward weights is the one pass that is clearly
// faster on 16-channel blocks for some shapes; a fixed rule (blocked_pays) chooses, so bits do not depend on a measurement.
#include "backends/cpu/kernels/conv_onednn.h"

namespace eng::cpu {
namespace {

using dnnl::memory;
using Desc = memory::desc;

memory::format_tag blocked_tag(int64_t rank) {
  return rank == 3 ? memory::format_tag::nCw16c : rank == 4 ? memory::format_tag::nChw16c : memory::format_tag::nCdhw16c;
}
// Weights (O, C/G, kernel...) as oneDNN wants them: (G, O/G, C/G, kernel...) where there are groups.
std::vector<int64_t> grouped_dims(const ConvShape& s) {
  std::vector<int64_t> d = s.weight.dims;
  if (s.group == 1) return d;
  d[0] /= s.group;
  d.insert(d.begin(), s.group);
  return d;
}
Desc weight_as_given(const ConvShape& s) {
  if (s.group == 1) return dnnl_desc(s.weight.dims, s.weight.strides);
  std::vector<int64_t> strides = s.weight.strides;
  strides.insert(strides.begin(), strides[0] * (s.weight.dims[0] / s.group));
  return dnnl_desc(grouped_dims(s), strides);
}
Desc weight_any(const ConvShape& s) { return Desc(grouped_dims(s), memory::data_type::f32, memory::format_tag::any); }
Desc bias_desc(const ConvShape& s) { return Desc({s.weight.dims[0]}, memory::data_type::f32, memory::format_tag::x); }

// Backward weights: is copying X and dY into 16-channel blocks repaid? From the figures of docs: channels-last is slow for
// kernels taller than one row with few columns, for strides, and for 1x1 kernels over many channels; the copies cost about
// as much as 40 multiply-adds an element.
bool blocked_pays(const ConvShape& s) {
  const int64_t out = s.weight.dims[0], in = s.weight.dims[1];
  if (s.group != 1 || in % 16 != 0 || out % 16 != 0 || s.wide.rank() != 4 || in < 64) return false;
  const int64_t kh = s.window.kernel[0], kw = s.window.kernel[1];
  const bool slow = (kh > 1 && kw == 1) || s.window.strides[0] > 1;
  const double work = static_cast<double>(s.narrow.count()) * static_cast<double>(in * kh * kw);
  const double copied = static_cast<double>(s.wide.count() + s.narrow.count());
  return slow && work > 150 * copied;
}

using Forward = dnnl::convolution_forward::primitive_desc;
Forward forward_pd(const ConvShape& s, const Desc& x, const Desc& y, bool bias) {
  const OnednnWindow w = onednn_window(s);
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  if (bias) return Forward(dnnl_engine(), kind, algorithm, x, weight_any(s), bias_desc(s), y, w.strides, w.dilations, w.begin, w.end, user_scratchpad());
  return Forward(dnnl_engine(), kind, algorithm, x, weight_any(s), y, w.strides, w.dilations, w.begin, w.end, user_scratchpad());
}

std::unique_ptr<Kernel> create_forward(const NodeView& n, int) {
  const ConvShape s = forward_shape(n);
  const bool bias = n.in(2).present();
  auto pd = forward_pd(s, dense_last(s.wide), dense_last(s.narrow), bias);
  auto k = std::make_unique<DnnlKernel>();
  k->bind(DNNL_ARG_SRC, 0, false, as_given(s.wide), pd.src_desc());
  k->bind(DNNL_ARG_WEIGHTS, 1, false, weight_as_given(s), pd.weights_desc());
  if (bias) k->bind(DNNL_ARG_BIAS, 2, false, pd.bias_desc(), pd.bias_desc());
  k->bind(DNNL_ARG_DST, 0, true, as_given(s.narrow), pd.dst_desc());
  k->finish(dnnl::convolution_forward(pd), pd.scratchpad_desc());
  return k;
}

std::unique_ptr<Kernel> create_grad_input(const NodeView& n, int) {
  const ConvShape s = grad_input_shape(n);
  const OnednnWindow w = onednn_window(s);
  const Desc x = dense_last(s.wide), y = dense_last(s.narrow);
  auto hint = forward_pd(s, x, y, false);
  dnnl::convolution_backward_data::primitive_desc pd(dnnl_engine(), dnnl::algorithm::convolution_direct, x, weight_any(s), y, w.strides, w.dilations,
                                                     w.begin, w.end, hint, user_scratchpad());
  auto k = std::make_unique<DnnlKernel>();
  k->bind(DNNL_ARG_DIFF_DST, 0, false, as_given(s.narrow), pd.diff_dst_desc());
  k->bind(DNNL_ARG_WEIGHTS, 1, false, weight_as_given(s), pd.weights_desc());
  k->bind(DNNL_ARG_DIFF_SRC, 0, true, as_given(s.wide), pd.diff_src_desc());
  k->finish(dnnl::convolution_backward_data(pd), pd.scratchpad_desc());
  return k;
}

std::unique_ptr<Kernel> create_grad_weight(const NodeView& n, int) {
  using Backward = dnnl::convolution_backward_weights::primitive_desc;
  const ConvShape s = grad_weight_shape(n);
  const OnednnWindow w = onednn_window(s);
  const bool blocked = blocked_pays(s), bias = n.out(1).present();
  const auto algorithm = dnnl::algorithm::convolution_direct;
  auto layout = [&](const TensorView& t) { return blocked ? Desc(t.dims, memory::data_type::f32, blocked_tag(t.rank())) : dense_last(t); };
  const Desc x = layout(s.wide), y = layout(s.narrow);
  auto hint = forward_pd(s, x, y, bias);
  Backward pd = bias ? Backward(dnnl_engine(), algorithm, x, weight_any(s), bias_desc(s), y, w.strides, w.dilations, w.begin, w.end, hint, user_scratchpad())
                     : Backward(dnnl_engine(), algorithm, x, weight_any(s), y, w.strides, w.dilations, w.begin, w.end, hint, user_scratchpad());
  auto k = std::make_unique<DnnlKernel>();
  k->bind(DNNL_ARG_SRC, 0, false, as_given(s.wide), pd.src_desc());
  k->bind(DNNL_ARG_DIFF_DST, 1, false, as_given(s.narrow), pd.diff_dst_desc());
  k->bind(DNNL_ARG_DIFF_WEIGHTS, 0, true, weight_as_given(s), pd.diff_weights_desc());
  if (bias) k->bind(DNNL_ARG_DIFF_BIAS, 1, true, pd.diff_bias_desc(), pd.diff_bias_desc());
  k->finish(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc());
  return k;
}

std::string can_forward(const NodeView& n) { return refuse_onednn(n, forward_shape(n), create_forward); }
std::string can_grad_input(const NodeView& n) { return refuse_onednn(n, grad_input_shape(n), create_grad_input); }
std::string can_grad_weight(const NodeView& n) { return refuse_onednn(n, grad_weight_shape(n), create_grad_weight); }

}  // namespace

std::span<const KernelDef> conv_kernels() {
  static const KernelDef defs[] = {
      {.op = "Conv", .name = "onednn", .types = kFloat, .can_run = can_forward, .create = create_forward},
      {.op = "Conv", .types = kFloats | kHalves, .can_run = conv_loops_can_run, .create = create_conv_loops},
      {.domain = "ai.engine", .op = "ConvGradInput", .name = "onednn", .types = kFloat, .can_run = can_grad_input, .create = create_grad_input},
      {.domain = "ai.engine", .op = "ConvGradInput", .types = kFloats | kHalves, .can_run = conv_loops_can_run, .create = create_conv_grad_input_loops},
      {.domain = "ai.engine", .op = "ConvGradWeight", .name = "onednn", .types = kFloat, .can_run = can_grad_weight, .create = create_grad_weight},
      {.domain = "ai.engine", .op = "ConvGradWeight", .types = kFloats | kHalves, .can_run = conv_loops_can_run, .create = create_conv_grad_weight_loops},
  };
  return defs;
}

}  // namespace eng::cpu
