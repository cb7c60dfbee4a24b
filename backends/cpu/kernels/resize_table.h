// The weights of Resize along one axis: output o = sum of weight[k] * input index[k] for k in [start[o], start[o + 1]); an
// output without taps is the extrapolation value.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernel.h"

namespace eng::cpu {

struct ResizeTable {
  int64_t in = 1, out = 1;
  std::vector<int64_t> start{0}, index;
  std::vector<double> weight;
  bool identity() const;
  ResizeTable transposed() const;
};

// One table an axis of the tensor, for an input and output of these extents.
std::vector<ResizeTable> resize_tables(const NodeView& n, const std::vector<int64_t>& in, const std::vector<int64_t>& out);

}  // namespace eng::cpu
