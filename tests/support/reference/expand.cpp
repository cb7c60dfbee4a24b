// Expand and Tile: y[i] reads x at the coordinates taken modulo x's extents.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void run(RefCall& c) {
  const Shape &x = c.in(0).shape, &y = c.out().shape;
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const auto at = unravel(i, y);
    std::vector<int64_t> from(x.size());
    for (size_t d = 0; d < x.size(); ++d) from[d] = at[d + y.size() - x.size()] % x[d];
    c.out()[i] = c.in(0)[ravel(from, x)];
  }
}

}  // namespace

std::span<const RefDef> expand_reference() {
  static const RefDef defs[] = {{"", "Expand", run}, {"", "Tile", run}};
  return defs;
}

}  // namespace eng::test
