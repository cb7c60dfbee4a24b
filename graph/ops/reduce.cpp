// Reductions over axes (ReduceSum 13, Max and Min 20, the rest 18): axes as input, keepdims, noop_with_empty_axes; any layout.
// With g = dy brought back to x's rank (broadcasting over the reduced axes happens in the elementwise nodes):
//
//   ReduceSum       g                        ReduceL1         g sign(x)
//   ReduceMean      g / count                ReduceL2         g x / y
//   ReduceSumSquare 2 g x                    ReduceLogSum     g / exp(y)
//   ReduceProd      ReduceProdGrad           ReduceLogSumExp  g exp(x - y)
//   ReduceMax, Min  g [x == y] / (number of elements equal to y)
//
// ReduceProdGrad(dy, x; axes as node input) multiplies the others, so that zeros are right. ArgMax, ArgMin (13) give integers.
#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

struct Reduced {
  std::vector<bool> axis;  // per axis of x: summed over
  int64_t count = 1;
};

Result<Reduced> reduced_axes(const Shape& x, const std::vector<int64_t>& axes, bool noop_when_empty) {
  Reduced r;
  r.axis.assign(x.size(), axes.empty() && !noop_when_empty);
  for (int64_t a : axes) {
    ENG_ASSIGN(int64_t k, normalize_axis(a, static_cast<int64_t>(x.size())));
    r.axis[static_cast<size_t>(k)] = true;
  }
  for (size_t i = 0; i < x.size(); ++i)
    if (r.axis[i]) r.count *= x[i];
  return r;
}

Shape reduced_shape(const Shape& x, const Reduced& r, bool keep) {
  Shape out;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!r.axis[i]) out.push_back(x[i]);
    else if (keep) out.push_back(1);
  }
  return out;
}

Status infer_reduce(InferContext& c) {
  std::vector<int64_t> axes;
  if (c.has_input(1)) {
    ENG_ASSIGN(axes, c.constant_ints(1, "axes"));
  }
  auto r = reduced_axes(c.shape(0), axes, c.attributes().get_int("noop_with_empty_axes", 0) != 0);
  if (!r.ok()) return c.error(r.status().message());
  const std::string& op = c.node().op_type;
  if ((op == "ReduceMax" || op == "ReduceMin") && r->count == 0 && !is_floating(c.dtype(0)) && !is_integer(c.dtype(0)) && c.dtype(0) != DType::kBool)
    return c.error("nothing to take the extremum of");
  return c.set_output(0, c.dtype(0), reduced_shape(c.shape(0), *r, c.attributes().get_int("keepdims", 1) != 0));
}

Status infer_arg(InferContext& c) {
  auto axis = normalize_axis(c.attributes().get_int("axis", 0), c.rank(0));
  if (!axis.ok()) return c.error(axis.status().message());
  if (c.shape(0)[static_cast<size_t>(*axis)] == 0) return c.error(cat("axis ", *axis, " of the input is empty, shape ", c.shape(0)));
  Reduced r;
  r.axis.assign(c.shape(0).size(), false);
  r.axis[static_cast<size_t>(*axis)] = true;
  return c.set_output(0, DType::kInt64, reduced_shape(c.shape(0), r, c.attributes().get_int("keepdims", 1) != 0));
}

Status infer_prod_grad(InferContext& c) { return c.set_output(0, c.dtype(1), c.shape(1)); }

// What every rule starts from.
struct Parts {
  Reduced reduced;
  ValueId g = kNoValue, y = kNoValue;  // dy and the result with the reduced axes kept
};

Result<Parts> parts_of(GradContext& c, bool with_result) {
  std::vector<int64_t> axes;
  if (c.has_input(1)) {
    const Tensor* t = c.constant(1);
    if (!t) return invalid(c.graph().label(c.node()), ": axes are not constant");
    axes = t->to_ints();
  }
  Parts p;
  const Shape x = c.shape(0);
  ENG_ASSIGN(p.reduced, reduced_axes(x, axes, c.attributes().get_int("noop_with_empty_axes", 0) != 0));
  const Shape kept = reduced_shape(x, p.reduced, true);
  auto keep = [&](ValueId v) { return c.b.shape(v) == kept ? v : c.b.op("Reshape", {v, c.b.ints(kept)}); };
  p.g = keep(c.dy());
  if (with_result) p.y = keep(c.output());
  return p;
}

// dy has fewer elements than x: Expand only where no elementwise node with x broadcasts it.
ValueId expand(GradContext& c, ValueId g) {
  const Shape x = c.shape(0);
  return c.b.shape(g) == x ? g : c.b.op("Expand", {g, c.b.ints(x)});
}

