// Resize (opset 19): interpolation along any axes, separable: along each axis every output is a weighted sum of inputs.
//   output size = floor(input * scale), or `sizes` (keep_aspect_ratio_policy: one scale for all axes, sizes rounded half up)
//   modes nearest, linear, cubic, with antialias for the last two; where output x looks: coordinate_transformation_mode
// ai.engine::ResizeGrad(dY, roi, scales, sizes; Resize's attributes, input_shape): dY through the transposed weights.
// The weights are made by the backends (backends/cpu/kernels/resize_table.h). roi, scales and sizes must be constant.
#include <algorithm>
#include <cmath>

#include "graph/ops/op.h"

namespace eng {
namespace {

Status check_choice(const InferContext& c, const char* name, const char* fallback, std::initializer_list<const char*> choices) {
  const std::string value = c.attributes().get_string(name, fallback);
  std::string known;
  for (const char* choice : choices) {
    if (value == choice) return {};
    known += std::string(known.empty() ? "" : ", ") + choice;
  }
  return c.error(cat("attribute ", name, " is '", value, "'; it can be ", known));
}

Status check_attributes(const InferContext& c) {
  ENG_TRY(check_choice(c, "mode", "nearest", {"nearest", "linear", "cubic"}));
  ENG_TRY(check_choice(c, "coordinate_transformation_mode", "half_pixel",
                       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"}));
  ENG_TRY(check_choice(c, "nearest_mode", "round_prefer_floor", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  ENG_TRY(check_choice(c, "keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"}));
  if (c.attributes().get_int("antialias", 0) && c.attributes().get_string("mode", "nearest") == "nearest")
    return c.error("antialias is for the modes linear and cubic");
  return {};
}

// Content of an optional constant input; an empty tensor counts as missing.
Result<std::vector<double>> numbers(const InferContext& c, int i, const char* name) {
  std::vector<double> v;
  if (!c.has_input(i) || element_count(c.shape(i)) == 0) return v;
  const Tensor* t = c.constant(i);
  if (!t) return c.error(cat("input '", name, "' must be known before the step runs, but it is computed from data"));
  for (int64_t k = 0; k < t->element_count(); ++k) v.push_back(t->at(k));
  return v;
}

Result<Shape> output_shape(const InferContext& c, const Shape& x) {
  const int64_t rank = static_cast<int64_t>(x.size());
  std::vector<int64_t> axes = c.attributes().get_ints("axes");
  if (axes.empty()) for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  std::vector<char> seen(x.size(), 0);
  for (int64_t& a : axes) {
    ENG_ASSIGN(a, normalize_axis(a, rank));
    if (seen[static_cast<size_t>(a)]++) return c.error(cat("attribute axes ", axes, " names an axis twice"));
    if (x[static_cast<size_t>(a)] == 0) return c.error(cat("the input ", x, " is empty along axis ", a));
  }
  ENG_ASSIGN(std::vector<double> roi, numbers(c, 1, "roi"));
  ENG_ASSIGN(std::vector<double> scales, numbers(c, 2, "scales"));
  ENG_ASSIGN(std::vector<double> sizes, numbers(c, 3, "sizes"));
  if (scales.empty() == sizes.empty()) return c.error("exactly one of the inputs 'scales' and 'sizes' must be given");
  const std::vector<double>& given = scales.empty() ? sizes : scales;
  if (given.size() != axes.size()) return c.error(cat("'scales' or 'sizes' has ", given.size(), " entries for ", axes.size(), " axes"));
  for (double v : given)
    if (!(v > 0) || v > 1e9) return c.error(cat("'scales' and 'sizes' must be positive, got ", v));
  if (c.attributes().get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize" && roi.size() != 2 * axes.size())
    return c.error(cat("tf_crop_and_resize wants ", 2 * axes.size(), " entries in 'roi', got ", roi.size()));
  const std::string policy = c.attributes().get_string("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  if (!sizes.empty() && policy != "stretch")
    for (size_t i = 0; i < axes.size(); ++i) {
      const double scale = sizes[i] / static_cast<double>(x[static_cast<size_t>(axes[i])]);
      common = i == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
  Shape y = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t a = static_cast<size_t>(axes[i]);
    const double in = static_cast<double>(x[a]);
    y[a] = static_cast<int64_t>(!scales.empty() ? std::floor(in * scales[i]) : common > 0 ? std::floor(common * in + 0.5) : sizes[i]);
  }
  return y;
}

Status infer(InferContext& c) {
  ENG_TRY(check_attributes(c));
  ENG_ASSIGN(Shape y, output_shape(c, c.shape(0)));
  return c.set_output(0, c.dtype(0), y);
}
Status infer_gradient(InferContext& c) {
  ENG_TRY(check_attributes(c));
  const Shape x = c.attributes().get_ints("input_shape");
  ENG_ASSIGN(Shape y, output_shape(c, x));
  if (c.shape(0) != y) return c.error(cat("dY has shape ", c.shape(0), ", wanted ", y));
  return c.set_output(0, c.dtype(0), x);
}

Status gradient(GradContext& c) {
  Attributes a = c.attributes();
  a.set("input_shape", c.shape(0));
  if (c.needs(0)) c.set(0, c.b.engine_op("ResizeGrad", {c.dy(), c.input(1), c.input(2), c.input(3)}, a));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  const std::string mode = n.attributes.get_string("mode", "nearest");
  Cost cost;
  cost.flops = (mode == "nearest" ? 0 : mode == "linear" ? 6 : 12) * static_cast<double>(element_count(g.value(n.outputs[0]).shape));
  return cost;
}

}  // namespace

std::span<const OpDef> resize_ops() {
  static const OpDef ops[] = {
      {.name = "Resize", .since = 19, .inputs = {{"X"}, {"roi", Slot::kHost, true}, {"scales", Slot::kHost, true}, {"sizes", Slot::kHost, true}},
       .infer = infer, .gradient = gradient, .cost = cost, .layout = LayoutRule::kChannelsLast},
      {.domain = kEngineDomain, .name = "ResizeGrad", .inputs = {{"dY"}, {"roi", Slot::kHost, true}, {"scales", Slot::kHost, true}, {"sizes", Slot::kHost, true}},
       .infer = infer_gradient, .no_gradient = "second derivatives of Resize are not there", .cost = cost, .layout = LayoutRule::kChannelsLast},
  };
  return ops;
}

}  // namespace eng
