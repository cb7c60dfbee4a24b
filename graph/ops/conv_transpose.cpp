// ConvTranspose (opset 11): the transposed sum of Conv. X (N, C, spatial...), W (C, M/G, kernel...), B (M).
//   out = stride (in - 1) + output_padding + reach - begin - end;  output_shape gives the pads instead: their sum is split
//   evenly, the odd one at the end for SAME_UPPER, else at the front
// Gradients are convolutions with the same numbers: dX = Conv(dY, W), dW = ConvGradWeight(dY, X), dB = sum of dY.
#include <algorithm>

#include "graph/ops/window.h"
#include "graph/ops/op.h"

namespace eng {
namespace {

struct Transposed {
  std::vector<int64_t> strides, dilations, begin, end, extra, out;
};

// Reads a list attribute of one entry an axis, each at least `least`.
Result<std::vector<int64_t>> list(const Attributes& a, const char* name, size_t axes, int64_t fallback, int64_t least) {
  std::vector<int64_t> v = a.get_ints(name);
  if (v.empty()) v.assign(axes, fallback);
  if (v.size() != axes) return invalid("attribute ", name, " has ", v.size(), " entries ", v, ", wanted ", axes);
  for (int64_t x : v)
    if (x < least || x > (int64_t{1} << 30)) return invalid("attribute ", name, " is ", v, "; every entry must be at least ", least);
  return v;
}

Result<Transposed> geometry(const Attributes& a, const Shape& spatial, const Shape& kernel) {
  const size_t axes = spatial.size();
  Transposed t;
  ENG_ASSIGN(t.strides, list(a, "strides", axes, 1, 1));
  ENG_ASSIGN(t.dilations, list(a, "dilations", axes, 1, 1));
  ENG_ASSIGN(t.extra, list(a, "output_padding", axes, 0, 0));
  ENG_ASSIGN(std::vector<int64_t> pads, list(a, "pads", 2 * axes, 0, 0));
  const std::string mode = a.get_string("auto_pad", "NOTSET");
  std::vector<int64_t> wanted = a.get_ints("output_shape");
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != axes) return invalid("attribute output_shape has ", wanted.size(), " entries, wanted ", axes);
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!same && mode != "NOTSET" && mode != "VALID") return invalid("attribute auto_pad is '", mode, "'; it can be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  for (size_t i = 0; i < axes; ++i) {
    const int64_t full = t.strides[i] * (spatial[i] - 1) + t.extra[i] + (kernel[i] - 1) * t.dilations[i] + 1;
    if (wanted.empty() && !same) {
      t.begin.push_back(mode == "VALID" ? 0 : pads[i]);
      t.end.push_back(mode == "VALID" ? 0 : pads[axes + i]);
      t.out.push_back(full - t.begin[i] - t.end[i]);
    } else {
      t.out.push_back(wanted.empty() ? spatial[i] * t.strides[i] : wanted[i]);
      const int64_t total = std::max<int64_t>(0, full - t.out[i]), half = total / 2;
      t.begin.push_back(mode == "SAME_UPPER" ? half : total - half);
      t.end.push_back(total - t.begin[i]);
    }
    if (t.out[i] < 1) return invalid("the output would have ", t.out[i], " entries along spatial axis ", i);
  }
  return t;
}

Status infer(InferContext& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  if (x.size() < 3 || x.size() > 5) return c.error(cat("the input has shape ", x, "; 1 to 3 spatial axes after batch and channels are handled"));
  const int64_t group = c.attributes().get_int("group", 1);
  if (w.size() != x.size() || w[0] != x[1]) return c.error(cat("the weight ", w, " does not fit the input ", x, ": wanted (", x[1], ", out / group, kernel...)"));
  if (group < 1 || x[1] % group != 0) return c.error(cat("group is ", group, ", which does not divide the ", x[1], " input channels"));
  const Shape kernel = spatial_of(w);
  for (int64_t k : kernel)
    if (k < 1) return c.error(cat("the weight ", w, " is empty"));
  const std::vector<int64_t> told = c.attributes().get_ints("kernel_shape", kernel);
  if (told != kernel) return c.error(cat("attribute kernel_shape ", told, " is not the weight's kernel ", kernel));
  if (c.has_input(2) && c.shape(2) != Shape{w[1] * group}) return c.error(cat("the bias has shape ", c.shape(2), ", wanted [", w[1] * group, "]"));
  auto t = geometry(c.attributes(), spatial_of(x), kernel);
  if (!t.ok()) return c.error(t.status().message());
  return c.set_output(0, c.dtype(0), with_spatial(x[0], w[1] * group, t->out));
}

Status gradient(GradContext& c) {
  ENG_ASSIGN(Transposed t, geometry(c.attributes(), spatial_of(c.shape(0)), spatial_of(c.shape(1))));
  const Shape x = c.shape(0), kernel = spatial_of(c.shape(1));
  Attributes a;
  std::vector<int64_t> pads = t.begin;
  // The end pad with which a convolution over dY has X's positions; dY beyond the last window is cut off first.
  std::vector<int64_t> keep = t.out;
  for (size_t i = 0; i < t.out.size(); ++i) {
    const int64_t end = t.strides[i] * (x[i + 2] - 1) + (kernel[i] - 1) * t.dilations[i] + 1 - t.begin[i] - t.out[i];
    if (end < 0) keep[i] += end;
    pads.push_back(std::max<int64_t>(end, 0));
  }
  a.set("pads", pads);
  a.set("strides", t.strides);
  a.set("dilations", t.dilations);
  a.set("group", c.attributes().get_int("group", 1));
  ValueId dy = c.dy();
  if (keep != t.out && (c.needs(0) || c.needs(1))) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < keep.size(); ++i) axes.push_back(static_cast<int64_t>(i) + 2);
    dy = c.b.op("Slice", {dy, c.b.ints(std::vector<int64_t>(keep.size(), 0)), c.b.ints(keep), c.b.ints(axes)});
  }
  if (c.needs(0)) c.set(0, c.b.op("Conv", {dy, c.input(1)}, a));
  if (c.needs(1)) {
    a.set("weight_shape", c.shape(1));
    c.set(1, c.b.engine_op("ConvGradWeight", {dy, c.input(0)}, a));
  }
  if (c.needs(2)) {
    std::vector<int64_t> axes{0};
    for (int64_t i = 2; i < static_cast<int64_t>(x.size()); ++i) axes.push_back(i);
    Attributes drop;
    drop.set("keepdims", int64_t{0});
    c.set(2, c.b.op("ReduceSum", {c.dy(), c.b.ints(axes)}, drop));
  }
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const Shape &x = g.value(n.inputs[0]).shape, &w = g.value(n.inputs[1]).shape;
  Cost cost;
  cost.flops = 2.0 * static_cast<double>(element_count(x)) * static_cast<double>(element_count(w)) / static_cast<double>(std::max<int64_t>(w[0], 1));
  return cost;
}

}  // namespace

std::span<const OpDef> conv_transpose_ops() {
  static const OpDef ops[] = {
      {.name = "ConvTranspose", .since = 11, .inputs = {{"X"}, {"W", Slot::kWeight}, {"B", Slot::kWeight, true}}, .infer = infer,
       .gradient = gradient, .cost = cost, .layout = LayoutRule::kChannelsLast},
  };
  return ops;
}

}  // namespace eng
