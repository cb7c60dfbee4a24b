// ConvTranspose: oneDNN's deconvolution, or the loops of ConvGradInput (conv_loops.cpp) with a bias. X is the narrow side.
#include "backends/cpu/half_adapter.h"
#include "backends/cpu/kernels/conv_onednn.h"

namespace eng::cpu {
namespace {

using dnnl::memory;

// Window::end is not used: where the output ends is told by its extent.
ConvShape shape_of(const NodeView& n) {
  ConvShape s = conv_shape(n, n.out(0), n.in(0), n.in(1));
  const std::string mode = n.attr_string("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && n.attr_ints("output_shape").empty()) return s;
  const std::vector<int64_t> extra = n.attr_ints("output_padding", std::vector<int64_t>(s.window.strides.size(), 0));
  for (size_t i = 0; i < s.window.strides.size(); ++i) {
    const int64_t full = s.window.strides[i] * (s.narrow.dims[i + 2] - 1) + extra[i] + s.window.reach(i);
    const int64_t total = std::max<int64_t>(0, full - s.wide.dims[i + 2]);
    s.window.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
  return s;
}

std::unique_ptr<Kernel> create_onednn(const NodeView& n, int) {
  const ConvShape s = shape_of(n);
  const OnednnWindow w = onednn_window(s);
  // oneDNN's deconvolution takes (G, M/G, C/G, kernel...); ours lies as (G, C/G, M/G, kernel...).
  std::vector<int64_t> dims = s.weight.dims, strides = s.weight.strides;
  dims[0] = s.weight.dims[1];
  dims[1] = s.weight.dims[0] / s.group;
  std::swap(strides[0], strides[1]);
  if (s.group > 1) {
    dims.insert(dims.begin(), s.group);
    strides.insert(strides.begin(), s.weight.strides[0] * (s.weight.dims[0] / s.group));
  }
  const bool bias = n.in(2).present();
  const memory::desc any(dims, memory::data_type::f32, memory::format_tag::any), b({s.wide.dims[1]}, memory::data_type::f32, memory::format_tag::x);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::deconvolution_direct;
  using Pd = dnnl::deconvolution_forward::primitive_desc;
  const memory::desc x = dense_last(s.narrow), y = dense_last(s.wide);
  Pd pd = bias ? Pd(dnnl_engine(), kind, algorithm, x, any, b, y, w.strides, w.dilations, w.begin, w.end, user_scratchpad())
               : Pd(dnnl_engine(), kind, algorithm, x, any, y, w.strides, w.dilations, w.begin, w.end, user_scratchpad());
  auto k = std::make_unique<DnnlKernel>();
  k->bind(DNNL_ARG_SRC, 0, false, as_given(s.narrow), pd.src_desc());
  k->bind(DNNL_ARG_WEIGHTS, 1, false, dnnl_desc(dims, strides), pd.weights_desc());
  if (bias) k->bind(DNNL_ARG_BIAS, 2, false, pd.bias_desc(), pd.bias_desc());
  k->bind(DNNL_ARG_DST, 0, true, as_given(s.wide), pd.dst_desc());
  k->finish(dnnl::deconvolution_forward(pd), pd.scratchpad_desc());
  return k;
}

std::unique_ptr<Kernel> create_loops(const NodeView& n, int threads) {
  if (has_half(n)) return create_widened(n, threads, create_loops);
  return create_transposed_loops(n, shape_of(n));
}

std::string can_onednn(const NodeView& n) { return refuse_onednn(n, shape_of(n), create_onednn); }

}  // namespace

std::span<const KernelDef> conv_transpose_kernels() {
  static const KernelDef defs[] = {
      {.op = "ConvTranspose", .name = "onednn", .types = kFloat, .can_run = can_onednn, .create = create_onednn},
      {.op = "ConvTranspose", .types = kFloats | kHalves, .can_run = conv_loops_can_run, .create = create_loops},
  };
  return defs;
}

}  // namespace eng::cpu
