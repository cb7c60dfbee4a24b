// Metrics that are counted on the device beside the loss (domain ai.engine), so that only one number comes back each step:
//   CorrectCount(scores [N,C], labels: int64 [N] or one-hot [N,C])  samples whose first highest score is the label's
//   BinaryCorrectCount(scores, targets; threshold)                  elements with (score > threshold) == (target > 1/2)
// Both give an int64 scalar. NaN scores are never right.
#include "graph/ops/op.h"

namespace eng {
namespace {

constexpr const char* kWhy = "a count has no gradient";

Status infer_correct(InferContext& c) {
  if (c.rank(0) != 2) return c.error(cat("scores must have shape [N, classes], got ", c.shape(0)));
  const bool numbers = (c.dtype(1) == DType::kInt64 || c.dtype(1) == DType::kInt32) && c.shape(1) == Shape{c.shape(0)[0]};
  const bool one_hot = c.dtype(1) == c.dtype(0) && c.shape(1) == c.shape(0);
  if (!numbers && !one_hot)
    return c.error(cat("labels of type ", name_of(c.dtype(1)), " and shape ", c.shape(1), " do not fit scores of shape ", c.shape(0)));
  return c.set_output(0, DType::kInt64, {});
}

Status infer_binary(InferContext& c) {
  if (element_count(c.shape(0)) != element_count(c.shape(1)) || c.dtype(0) != c.dtype(1))
    return c.error(cat("scores and targets must be alike; got ", name_of(c.dtype(0)), " ", c.shape(0), " and ", name_of(c.dtype(1)), " ", c.shape(1)));
  return c.set_output(0, DType::kInt64, {});
}

}  // namespace

std::span<const OpDef> metric_ops() {
  static const OpDef ops[] = {
      {.domain = kEngineDomain, .name = "CorrectCount", .inputs = {{"scores"}, {"labels", Slot::kIndex}}, .infer = infer_correct, .no_gradient = kWhy},
      {.domain = kEngineDomain, .name = "BinaryCorrectCount", .inputs = {{"scores"}, {"targets", Slot::kIndex}}, .infer = infer_binary, .no_gradient = kWhy},
  };
  return ops;
}

}  // namespace eng
