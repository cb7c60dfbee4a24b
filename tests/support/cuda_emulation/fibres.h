// Runs the blocks of a grid on the calling thread.
#pragma once

#include <functional>
#include <string>

#include "tests/support/cuda_emulation/device.h"

namespace eng_emulation {

// Calls `body` once for every thread of every block, with this_thread set. The seed gives the order of blocks and threads. False, with a violation that begins
// with `what`, after a misuse of barriers, warp operations or shared memory.
bool run_blocks(const LaunchShape& shape, const std::function<void()>& body, uint64_t seed, const std::string& what);

// After a fault in a kernel, out of which the caller has jumped to its own stack frame `frame`, that of run_blocks' caller.
void back_after_fault(void* frame);

}  // namespace eng_emulation
