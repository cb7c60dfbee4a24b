// Decides which constants of an imported graph are weights. The slots that a constant is read through decide (Slot in graph/ops/op.h):
//   kWeight                     a float constant is a parameter, whatever its size
//   kData of a differentiable   a float constant of rank >= 1 with more than one element is a parameter. So weights that are
//     operator                  reassembled first (Slice, Unsqueeze, Concat -> LSTM) are parameters too
//   kState                      a float constant is state (running statistics)
//   kHost, kIndex               the value must be known beforehand: such a constant is never a parameter
// Integers never are. A state that several nodes read is copied, so that each keeps its own running statistics. Weights that a file
// writes as ConstantOfShape of a constant shape are made real tensors first, and copies that an exporter made of equal tensors (Identity of an
// initializer whose elements are all the same, or that is read as a statistic) become tensors of their own.
#pragma once

#include "graph/base/status.h"
#include "graph/ir/graph.h"

namespace eng {

Status mark_parameters(Graph& graph);

}  // namespace eng
