// A first placement for blocks that are too big to search: heterogeneous earliest finish time with insertion. Groups in
// order of their longest way to the end; each goes where its forward task would end first, in a gap if there is one.
#pragma once

#include "graph/partition/simulate.h"

namespace eng {

// `fixed` gives devices that are settled already (Problem-sized; -1: free). Empty: none.
Placement place_by_finish_time(const Problem& problem, const Placement& fixed = {});

}  // namespace eng
