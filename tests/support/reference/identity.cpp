// Identity: y = x. The smallest reference file: copy it to start a new one.
#include "tests/support/reference/reference.h"

namespace eng::test {

std::span<const RefDef> identity_reference() {
  static const RefDef defs[] = {{"", "Identity", [](RefCall& c) { c.out().v = c.in(0).v; }}};
  return defs;
}

}  // namespace eng::test
