// Fits a training step into a given amount of memory: chooses which activations are kept for the backward phase and which are made again
// there (graph/passes/recompute.h). What costs least for the bytes it frees goes first: normalised and concatenated copies of a
// convolution's output before convolutions. The search looks at lifetimes only; what it finds is judged by the estimator.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng {

struct MemoryNeed {
  uint64_t total = 0;                // device memory of the compiled step
  uint64_t arena = 0;                // of it the block for what a step makes
  std::vector<uint64_t> workspace;   // by value id: scratch space of the node that makes the value as its first output
};
// Deterministic. engine/exec/estimate.h has the one that plans as Program::compile does.
using MemoryEstimator = std::function<Result<MemoryNeed>(const Graph&)>;
// Seconds, or any unit, that a node takes.
using CostOfNode = std::function<double(const Graph&, NodeId)>;

// By operator counts alone: flops plus fifteen a byte moved, about the balance of one core of a busy machine.
double counted_cost(const Graph& graph, NodeId node);

struct BudgetChoice {
  Graph graph;                          // the step to compile
  std::vector<std::string> recomputed;  // names of the activations that are not kept
  int copies = 0;                       // nodes that run twice
  double flops = 0, extra_flops = 0;    // of a step without recomputation; added by it
  double slow_down = 1;                 // predicted time of a step relative to one that keeps everything
  uint64_t bytes = 0, bytes_without = 0;  // the estimator's total, with and without recomputation
};

// The cheapest step found that takes at most `limit_bytes`; the step itself where it fits as it is. kDevice where none was found: the message
// says the fewest bytes that were reached, `smallest` (may be null) receives them.
Result<BudgetChoice> fit_memory(const Graph& step, uint64_t limit_bytes, const MemoryEstimator& estimator, uint64_t* smallest = nullptr,
                                const CostOfNode& cost = counted_cost);

}  // namespace eng
