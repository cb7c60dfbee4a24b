// Slice by walking each axis the way NumPy's indexing is described: start, start + step, ... until end is reached.
#include <algorithm>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void slice(RefCall& c) {
  const RefTensor& x = c.in(0);
  std::vector<std::vector<int64_t>> taken;  // per axis the indices
  for (int64_t d : x.shape) {
    taken.emplace_back();
    for (int64_t i = 0; i < d; ++i) taken.back().push_back(i);
  }
  const auto starts = c.ints(1), ends = c.ints(2), axes = c.ints(3), steps = c.ints(4);
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
    const int64_t extent = x.shape[static_cast<size_t>(axis)], step = steps.empty() ? 1 : steps[i];
    int64_t at = starts[i] < 0 ? starts[i] + extent : starts[i], end = ends[i] < 0 ? ends[i] + extent : ends[i];
    auto& list = taken[static_cast<size_t>(axis)];
    list.clear();
    if (step > 0)
      for (at = std::max<int64_t>(at, 0), end = std::min(end, extent); at < end; at += step) list.push_back(at);
    else
      for (at = std::min(at, extent - 1), end = std::max<int64_t>(end, -1); at > end; at += step) list.push_back(at);
  }
  for (int64_t i = 0; i < c.out().count(); ++i) {
    auto at = unravel(i, c.out().shape);
    for (size_t d = 0; d < at.size(); ++d) at[d] = taken[d][static_cast<size_t>(at[d])];
    c.out()[i] = x[ravel(at, x.shape)];
  }
}

void slice_grad(RefCall& c) {
  const auto starts = c.attr().get_ints("starts"), steps = c.attr().get_ints("steps");
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    auto at = unravel(i, c.in(0).shape);
    for (size_t d = 0; d < at.size(); ++d) at[d] = starts[d] + at[d] * steps[d];
    c.out()[ravel(at, c.out().shape)] = c.in(0)[i];
  }
}

}  // namespace

std::span<const RefDef> slice_reference() {
  static const RefDef defs[] = {{"", "Slice", slice}, {kEngineDomain, "SliceGrad", slice_grad}};
  return defs;
}

}  // namespace eng::test
