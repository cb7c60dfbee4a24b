// Transpose (opset 21): y's axis i is x's axis perm[i]; the default reverses all. dx = dy under the inverse permutation.
#include <algorithm>

#include "graph/ops/op.h"

namespace eng {
namespace {

std::vector<int64_t> permutation(const Attributes& a, size_t rank) {
  if (a.has("perm")) return a.get_ints("perm");
  std::vector<int64_t> reversed(rank);
  for (size_t i = 0; i < rank; ++i) reversed[i] = static_cast<int64_t>(rank - 1 - i);
  return reversed;
}

Status infer(InferContext& c) {
  const Shape& from = c.shape(0);
  const std::vector<int64_t> perm = permutation(c.attributes(), from.size());
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool fits = perm.size() == from.size();
  for (size_t i = 0; fits && i < sorted.size(); ++i) fits = sorted[i] == static_cast<int64_t>(i);
  if (!fits) return c.error(cat("perm ", perm, " is no order of the axes of an input of shape ", from));
  Shape out;
  for (int64_t p : perm) out.push_back(from[static_cast<size_t>(p)]);
  return c.set_output(0, c.dtype(0), out);
}

Status gradient(GradContext& c) {
  if (!c.needs(0)) return {};
  const std::vector<int64_t> perm = permutation(c.attributes(), c.shape(0).size());
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  Attributes a;
  a.set("perm", inverse);
  c.set(0, c.b.op("Transpose", {c.dy()}, a));
  return {};
}

Cost cost(const Graph&, const Node&) { return {}; }

}  // namespace

std::span<const OpDef> transpose_ops() {
  static const OpDef ops[] = {{.name = "Transpose", .since = 21, .inputs = {{"data"}}, .infer = infer, .gradient = gradient, .cost = cost}};
  return ops;
}

}  // namespace eng
