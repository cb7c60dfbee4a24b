// Operators that make tensors from numbers: Range (opset 11), EyeLike (9), OneHot (11). Their results carry no gradient.
#include <cmath>

#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 28;  // a file must not make us allocate without bound

Status infer_range(InferContext& c) {
  const Tensor* t[3];
  for (int i = 0; i < 3; ++i) {
    t[i] = c.constant(i);
    if (!t[i] || t[i]->element_count() != 1) return c.error("start, limit and delta must be single numbers known before the step runs");
  }
  const double delta = t[2]->at(0);
  if (delta == 0) return c.error("delta is 0");
  const double count = std::max(0.0, std::ceil((t[1]->at(0) - t[0]->at(0)) / delta));
  if (!(count <= static_cast<double>(kMaxElements))) return c.error(cat("the range has ", count, " elements; at most ", kMaxElements, " are made"));
  Tensor out(c.dtype(0), {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < out.element_count(); ++i) {
    if (c.dtype(0) == DType::kInt64) out.mutable_data<int64_t>()[i] = t[0]->data<int64_t>()[0] + i * t[2]->data<int64_t>()[0];
    else out.set(i, t[0]->at(0) + static_cast<double>(i) * delta);
  }
  return c.set_constant_output(0, std::move(out));
}

Status infer_eye(InferContext& c) {
  if (c.rank(0) != 2) return c.error(cat("the input must be a matrix, got shape ", c.shape(0)));
  const DType type = c.attributes().has("dtype") ? static_cast<DType>(c.attributes().get_int("dtype", 1)) : c.dtype(0);
  if (size_of(type) == 0) return c.error(cat("dtype ", name_of(type), " is not supported"));
  return c.set_output(0, type, Shape(c.shape(0)));
}

Status infer_one_hot(InferContext& c) {
  const Tensor* depth = c.constant(1);
  if (!depth || depth->element_count() != 1) return c.error("input 'depth' must be a single number known before the step runs");
  if (c.shape(2) != Shape{2}) return c.error(cat("values must hold the off and the on value, got shape ", c.shape(2)));
  const int64_t n = static_cast<int64_t>(depth->at(0));
  if (n < 1) return c.error(cat("depth is ", n, "; it must be at least 1"));
  auto axis = normalize_axis(c.attributes().get_int("axis", -1), c.rank(0) + 1);
  if (!axis.ok()) return c.error(axis.status().message());
  Shape out = c.shape(0);
  out.insert(out.begin() + *axis, n);
  return c.set_output(0, c.dtype(2), out);
}

}  // namespace

std::span<const OpDef> generate_ops() {
  static const OpDef ops[] = {
      {.name = "Range", .since = 11, .inputs = {{"start", Slot::kHost}, {"limit", Slot::kHost}, {"delta", Slot::kHost}}, .infer = infer_range, .no_gradient = "its length depends on its inputs"},
      {.name = "EyeLike", .since = 9, .inputs = {{"input"}}, .infer = infer_eye, .no_gradient = "its result does not depend on the input's values"},
      {.name = "OneHot", .since = 11, .inputs = {{"indices", Slot::kIndex}, {"depth", Slot::kHost}, {"values", Slot::kState}}, .infer = infer_one_hot, .no_gradient = "its result depends on indices alone"},
  };
  return ops;
}

}  // namespace eng
