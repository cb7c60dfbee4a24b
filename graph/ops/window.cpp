// See window.h.
#include "graph/ops/window.h"

#include <algorithm>

namespace eng {
namespace {

// Pads, kernels and extents beyond this are errors: their sums must not overflow.
constexpr int64_t kLargest = int64_t{1} << 40;

Result<std::vector<int64_t>> read_list(const Attributes& attributes, const char* name, size_t count, int64_t fallback, int64_t least) {
  std::vector<int64_t> v = attributes.get_ints(name);
  if (v.empty()) v.assign(count, fallback);
  if (v.size() != count) return invalid("attribute ", name, " has ", v.size(), " entries ", v, ", wanted ", count);
  for (int64_t x : v)
    if (x < least || x > kLargest) return invalid("attribute ", name, " is ", v, "; every entry must be at least ", least);
  return v;
}

// Explicit pads: out from in, begin and end.
Status place_explicit(Window& w, const Shape& spatial, size_t i, bool ceil) {
  const int64_t room = spatial[i] + w.begin[i] + w.end[i] - w.reach(i);
  if (room < 0)
    return invalid("the window covers ", w.reach(i), " along spatial axis ", i, ", but the padded input has only ", spatial[i] + w.begin[i] + w.end[i]);
  const int64_t stride = w.strides[i];
  w.out[i] = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
  if (ceil && (w.out[i] - 1) * stride >= spatial[i] + w.begin[i]) --w.out[i];
  return {};
}

void place_same(Window& w, const Shape& spatial, size_t i, bool upper) {
  w.out[i] = (spatial[i] + w.strides[i] - 1) / w.strides[i];
  const int64_t total = std::max<int64_t>(0, (w.out[i] - 1) * w.strides[i] + w.reach(i) - spatial[i]);
  w.begin[i] = upper ? total / 2 : total - total / 2;
  w.end[i] = total - w.begin[i];
}

}  // namespace

Result<Window> read_window(const Attributes& attributes, const Shape& spatial, const std::vector<int64_t>& kernel) {
  const size_t axes = spatial.size();
  if (kernel.size() != axes) return invalid("the kernel ", kernel, " has ", kernel.size(), " axes, the input has ", axes, " spatial ones");
  for (int64_t k : kernel)
    if (k < 1 || k > kLargest) return invalid("the kernel's shape is ", kernel, "; every entry must be at least 1");
  Window w;
  w.kernel = kernel;
  ENG_ASSIGN(w.strides, read_list(attributes, "strides", axes, 1, 1));
  ENG_ASSIGN(w.dilations, read_list(attributes, "dilations", axes, 1, 1));
  for (size_t i = 0; i < axes; ++i) {
    auto reach = checked_multiply(kernel[i] - 1, w.dilations[i]);
    if (!reach || *reach > kLargest) return invalid("kernel ", kernel, " with dilations ", w.dilations, " is too large");
  }
  w.begin.assign(axes, 0);
  w.end.assign(axes, 0);
  w.out.assign(axes, 0);
  const std::string mode = attributes.get_string("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) {
    ENG_ASSIGN(std::vector<int64_t> pads, read_list(attributes, "pads", 2 * axes, 0, 0));
    std::copy(pads.begin(), pads.begin() + static_cast<int64_t>(axes), w.begin.begin());
    std::copy(pads.begin() + static_cast<int64_t>(axes), pads.end(), w.end.begin());
  } else if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return invalid("attribute auto_pad is '", mode, "'; it can be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER", ceil = attributes.get_int("ceil_mode", 0) != 0;
  for (size_t i = 0; i < axes; ++i) {
    if (same) place_same(w, spatial, i, mode == "SAME_UPPER");
    else ENG_TRY(place_explicit(w, spatial, i, ceil));
  }
  return w;
}

Shape spatial_of(const Shape& shape) { return shape.size() > 2 ? Shape(shape.begin() + 2, shape.end()) : Shape(); }

Shape with_spatial(int64_t n, int64_t c, const std::vector<int64_t>& spatial) {
  Shape s{n, c};
  s.insert(s.end(), spatial.begin(), spatial.end());
  return s;
}

}  // namespace eng
