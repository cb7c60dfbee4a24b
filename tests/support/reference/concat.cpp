// Concat and Split, element by element.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

size_t axis_of(const RefCall& c, const Shape& s) {
  const int64_t axis = c.attr().get_int("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(s.size()) : axis);
}

void concat(RefCall& c) {
  const size_t axis = axis_of(c, c.out().shape);
  int64_t start = 0;
  for (int i = 0; i < c.in_count(); ++i) {
    for (int64_t k = 0; k < c.in(i).count(); ++k) {
      auto at = unravel(k, c.in(i).shape);
      at[axis] += start;
      c.out()[ravel(at, c.out().shape)] = c.in(i)[k];
    }
    start += c.in(i).shape[axis];
  }
}

void split(RefCall& c) {
  const size_t axis = axis_of(c, c.in(0).shape);
  std::vector<int64_t> sizes = c.ints(1);
  const int64_t extent = c.in(0).shape[axis], parts = c.out_count();
  int64_t start = 0;
  for (int i = 0; i < parts; ++i) {
    const int64_t size = !sizes.empty() ? sizes[static_cast<size_t>(i)] : (extent + parts - 1) / parts;
    if (c.wants(i))
      for (int64_t k = 0; k < c.out(i).count(); ++k) {
        auto at = unravel(k, c.out(i).shape);
        at[axis] += start;
        c.out(i)[k] = c.in(0)[ravel(at, c.in(0).shape)];
      }
    start += size;
  }
}

}  // namespace

std::span<const RefDef> concat_reference() {
  static const RefDef defs[] = {{"", "Concat", concat}, {"", "Split", split}};
  return defs;
}

}  // namespace eng::test
