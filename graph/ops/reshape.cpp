// Operators that only give a tensor another shape: Reshape (opset 21), Flatten (21), Squeeze (21), Unsqueeze (21). The bytes stay, so
// kernels are views. dx = dy under x's shape.
#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

Status infer_reshape(InferContext& c) {
  ENG_ASSIGN(Shape wanted, c.constant_ints(1, "shape"));
  const Shape& from = c.shape(0);
  const bool zero_is_zero = c.attributes().get_int("allowzero", 0) != 0;
  int64_t known = 1;
  int open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && !zero_is_zero) {
      if (i >= from.size()) return c.error(cat("shape ", wanted, " copies dimension ", i, ", which the input ", from, " does not have"));
      wanted[i] = from[i];
    }
    if (wanted[i] == -1) {
      if (open >= 0) return c.error(cat("shape ", wanted, " leaves two dimensions open"));
      open = static_cast<int>(i);
    } else if (wanted[i] < 0) {
      return c.error(cat("shape ", wanted, " has a negative dimension"));
    } else {
      auto product = checked_multiply(known, wanted[i]);
      if (!product) return c.error(cat("shape ", wanted, " is too large"));
      known = *product;
    }
  }
  const int64_t count = element_count(from);
  if (open >= 0) {
    if (known == 0 || count % known != 0) return c.error(cat("input ", from, " (", count, " elements) cannot take the shape ", wanted));
    wanted[static_cast<size_t>(open)] = count / known;
  } else if (known != count) {
    return c.error(cat("input ", from, " (", count, " elements) cannot take the shape ", wanted, " (", known, " elements)"));
  }
  return c.set_output(0, c.dtype(0), wanted);
}

Status infer_flatten(InferContext& c) {
  int64_t axis = c.attributes().get_int("axis", 1);
  const Shape& from = c.shape(0);
  const int64_t rank = c.rank(0);
  if (axis < -rank || axis > rank) return c.error(cat("axis ", axis, " is outside an input of rank ", rank));
  if (axis < 0) axis += rank;
  return c.set_output(0, c.dtype(0), {element_count(Shape(from.begin(), from.begin() + axis)), element_count(Shape(from.begin() + axis, from.end()))});
}

Status infer_squeeze(InferContext& c) {
  const Shape from = c.shape(0);
  std::vector<char> drop(from.size(), 0);
  if (c.has_input(1)) {
    ENG_ASSIGN(std::vector<int64_t> axes, c.constant_ints(1, "axes"));
    for (int64_t axis : axes) {
      auto at = normalize_axis(axis, c.rank(0));
      if (!at.ok()) return c.error(at.status().message());
      if (from[static_cast<size_t>(*at)] != 1) return c.error(cat("axis ", axis, " of the input ", from, " is not of extent 1"));
      drop[static_cast<size_t>(*at)] = 1;
    }
  } else {
    for (size_t i = 0; i < from.size(); ++i) drop[i] = from[i] == 1;
  }
  Shape out;
  for (size_t i = 0; i < from.size(); ++i)
    if (!drop[i]) out.push_back(from[i]);
  return c.set_output(0, c.dtype(0), out);
}

Status infer_unsqueeze(InferContext& c) {
  ENG_ASSIGN(std::vector<int64_t> axes, c.constant_ints(1, "axes"));
  const int64_t rank = c.rank(0) + static_cast<int64_t>(axes.size());
  std::vector<char> added(static_cast<size_t>(rank), 0);
  for (int64_t axis : axes) {
    auto at = normalize_axis(axis, rank);
    if (!at.ok()) return c.error(at.status().message());
    if (added[static_cast<size_t>(*at)]) return c.error(cat("axis ", axis, " is given twice"));
    added[static_cast<size_t>(*at)] = 1;
  }
  Shape out;
  size_t next = 0;
  for (char one : added) out.push_back(one ? 1 : c.shape(0)[next++]);
  return c.set_output(0, c.dtype(0), out);
}

Status gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const Shape wanted = c.shape(0);
  Attributes zero_is_zero;
  zero_is_zero.set("allowzero", int64_t{1});
  c.set(0, c.b.shape(c.dy()) == wanted ? c.dy() : c.b.op("Reshape", {c.dy(), c.b.ints(wanted)}, zero_is_zero));
  return {};
}

Cost no_work(const Graph&, const Node&) { return {.flops = 0, .bytes = 1}; }

}  // namespace

std::span<const OpDef> reshape_ops() {
  static const OpDef ops[] = {
      {.name = "Reshape", .since = 21, .inputs = {{"data"}, {"shape", Slot::kHost}}, .infer = infer_reshape, .gradient = gradient, .cost = no_work},
      {.name = "Flatten", .since = 21, .inputs = {{"input"}}, .infer = infer_flatten, .gradient = gradient, .cost = no_work},
      {.name = "Squeeze", .since = 21, .inputs = {{"data"}, {"axes", Slot::kHost, true}}, .infer = infer_squeeze, .gradient = gradient, .cost = no_work},
      {.name = "Unsqueeze", .since = 21, .inputs = {{"data"}, {"axes", Slot::kHost}}, .infer = infer_unsqueeze, .gradient = gradient, .cost = no_work},
  };
  return ops;
}

}  // namespace eng
