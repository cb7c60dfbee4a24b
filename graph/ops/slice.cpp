// Slice (opset 13): per axis the elements start, start + step, ... before end; negative steps run backwards.
// ai.engine::SliceGrad(dy; starts, steps, input_shape): zeros of input_shape with dy laid where Slice took it from; starts and
// steps are resolved, one per axis. Its own gradient is Slice again.
#include "graph/ops/slice.h"

#include <algorithm>
#include <limits>

namespace eng {

Result<std::vector<SliceAxis>> resolve_slice(const Shape& from, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
                                             const std::vector<int64_t>& axes, const std::vector<int64_t>& steps) {
  if (starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()) || (!steps.empty() && steps.size() != starts.size()))
    return invalid("starts ", starts, ", ends ", ends, ", axes ", axes, " and steps ", steps, " have different lengths");
  if (starts.size() > from.size()) return invalid(starts.size(), " axes are sliced of an input of shape ", from);
  std::vector<SliceAxis> out;
  for (int64_t d : from) out.push_back({0, 1, d});
  for (size_t i = 0; i < starts.size(); ++i) {
    ENG_ASSIGN(int64_t axis, normalize_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], static_cast<int64_t>(from.size())));
    const int64_t extent = from[static_cast<size_t>(axis)], step = steps.empty() ? 1 : steps[i];
    if (step == 0) return invalid("a step is 0");
    auto clamp = [&](int64_t at, int64_t low, int64_t high) { return std::clamp(at < 0 ? at + extent : at, low, high); };
    const int64_t first = step > 0 ? clamp(starts[i], 0, extent) : clamp(starts[i], 0, std::max<int64_t>(extent - 1, 0));
    const int64_t last = step > 0 ? clamp(ends[i], 0, extent) : clamp(ends[i], -1, extent - 1);
    int64_t count = 0;
    if (step > 0 && last > first) count = (last - first - 1) / step + 1;
    if (step < 0 && first > last && extent > 0) count = step == std::numeric_limits<int64_t>::min() ? 1 : (first - last - 1) / -step + 1;
    out[static_cast<size_t>(axis)] = {first, count > 1 ? step : 1, count};
  }
  return out;
}

namespace {

Result<std::vector<SliceAxis>> resolve(InferContext& c) {
  ENG_ASSIGN(std::vector<int64_t> starts, c.constant_ints(1, "starts"));
  ENG_ASSIGN(std::vector<int64_t> ends, c.constant_ints(2, "ends"));
  std::vector<int64_t> axes, steps;
  if (c.has_input(3)) { ENG_ASSIGN(axes, c.constant_ints(3, "axes")); }
  if (c.has_input(4)) { ENG_ASSIGN(steps, c.constant_ints(4, "steps")); }
  auto taken = resolve_slice(c.shape(0), starts, ends, axes, steps);
  if (!taken.ok()) return c.error(taken.status().message());
  return taken;
}

Status infer(InferContext& c) {
  ENG_ASSIGN(std::vector<SliceAxis> taken, resolve(c));
  Shape out;
  for (const SliceAxis& a : taken) out.push_back(a.count);
  return c.set_output(0, c.dtype(0), out);
}

Status gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  std::vector<int64_t> list[4];
  for (int i = 0; i < 4; ++i)
    if (c.has_input(i + 1)) list[i] = c.constant(i + 1)->to_ints();
  ENG_ASSIGN(std::vector<SliceAxis> taken, resolve_slice(c.shape(0), list[0], list[1], list[2], list[3]));
  std::vector<int64_t> starts, steps;
  for (const SliceAxis& a : taken) {
    starts.push_back(a.start);
    steps.push_back(a.step);
  }
  Attributes a;
  a.set("starts", starts);
  a.set("steps", steps);
  a.set("input_shape", c.shape(0));
  c.set(0, c.b.engine_op("SliceGrad", {c.dy()}, a));
  return {};
}

Status infer_grad(InferContext& c) {
  const Shape shape = c.attributes().get_ints("input_shape");
  if (shape.size() != c.shape(0).size()) return c.error(cat("input_shape ", shape, " does not fit dy ", c.shape(0)));
  return c.set_output(0, c.dtype(0), shape);
}

// The places of dy in dx: a Slice with ends just past the last element.
Status grad_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const std::vector<int64_t> starts = c.attributes().get_ints("starts"), steps = c.attributes().get_ints("steps");
  const Shape taken = c.shape(0);
  std::vector<int64_t> ends, axes;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t past = starts[i] + taken[i] * steps[i];
    ends.push_back(past < 0 ? std::numeric_limits<int64_t>::min() : past);  // ONNX's way to say "before the first element"
    axes.push_back(static_cast<int64_t>(i));
  }
  c.set(0, c.b.op("Slice", {c.dy(), c.b.ints(starts), c.b.ints(ends), c.b.ints(axes), c.b.ints(steps)}));
  return {};
}

Cost cost(const Graph& g, const Node& n) {
  return {.flops = 0, .bytes = 2.0 * static_cast<double>(element_count(g.value(n.outputs[0]).shape)) * static_cast<double>(size_of(g.value(n.outputs[0]).dtype))};
}

}  // namespace

std::span<const OpDef> slice_ops() {
  static const OpDef ops[] = {
      {.name = "Slice", .since = 13, .inputs = {{"data"}, {"starts", Slot::kHost}, {"ends", Slot::kHost}, {"axes", Slot::kHost, true}, {"steps", Slot::kHost, true}},
       .infer = infer, .gradient = gradient, .cost = cost, .layout = LayoutRule::kAny},
      {.domain = kEngineDomain, .name = "SliceGrad", .inputs = {{"dy"}}, .infer = infer_grad, .gradient = grad_gradient, .cost = cost, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
