// Runs a graph node by node on host tensors, with a kernel made for each: for constant folding, conformance runs and tests.
// Slow by design (a buffer a value, a wait a node); a training step is compiled instead (engine/exec/program.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/ir/graph.h"
#include "graph/passes/infer_shapes.h"

namespace eng {

// One node whose output types and shapes are known. Inputs in node order, undefined tensors where omitted. All row-major.
Result<std::vector<Tensor>> evaluate_node(const std::shared_ptr<Device>& device, const Graph& graph, NodeId node, const std::vector<Tensor>& inputs);

// The evaluator that infer_shapes takes.
Evaluator evaluator_on(const std::shared_ptr<Device>& device);

// The whole graph: gives inputs the shapes and types of `feeds` (by value id), infers and folds, runs what remains and returns the
// content of `wanted`. Parameters and states have their first content. The graph is changed by the folding.
Result<std::vector<Tensor>> evaluate(const std::shared_ptr<Device>& device, Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                     const std::vector<ValueId>& wanted);

}  // namespace eng
