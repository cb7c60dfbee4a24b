// Operators about shapes, whose results are known before the step: Shape (opset 21), Size (21), ConstantOfShape (21). Integers or
// constants, so no gradient.
#include "graph/ops/op.h"

#include <algorithm>

namespace eng {
namespace {

Status infer_shape(InferContext& c) {
  const Shape& s = c.shape(0);
  const int64_t rank = c.rank(0);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(c.attributes().get_int("start", 0)), end = clamp(c.attributes().get_int("end", rank));
  return c.set_constant_output(0, Tensor::ints(start < end ? std::vector<int64_t>(s.begin() + start, s.begin() + end) : std::vector<int64_t>()));
}

Status infer_size(InferContext& c) {
  Tensor t(DType::kInt64, {});
  *t.mutable_data<int64_t>() = element_count(c.shape(0));
  return c.set_constant_output(0, t);
}

constexpr int64_t kMaxElements = int64_t{1} << 28;  // a file must not make us allocate without bound

Status infer_constant(InferContext& c) {
  ENG_ASSIGN(Shape shape, c.constant_ints(0, "input"));
  auto count = checked_element_count(shape);
  if (!count.ok()) return c.error(count.status().message());
  if (*count > kMaxElements) return c.error(cat("a constant of shape ", shape, " has more than ", kMaxElements, " elements"));
  const Tensor* value = c.attributes().find<Tensor>("value");
  if (value && value->element_count() != 1) return c.error("the attribute value must hold one element");
  Tensor out(value ? value->dtype() : DType::kFloat32, shape);
  for (int64_t i = 0, n = *count; value && i < n; ++i)
    std::copy_n(value->bytes(), size_of(value->dtype()), out.mutable_bytes() + static_cast<size_t>(i) * size_of(value->dtype()));
  return c.set_constant_output(0, std::move(out));
}

}  // namespace

std::span<const OpDef> shape_ops() {
  static const OpDef ops[] = {
      {.name = "Shape", .since = 21, .inputs = {{"data"}}, .infer = infer_shape, .no_gradient = "it gives integers", .layout = LayoutRule::kAny},
      {.name = "Size", .since = 21, .inputs = {{"data"}}, .infer = infer_size, .no_gradient = "it gives an integer", .layout = LayoutRule::kAny},
      {.name = "ConstantOfShape", .since = 21, .inputs = {{"input", Slot::kHost}}, .infer = infer_constant, .no_gradient = "it gives a constant"},
  };
  return ops;
}

}  // namespace eng
