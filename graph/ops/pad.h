// What a Pad does to each axis, with omitted axes filled in. Shared by Pad and its gradient rule.
#pragma once

#include "graph/ops/op.h"

namespace eng {

struct PadAxes {
  std::vector<int64_t> begin, end;  // per axis; negative: cropped
};
Result<PadAxes> resolve_pads(int64_t rank, const std::vector<int64_t>& pads, const std::vector<int64_t>* axes);

}  // namespace eng
