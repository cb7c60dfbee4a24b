// Counts operator new (all threads) once a test program uses it, so that a test can show that a step allocates nothing. Calls from
// inside oneDNN's library are counted apart: executing a primitive makes short-lived maps of its arguments there, whatever the caller does.
#pragma once

#include <cstdint>

namespace eng::test {

// In a sanitized build the sanitizer's allocator stays and is asked to count, malloc included; oneDNN's calls are among them then.
bool onednn_is_counted_apart();
uint64_t allocations_so_far();          // without oneDNN's
uint64_t onednn_allocations_so_far();

}  // namespace eng::test
