// The CPU backend with its device allocations counted: what a compiled program really takes, against what it planned.
#pragma once

#include <cstdint>

#include "backends/abi/backend_abi.h"

namespace eng::test {

struct DeviceAllocations {
  uint64_t calls = 0;
  uint64_t bytes = 0;  // taken and not given back
};

const eb_backend_table* counting_backend();
DeviceAllocations device_allocations();

}  // namespace eng::test
