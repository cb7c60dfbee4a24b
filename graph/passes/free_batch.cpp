// See free_batch.h.
#include "graph/passes/free_batch.h"

namespace eng {
namespace {

// Values that depend on a graph input; a weight that is reshaped to [1,C,1,1] is none of them.
std::vector<char> depends_on_inputs(const Graph& g, const std::vector<NodeId>& order) {
  std::vector<char> depends(static_cast<size_t>(g.value_count()), 0);
  for (ValueId v : g.inputs) depends[static_cast<size_t>(v)] = 1;
  for (NodeId n : order) {
    bool any = false;
    for (ValueId v : g.node(n).inputs) any |= v != kNoValue && depends[static_cast<size_t>(v)];
    for (ValueId v : g.node(n).outputs)
      if (v != kNoValue) depends[static_cast<size_t>(v)] = any;
  }
  return depends;
}

}  // namespace

Result<int> free_batch(Graph& g, const ShapeBinding& binding, const Evaluator& evaluator) {
  const int64_t baked = fixed_batch(g);
  if (!binding.rebatch || baked < 0 || baked == binding.batch) return 0;
  ENG_ASSIGN(std::vector<NodeId> order, g.topological_order());
  const std::vector<char> depends = depends_on_inputs(g, order);
  Graph original = g;
  ShapeBinding own = binding;
  own.batch = baked;
  own.shapes.clear();
  for (const auto& [name, shape] : binding.shapes) {
    own.shapes[name] = shape;
    if (!shape.empty()) own.shapes[name][0] = baked;
  }
  ENG_TRY(bind_shapes(original, own));
  ENG_TRY(infer_shapes(original, evaluator));
  int changed = 0;
  for (NodeId n : order) {
    const Node& node = g.node(n);
    if (!node.domain.empty() || node.op_type != "Reshape" || node.attributes.get_int("allowzero", 0) != 0) continue;
    const ValueId data = node.inputs[0];
    const Tensor* target = g.constant(node.inputs[1]);
    if (!target || target->element_count() == 0 || !depends[static_cast<size_t>(data)]) continue;
    const Shape& from = original.value(data).shape;
    std::vector<int64_t> dims = target->to_ints();
    if (from.empty() || from[0] != baked || dims[0] != baked) continue;
    dims[0] = 0;
    g.node(n).inputs[1] = g.add_tensor(g.value(node.outputs[0]).name + "/shape", Tensor::ints(dims), Role::kConstant);
    ++changed;
  }
  return changed;
}

}  // namespace eng
