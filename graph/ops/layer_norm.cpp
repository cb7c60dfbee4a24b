// Normalisations over the values of one sample. X is seen as rows; with m and v a row's mean and population variance:
//   h = (x - m) / sqrt(v + epsilon),  y = h * scale + B
//   LayerNormalization (17)     row: all axes from `axis` on; scale and B (optional) have the shape of a row; Mean, InvStdDev optional outputs
//   InstanceNormalization (6)   row: one channel of one sample; scale and B a value a channel
//   GroupNormalization (21)     row: C / num_groups channels of one sample; scale and B a value a channel
// ai.engine::NormGrad(dY, X, scale; form, epsilon, axis or num_groups) -> (dX, dscale, dB), statistics found again from X. With g = dY * scale:
//   dX = (g - mean g - h * mean(g h)) / sqrt(v + epsilon)
// A further form is a line in row_length() here and in the kernel's Rows.
#include "graph/ops/op.h"

namespace eng {
namespace {

std::string form_of(const Node& n) { return n.domain.empty() ? n.op_type : n.attributes.get_string("form", ""); }

// Shape of scale and bias for X; an error where the attributes do not fit.
Result<Shape> scale_shape(const InferContext& c, const Shape& x) {
  const std::string form = form_of(c.node());
  if (form == "LayerNormalization") {
    auto axis = normalize_axis(c.attributes().get_int("axis", -1), static_cast<int64_t>(x.size()));
    if (!axis.ok()) return c.error(axis.status().message());
    return Shape(x.begin() + *axis, x.end());
  }
  if (x.size() < 3 && (form == "InstanceNormalization" || x.size() < 2)) return c.error(cat("X has shape ", x, "; batch, channels and spatial axes are needed"));
  if (form == "GroupNormalization") {
    const int64_t groups = c.attributes().get_int("num_groups", 0);
    if (groups < 1 || x[1] % groups != 0) return c.error(cat("num_groups is ", groups, ", which does not divide the ", x[1], " channels"));
  }
  return Shape{x[1]};
}

Status infer(InferContext& c) {
  ENG_ASSIGN(Shape scale, scale_shape(c, c.shape(0)));
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has_input(i)) continue;
    if (c.shape(i) != scale) return c.error(cat("input ", i, " has shape ", c.shape(i), ", wanted ", scale));
    if (c.dtype(i) != c.dtype(0)) return c.error(cat("input ", i, " has type ", name_of(c.dtype(i)), ", X has ", name_of(c.dtype(0))));
  }
  if (c.attributes().get_int("stash_type", 1) != 1) return c.error("stash_type must be 1 (float32)");
  ENG_TRY(c.set_output(0, c.dtype(0), c.shape(0)));
  Shape row = c.shape(0);
  for (size_t i = row.size() - std::min(row.size(), scale.size()); i < row.size(); ++i) row[i] = 1;
  const DType stash = c.dtype(0) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  ENG_TRY(c.set_output(1, stash, row));
  return c.set_output(2, stash, row);
}

Status infer_gradient(InferContext& c) {
  ENG_ASSIGN(Shape scale, scale_shape(c, c.shape(1)));
  if (c.shape(0) != c.shape(1)) return c.error(cat("dY has shape ", c.shape(0), ", X has ", c.shape(1)));
  if (c.shape(2) != scale) return c.error(cat("scale has shape ", c.shape(2), ", wanted ", scale));
  ENG_TRY(c.set_output(0, c.dtype(1), c.shape(1)));
  ENG_TRY(c.set_output(1, c.dtype(1), scale));
  return c.set_output(2, c.dtype(1), scale);
}

Status gradient(GradContext& c) {
  if (c.dy(1) != kNoValue || c.dy(2) != kNoValue) return unsupported("the gradient through the outputs Mean and InvStdDev is not there");
  if (c.dy() == kNoValue || !(c.needs(0) || c.needs(1) || c.needs(2))) return {};
  Attributes a = c.attributes();
  a.set("form", c.node().op_type);
  a.set("epsilon", c.attributes().get_float("epsilon", 1e-5f));
  auto d = c.b.ops(kEngineDomain, "NormGrad", {c.dy(), c.input(0), c.input(1)}, {c.needs(0), c.needs(1), c.needs(2)}, a);
  for (int i = 0; i < 3; ++i)
    if (c.needs(i)) c.set(i, d[static_cast<size_t>(i)]);
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  Cost cost;
  cost.flops = (n.domain.empty() ? 8.0 : 16.0) * static_cast<double>(element_count(g.value(n.inputs[0]).shape));
  return cost;
}

}  // namespace

std::span<const OpDef> layer_norm_ops() {
  static const std::vector<InputSpec> affine = {{"X"}, {"scale", Slot::kWeight}, {"B", Slot::kWeight}};
  static const OpDef ops[] = {
      {.name = "LayerNormalization", .since = 17, .inputs = {{"X"}, {"Scale", Slot::kWeight}, {"B", Slot::kWeight, true}}, .max_outputs = 3,
       .infer = infer, .gradient = gradient, .cost = cost},
      {.name = "InstanceNormalization", .since = 6, .inputs = affine, .infer = infer, .gradient = gradient, .cost = cost},
      {.name = "GroupNormalization", .since = 21, .inputs = affine, .infer = infer, .gradient = gradient, .cost = cost},
      {.domain = kEngineDomain, .name = "NormGrad", .inputs = {{"dY"}, {"X"}, {"scale", Slot::kWeight}}, .max_outputs = 3, .infer = infer_gradient,
       .no_gradient = "second derivatives of a normalisation are not there", .cost = cost},
  };
  return ops;
}

}  // namespace eng
