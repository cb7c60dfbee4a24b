// ai.engine::Reorder: y = x; layouts do not exist here.
#include "tests/support/reference/reference.h"

namespace eng::test {

std::span<const RefDef> reorder_reference() {
  static const RefDef defs[] = {{"ai.engine", "Reorder", [](RefCall& c) { c.out().v = c.in(0).v; }}};
  return defs;
}

}  // namespace eng::test
