// Range, EyeLike, OneHot.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void range(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = c.in(0)[0] + static_cast<double>(i) * c.in(2)[0];
}

void eye(RefCall& c) {
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = i % c.out().dim(1) - i / c.out().dim(1) == c.attr().get_int("k", 0);
}

void one_hot(RefCall& c) {
  int64_t axis = c.attr().get_int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(c.out().shape.size());
  for (int64_t i = 0; i < c.out().count(); ++i) {
    auto at = unravel(i, c.out().shape);
    const int64_t here = at[static_cast<size_t>(axis)], depth = c.out().shape[static_cast<size_t>(axis)];
    at.erase(at.begin() + axis);
    const double index = c.in(0)[ravel(at, c.in(0).shape)];
    c.out()[i] = c.in(2)[static_cast<double>(here) == index || static_cast<double>(here - depth) == index ? 1 : 0];
  }
}

}  // namespace

std::span<const RefDef> generate_reference() {
  static const RefDef defs[] = {{"", "Range", range}, {"", "EyeLike", eye}, {"", "OneHot", one_hot}};
  return defs;
}

}  // namespace eng::test
