// The list of operators: one line a file of graph/ops. A new operator file adds its line here and nothing else.
#include <algorithm>
#include <map>
#include <mutex>

#include "graph/ops/op.h"

// Every operator file defines one of these.
#define ENG_OP_FILES(X) \
  X(identity) \
  X(reorder) \
  X(gemm) \
  X(matmul) \
  X(reshape) \
  X(conv) \
  X(binary) \
  X(logic) \
  X(unary) \
  X(loss) \
  X(metric) \
  X(optimizer_update) \
  X(batch_norm) \
  X(softmax) \
  X(reduce) \
  X(pool) \
  X(cast) \
  X(dropout) \
  X(lrn) \
  X(space_depth) \
  X(conv_transpose) \
  X(layer_norm) \
  X(transpose) \
  X(concat) \
  X(slice) \
  X(transfer) \
  X(gather) \
  X(scatter) \
  X(shape) \
  X(expand) \
  X(resize) \
  X(lstm) \
  X(gru) \
  X(rnn) \
  X(pad) \
  X(select) \
  X(generate) \
  X(einsum)

namespace eng {

#define ENG_DECLARE(stem) std::span<const OpDef> stem##_ops();
ENG_OP_FILES(ENG_DECLARE)
#undef ENG_DECLARE

namespace {

struct Catalogue {
  std::map<std::pair<std::string, std::string>, const OpDef*> by_name;
  std::vector<const OpDef*> all;
  Catalogue() {
#define ENG_ADD(stem) \
  for (const OpDef& op : stem##_ops()) by_name[{op.domain, op.name}] = &op;
    ENG_OP_FILES(ENG_ADD)
#undef ENG_ADD
    for (const auto& [key, op] : by_name) all.push_back(op);
  }
};
const Catalogue& catalogue() {
  static const Catalogue instance;
  return instance;
}

}  // namespace

const OpDef* find_op(const std::string& domain, const std::string& op_type) {
  auto it = catalogue().by_name.find({domain, op_type});
  return it == catalogue().by_name.end() ? nullptr : it->second;
}

const std::vector<const OpDef*>& all_ops() { return catalogue().all; }

Slot slot_of(const OpDef& op, int input) {
  if (op.inputs.empty()) return Slot::kData;
  size_t i = std::min(static_cast<size_t>(input), op.inputs.size() - 1);
  return op.inputs[i].slot;
}

Status infer_node(Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  const OpDef* op = find_op(n.domain, n.op_type);
  if (!op) return unsupported(graph.label(id), ": the operator is not supported");
  if (!op->variadic && n.inputs.size() > op->inputs.size())
    return invalid(graph.label(id), ": has ", n.inputs.size(), " inputs, the operator takes at most ", op->inputs.size());
  for (size_t i = 0; i < op->inputs.size(); ++i) {
    bool there = i < n.inputs.size() && n.inputs[i] != kNoValue;
    if (!there && !op->inputs[i].optional)
      return invalid(graph.label(id), ": the required input ", i, " ('", op->inputs[i].name, "') is missing");
  }
  for (ValueId v : n.inputs)
    if (v != kNoValue && !graph.value(v).has_shape)
      return internal_error(graph.label(id), ": shape of '", graph.value(v).name, "' is not known yet");
  const int outputs = static_cast<int>(n.outputs.size());
  if (outputs < op->min_outputs || (op->max_outputs >= 0 && outputs > op->max_outputs))
    return invalid(graph.label(id), ": has ", outputs, " outputs, the operator gives ", op->min_outputs, " to ", op->max_outputs);
  InferContext context(graph, id);
  return op->infer(context);
}

Cost cost_of(const Graph& graph, const Node& node) {
  const OpDef* op = find_op(node.domain, node.op_type);
  Cost cost;
  double elements = 0;
  for (ValueId v : node.outputs)
    if (v != kNoValue) elements += static_cast<double>(element_count(graph.value(v).shape));
  if (op && op->cost) cost = op->cost(graph, node);
  else cost.flops = elements;
  if (cost.bytes == 0)
    for (const auto* list : {&node.inputs, &node.outputs})
      for (ValueId v : *list)
        if (v != kNoValue) cost.bytes += static_cast<double>(element_count(graph.value(v).shape)) * static_cast<double>(size_of(graph.value(v).dtype));
  return cost;
}

}  // namespace eng
