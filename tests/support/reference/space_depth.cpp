// DepthToSpace and SpaceToDepth from ONNX's reshape-transpose-reshape text: the deep tensor has six axes, in the mode's order.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// f(flat index in the deep tensor, flat index in the wide one)
template <class F>
void each(const Shape& wide, int64_t b, bool crd, F&& f) {
  const int64_t c = wide[1], h = wide[2] / b, w = wide[3] / b;
  const Shape deep = crd ? Shape{wide[0], c, b, b, h, w} : Shape{wide[0], b, b, c, h, w};
  for (int64_t i = 0; i < element_count(wide); ++i) {
    const auto at = unravel(i, wide);
    const int64_t row = at[2] % b, column = at[3] % b;
    const std::vector<int64_t> to = crd ? std::vector<int64_t>{at[0], at[1], row, column, at[2] / b, at[3] / b}
                                        : std::vector<int64_t>{at[0], row, column, at[1], at[2] / b, at[3] / b};
    f(ravel(to, deep), i);
  }
}
bool crd(const RefCall& c) { return c.attr().get_string("mode", "DCR") == "CRD"; }

}  // namespace

std::span<const RefDef> space_depth_reference() {
  static const RefDef defs[] = {
      {"", "DepthToSpace", [](RefCall& c) {
         each(c.out().shape, c.attr().get_int("blocksize", 1), crd(c), [&](int64_t deep, int64_t wide) { c.out()[wide] = c.in(0)[deep]; });
       }},
      {"", "SpaceToDepth", [](RefCall& c) {
         each(c.in(0).shape, c.attr().get_int("blocksize", 1), crd(c), [&](int64_t deep, int64_t wide) { c.out()[deep] = c.in(0)[wide]; });
       }},
  };
  return defs;
}

}  // namespace eng::test
