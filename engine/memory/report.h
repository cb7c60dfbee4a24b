// What a compiled program needs of device memory, and why. Bytes everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace eng {

struct MemoryReport {
  uint64_t arena = 0;        // one block for everything made within a step, the kernels' scratch space included
  uint64_t workspace = 0;    // the largest scratch space of any kernel
  uint64_t inputs = 0;       // what is fed
  uint64_t constants = 0;
  uint64_t state = 0;        // parameters, running statistics, optimiser slots that this program uses (shared with other programs)
  uint64_t activations = 0;  // sum of all values made in a step if each had memory of its own
  uint64_t lower_bound = 0;  // the most bytes that are alive at once: no arrangement in this order can do with less
  std::string peak_node;     // where that is
  std::vector<uint64_t> live;  // bytes alive while each node runs, in order

  uint64_t total() const { return arena + inputs + constants + state; }
};

}  // namespace eng
