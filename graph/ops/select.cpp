// Operators that pick or mask by position: Trilu (opset 14), ReverseSequence (10), TopK (11). Gradients:
//   Trilu: the same mask on dy. ReverseSequence: the same reversal of dy. TopK: dy of the values goes back to their indices.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_trilu(InferContext& c) {
  if (c.rank(0) < 2) return c.error(cat("the input must have two axes or more, got shape ", c.shape(0)));
  if (c.has_input(1) && !c.constant(1)) return c.error("input k must be known before the step runs");
  return infer_same_as_input(c);
}

Status trilu_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.op("Trilu", c.has_input(1) ? std::vector<ValueId>{c.dy(), c.input(1)} : std::vector<ValueId>{c.dy()}, Attributes(c.attributes())));
  return {};
}

Status infer_reverse(InferContext& c) {
  const int64_t batch = c.attributes().get_int("batch_axis", 1), time = c.attributes().get_int("time_axis", 0);
  if (c.rank(0) < 2 || batch == time || batch < 0 || time < 0 || batch > 1 || time > 1) return c.error(cat("batch_axis ", batch, " and time_axis ", time, " must be 0 and 1 of an input of two axes or more, got ", c.shape(0)));
  if (c.shape(1) != Shape{c.shape(0)[static_cast<size_t>(batch)]}) return c.error(cat("sequence_lens has shape ", c.shape(1), ", wanted [", c.shape(0)[static_cast<size_t>(batch)], "]"));
  return infer_same_as_input(c);
}

Status reverse_gradient(GradContext& c) {
  if (c.needs(0)) c.set(0, c.b.op("ReverseSequence", {c.dy(), c.input(1)}, Attributes(c.attributes())));
  return {};
}

Status infer_top_k(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", -1), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  ENG_ASSIGN(std::vector<int64_t> k, c.constant_ints(1, "K"));
  Shape out = c.shape(0);
  if (k.size() != 1 || k[0] < 0 || k[0] > out[static_cast<size_t>(*axis)]) return c.error(cat("K ", k, " does not fit axis ", *axis, " of the input ", out));
  out[static_cast<size_t>(*axis)] = k[0];
  ENG_TRY(c.set_output(0, c.dtype(0), out));
  return c.set_output(1, DType::kInt64, out);
}

Status top_k_gradient(GradContext& c) {
  if (!c.needs(0) || c.dy(0) == kNoValue) return {};
  ValueId indices = c.output(1);
  if (indices == kNoValue) indices = c.b.ops("", "TopK", {c.input(0), c.input(1)}, {false, true}, Attributes(c.attributes()))[1];
  Attributes a;
  a.set("axis", c.attributes().get_int("axis", -1));
  a.set("reduction", std::string("add"));
  c.set(0, c.b.op("ScatterElements", {c.b.zeros_like(c.input(0)), indices, c.dy(0)}, a));
  return {};
}

}  // namespace

std::span<const OpDef> select_ops() {
  static const OpDef ops[] = {
      {.name = "Trilu", .since = 14, .inputs = {{"input"}, {"k", Slot::kHost, true}}, .infer = infer_trilu, .gradient = trilu_gradient},
      {.name = "ReverseSequence", .since = 10, .inputs = {{"input"}, {"sequence_lens", Slot::kIndex}}, .infer = infer_reverse, .gradient = reverse_gradient},
      {.name = "TopK", .since = 11, .inputs = {{"X"}, {"K", Slot::kHost}}, .max_outputs = 2, .infer = infer_top_k, .gradient = top_k_gradient},
  };
  return ops;
}

}  // namespace eng
