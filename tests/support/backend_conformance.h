// What every backend must do, checked through its table alone: the engine's own CPU backend, a plugin, the fake one. Failures are
// doctest failures that name what was asked. A new promise of backends/abi/backend_abi.h gets its check here.
#pragma once

#include "backends/abi/backend_abi.h"

namespace eng::test {

void run_backend_conformance(const eb_backend_table* table);

}  // namespace eng::test
