// Transpose: y[at] = x[from], from[perm[i]] = at[i].
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void run(RefCall& c) {
  std::vector<int64_t> perm = c.attr().get_ints("perm");
  const size_t rank = c.in(0).shape.size();
  if (!c.attr().has("perm")) for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  for (int64_t i = 0; i < c.out().count(); ++i) {
    const auto at = unravel(i, c.out().shape);
    std::vector<int64_t> from(rank);
    for (size_t k = 0; k < rank; ++k) from[static_cast<size_t>(perm[k])] = at[k];
    c.out()[i] = c.in(0)[ravel(from, c.in(0).shape)];
  }
}

}  // namespace

std::span<const RefDef> transpose_reference() {
  static const RefDef defs[] = {{"", "Transpose", run}};
  return defs;
}

}  // namespace eng::test
