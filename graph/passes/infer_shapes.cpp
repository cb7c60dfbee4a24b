// See infer_shapes.h.
#include "graph/passes/infer_shapes.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

// Outputs whose content is known become constants; true where all of them did.
bool take_constants(Graph& g, NodeId n) {
  const std::vector<ValueId> outputs = g.node(n).outputs;
  for (ValueId v : outputs)
    if (v != kNoValue && !g.value(v).data) return false;
  g.remove_node(n);
  for (ValueId v : outputs)
    if (v != kNoValue) g.value(v).role = Role::kConstant;
  return true;
}

Status fold(Graph& g, NodeId n, const Evaluator& evaluator) {
  const Node& node = g.node(n);
  const OpDef* op = find_op(node.domain, node.op_type);
  if (!evaluator || node.inputs.empty() || !op || op->stochastic) return {};
  std::vector<Tensor> inputs;
  for (ValueId v : node.inputs) {
    const Tensor* t = v == kNoValue ? nullptr : g.constant(v);
    if (v != kNoValue && !t) return {};
    inputs.push_back(t ? *t : Tensor());
  }
  ENG_ASSIGN(std::vector<Tensor> results, evaluator(g, n, inputs));
  for (size_t i = 0; i < results.size(); ++i) {
    ValueId v = g.node(n).outputs[i];
    if (v != kNoValue) g.value(v).data = std::make_shared<const Tensor>(std::move(results[i]));
  }
  take_constants(g, n);
  return {};
}

}  // namespace

Status infer_shapes(Graph& g, const Evaluator& evaluator) {
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  std::vector<char> unknown(static_cast<size_t>(g.value_count()), 0);
  std::string errors;
  Code code = Code::kOk;
  int count = 0;
  for (NodeId n : order) {
    bool skip = false;  // fed by a node that failed: its own error would only repeat that one
    for (ValueId v : g.node(n).inputs) skip |= v != kNoValue && unknown[static_cast<size_t>(v)];
    Status s = skip ? Status() : infer_node(g, n);
    if (s.ok() && !skip && !take_constants(g, n)) s = fold(g, n, evaluator);
    if (s.ok() && !skip) continue;
    for (ValueId v : g.node(n).outputs)
      if (v != kNoValue) unknown[static_cast<size_t>(v)] = 1;
    if (s.ok()) continue;
    if (code == Code::kOk) code = s.code();
    if (++count <= 20) errors += (errors.empty() ? "" : "\n  ") + s.message();
  }
  if (code == Code::kOk) return {};
  return Status(code, count == 1 ? errors : cat(count, " nodes cannot be used:\n  ", errors, count > 20 ? "\n  ..." : ""));
}

}  // namespace eng