Status sum_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, false));
  c.set(0, expand(c, p.g));
  return {};
}

Status mean_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, false));
  const double count = static_cast<double>(std::max<int64_t>(p.reduced.count, 1));
  c.set(0, expand(c, c.b.op("Mul", {p.g, c.b.scalar(c.b.dtype(p.g), 1 / count)})));
  return {};
}

Status square_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, false));
  c.set(0, c.b.op("Mul", {c.b.op("Add", {p.g, p.g}), c.input(0)}));
  return {};
}

Status l1_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, false));
  c.set(0, c.b.op("Mul", {p.g, c.b.op("Sign", {c.input(0)})}));
  return {};
}

Status l2_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, true));
  // 0 where the norm is 0, instead of 0 / 0
  ValueId zero = c.b.scalar(c.b.dtype(p.g), 0);
  ValueId slope = c.b.op("Where", {c.b.op("Greater", {p.y, zero}), c.b.op("Div", {p.g, p.y}), zero});
  c.set(0, c.b.op("Mul", {slope, c.input(0)}));
  return {};
}

Status log_sum_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, true));
  c.set(0, expand(c, c.b.op("Mul", {p.g, c.b.op("Exp", {c.b.op("Neg", {p.y})})})));
  return {};
}

Status log_sum_exp_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, true));
  c.set(0, c.b.op("Mul", {p.g, c.b.op("Exp", {c.b.op("Sub", {c.input(0), p.y})})}));
  return {};
}

Status extremum_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, true));
  const DType type = c.b.dtype(p.g);
  ValueId hit = c.b.op("Equal", {c.input(0), p.y});
  ValueId ones = c.b.op("Where", {hit, c.b.scalar(type, 1), c.b.scalar(type, 0)});
  Attributes keep;
  keep.set("keepdims", int64_t{1});
  std::vector<int64_t> axes;
  for (size_t i = 0; i < p.reduced.axis.size(); ++i)
    if (p.reduced.axis[i]) axes.push_back(static_cast<int64_t>(i));
  ValueId share = axes.empty() ? p.g : c.b.op("Div", {p.g, c.b.op("ReduceSum", {ones, c.b.ints(axes)}, keep)});
  c.set(0, c.b.op("Mul", {ones, share}));
  return {};
}

Status prod_gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  ENG_ASSIGN(Parts p, parts_of(c, false));
  std::vector<int64_t> axes;
  for (size_t i = 0; i < p.reduced.axis.size(); ++i)
    if (p.reduced.axis[i]) axes.push_back(static_cast<int64_t>(i));
  c.set(0, axes.empty() ? p.g : c.b.engine_op("ReduceProdGrad", {p.g, c.input(0), c.b.ints(axes)}));
  return {};
}

Cost cost(const Graph& g, const Node& n) { return {static_cast<double>(element_count(g.value(n.inputs[0]).shape)), 0}; }

OpDef reduction(const char* name, int64_t since, GradFn gradient) {
  return {.name = name, .since = since, .inputs = {{"data"}, {"axes", Slot::kHost, true}}, .infer = infer_reduce, .gradient = gradient,
          .cost = cost, .layout = LayoutRule::kAny};
}

}  // namespace

std::span<const OpDef> reduce_ops() {
  static const std::vector<OpDef> ops = {
      reduction("ReduceSum", 13, sum_gradient),
      reduction("ReduceMean", 18, mean_gradient),
      reduction("ReduceSumSquare", 18, square_gradient),
      reduction("ReduceL1", 18, l1_gradient),
      reduction("ReduceL2", 18, l2_gradient),
      reduction("ReduceLogSum", 18, log_sum_gradient),
      reduction("ReduceLogSumExp", 18, log_sum_exp_gradient),
      reduction("ReduceMax", 20, extremum_gradient),
      reduction("ReduceMin", 20, extremum_gradient),
      reduction("ReduceProd", 18, prod_gradient),
      {.domain = kEngineDomain, .name = "ReduceProdGrad", .inputs = {{"dy"}, {"x"}, {"axes", Slot::kHost}}, .infer = infer_prod_grad,
       .no_gradient = "it is itself part of a gradient"},
      {.name = "ArgMax", .since = 13, .inputs = {{"data"}}, .infer = infer_arg, .no_gradient = "its result is an index", .cost = cost, .layout = LayoutRule::kAny},
      {.name = "ArgMin", .since = 13, .inputs = {{"data"}}, .infer = infer_arg, .no_gradient = "its result is an index", .cost = cost, .layout = LayoutRule::kAny},
  };
  return ops;
}

}  // namespace eng
