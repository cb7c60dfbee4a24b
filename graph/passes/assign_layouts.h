// Chooses how rank 3-5 values lie in memory for a device that prefers channels-last, and inserts ai.engine::Reorder where a reader
// wants the other layout.
//
// What is fixed: graph inputs, outputs, parameters and states, and everything that a row-major operator or a weight slot touches
// are row-major; operands and results of channels-last operators (LayoutRule) are channels-last. Between them lie elementwise
// operators, which take either: each connected group of them goes where fewer bytes have to be reordered. Values for which both
// layouts are the same ([N,C,1,1]) belong to neither side. Constants are stored as their readers want them.
#pragma once

#include <functional>

#include "graph/ir/graph.h"

namespace eng {

struct LayoutReport {
  int channels_last = 0;  // values
  int reorders = 0;       // nodes inserted
  int64_t reordered_bytes = 0;
};

// `can_run(graph, node)` says whether the device has a kernel for the node with the layouts that its values have at the moment; a
// node that it refuses in channels-last is treated as row-major. Node ids change (renumbered); value ids stay.
Result<LayoutReport> assign_layouts(Graph& graph, const std::function<bool(const Graph&, NodeId)>& can_run = nullptr);

// Whether channels-last and row-major are the same bytes for this shape.
bool layouts_coincide(const Shape& shape);

}  // namespace eng
