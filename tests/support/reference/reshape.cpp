// Reshape, Flatten, Squeeze, Unsqueeze: elements in row-major order under the inferred shape.
#include "tests/support/reference/reference.h"

namespace eng::test {

std::span<const RefDef> reshape_reference() {
  static constexpr RefFn copy = [](RefCall& c) { c.out().v = c.in(0).v; };
  static const RefDef defs[] = {{"", "Reshape", copy}, {"", "Flatten", copy}, {"", "Squeeze", copy}, {"", "Unsqueeze", copy}};
  return defs;
}

}  // namespace eng::test
