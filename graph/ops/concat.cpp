// Concat (opset 13) and Split (opset 18), each other's gradient: the gradient of Concat's inputs are slices of dy, that of Split's
// input is the concatenation of the dy, zeros where an output is unused. Kernels take operands of any layout.
#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_concat(InferContext& c) {
  if (!c.attributes().has("axis")) return c.error("the attribute axis is missing");
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  const size_t at = static_cast<size_t>(*axis);
  Shape out = c.shape(0);
  for (int i = 1; i < c.input_count(); ++i) {
    const Shape& s = c.shape(i);
    bool fits = s.size() == out.size();
    for (size_t d = 0; fits && d < s.size(); ++d) fits = d == at || s[d] == out[d];
    if (!fits) return c.error(cat("input ", i, " of shape ", s, " does not fit the first, ", c.shape(0), ", beside axis ", *axis));
    out[at] += s[at];
  }
  return c.set_output(0, c.dtype(0), out);
}

Status concat_gradient(GradContext& c) {
  const int64_t axis = *normalize_axis(c.attributes().get_int("axis", 0), static_cast<int64_t>(c.shape(0).size()));
  int64_t start = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    const int64_t extent = c.shape(i)[static_cast<size_t>(axis)];
    if (c.needs(i)) c.set(i, c.b.op("Slice", {c.dy(), c.b.ints({start}), c.b.ints({start + extent}), c.b.ints({axis})}));
    start += extent;
  }
  return {};
}

Status infer_split(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  const int64_t extent = c.shape(0)[static_cast<size_t>(*axis)];
  std::vector<int64_t> sizes;
  if (c.has_input(1)) {
    ENG_ASSIGN(sizes, c.constant_ints(1, "split"));
    int64_t sum = 0;
    for (int64_t s : sizes) {
      if (s < 0) return c.error(cat("split ", sizes, " has a negative size"));
      sum += s;
    }
    if (sum != extent || static_cast<int>(sizes.size()) != c.output_count())
      return c.error(cat("split ", sizes, " does not cut axis ", *axis, " of the input ", c.shape(0), " into ", c.output_count(), " outputs"));
  } else {
    const int64_t parts = c.output_count(), wanted = c.attributes().get_int("num_outputs", parts);
    if (wanted != parts) return c.error(cat("num_outputs is ", wanted, ", but there are ", parts, " outputs"));
    const int64_t chunk = (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::max<int64_t>(0, std::min(chunk, extent - i * chunk)));
  }
  const Shape from = c.shape(0);
  const DType type = c.dtype(0);
  for (int i = 0; i < c.output_count(); ++i) {
    Shape out = from;
    out[static_cast<size_t>(*axis)] = sizes[static_cast<size_t>(i)];
    ENG_TRY(c.set_output(i, type, out));
  }
  return {};
}

// Sizes along the axis, of outputs that are there and of those left out.
std::vector<int64_t> split_sizes(const GradContext& c, int64_t axis) {
  const Tensor* given = c.has_input(1) ? c.constant(1) : nullptr;
  if (given) return given->to_ints();
  const int64_t extent = c.shape(0)[static_cast<size_t>(axis)], parts = c.output_count(), chunk = (extent + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::max<int64_t>(0, std::min(chunk, extent - i * chunk)));
  return sizes;
}

Status split_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const Shape from = c.shape(0);
  const int64_t axis = *normalize_axis(c.attributes().get_int("axis", 0), static_cast<int64_t>(from.size()));
  const std::vector<int64_t> sizes = split_sizes(c, axis);
  const DType type = c.graph().value(c.input(0)).dtype;
  std::vector<ValueId> parts;
  for (int i = 0; i < c.output_count(); ++i) {
    Shape shape = from;
    shape[static_cast<size_t>(axis)] = sizes[static_cast<size_t>(i)];
    parts.push_back(c.dy(i) != kNoValue ? c.dy(i) : c.b.constant(Tensor(type, shape)));
  }
  Attributes a;
  a.set("axis", axis);
  c.set(0, c.b.op("Concat", parts, a));
  return {};
}

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> concat_ops() {
  static const OpDef ops[] = {
      {.name = "Concat", .since = 13, .inputs = {{"inputs"}}, .variadic = true, .infer = infer_concat, .gradient = concat_gradient, .cost = cost, .layout = LayoutRule::kAny},
      {.name = "Split", .since = 18, .inputs = {{"input"}, {"split", Slot::kHost, true}}, .max_outputs = -1, .infer = infer_split, .gradient = split_gradient, .cost = cost, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
