// What the oneDNN kernels of Conv, its gradients and ConvTranspose share: descriptions of the operands, oneDNN's way to count
// windows, and the refusal of what oneDNN does not do.
#pragma once

#include <algorithm>

#include "backends/cpu/kernels/conv_shape.h"
#include "backends/cpu/onednn.h"

namespace eng::cpu {

inline dnnl::memory::format_tag last_tag(int64_t rank) {
  return rank == 3 ? dnnl::memory::format_tag::nwc : rank == 4 ? dnnl::memory::format_tag::nhwc : dnnl::memory::format_tag::ndhwc;
}

inline dnnl::memory::desc dense_last(const TensorView& t) { return dnnl::memory::desc(t.dims, dnnl::memory::data_type::f32, last_tag(t.rank())); }
// The operand as it lies. Dense channels-last becomes the tag itself, so that strides of unit axes cannot differ.
inline dnnl::memory::desc as_given(const TensorView& t) { return t.channels_last() ? dense_last(t) : dnnl_desc(t.dims, t.strides); }

struct OnednnWindow {
  std::vector<int64_t> strides, dilations, begin, end;
};
// oneDNN counts dilation from 0 and wants the end pad with which the number of positions comes out exactly.
inline OnednnWindow onednn_window(const ConvShape& s) {
  OnednnWindow w{s.window.strides, s.window.dilations, s.window.begin, s.window.end};
  for (size_t i = 0; i < w.strides.size(); ++i) {
    w.dilations[i] -= 1;
    w.end[i] = (s.narrow.dims[i + 2] - 1) * w.strides[i] + s.window.reach(i) - s.wide.dims[i + 2] - w.begin[i];
  }
  return w;
}

inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// oneDNN takes the node where it has work to do, the geometry fits its rules, and a primitive can be made.
inline std::string refuse_onednn(const NodeView& n, const ConvShape& s, std::unique_ptr<Kernel> (*create)(const NodeView&, int)) {
  if (n.in(0).dtype != EB_FLOAT32) return "float32 only";
  if (s.wide.count() == 0 || s.narrow.count() == 0 || s.weight.count() == 0) return "empty operands";
  for (size_t i = 0; i < s.window.strides.size(); ++i)
    if (onednn_window(s).begin[i] >= s.window.reach(i) || onednn_window(s).end[i] >= s.window.reach(i)) return "a pad as wide as the kernel";
  try {
    return create(n, 0) ? "" : "no primitive";
  } catch (const dnnl::error& e) {
    return e.what();
  }
}
}  // namespace eng::cpu
