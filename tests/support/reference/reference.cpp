// See reference.h.
#include "tests/support/reference/reference.h"

namespace eng::test {

std::vector<int64_t> RefCall::ints(int i) const {
  std::vector<int64_t> out;
  if (has(i))
    for (double d : in(i).v) out.push_back(static_cast<int64_t>(d));
  return out;
}

RefTensor to_reference(const Tensor& t) {
  RefTensor r(t.dtype(), t.shape());
  for (int64_t i = 0; i < r.count(); ++i) r[i] = t.at(i);
  return r;
}

Tensor to_tensor(const RefTensor& r, DType type) {
  Tensor t(type, r.shape);
  for (int64_t i = 0; i < r.count(); ++i) t.set(i, r[i]);
  return t;
}

std::vector<int64_t> unravel(int64_t i, const Shape& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t k = shape.size(); k-- > 0;) {
    at[k] = i % shape[k];
    i /= shape[k];
  }
  return at;
}

int64_t ravel(const std::vector<int64_t>& at, const Shape& shape) {
  int64_t i = 0;
  for (size_t k = 0; k < shape.size(); ++k) i = i * shape[k] + at[k];
  return i;
}

int64_t broadcast_index(int64_t i, const Shape& out_shape, const Shape& shape) {
  std::vector<int64_t> at = unravel(i, out_shape), own(shape.size());
  const size_t lead = out_shape.size() - shape.size();
  for (size_t k = 0; k < shape.size(); ++k) own[k] = shape[k] == 1 ? 0 : at[k + lead];
  return ravel(own, shape);
}

Result<std::map<ValueId, RefTensor>> interpret(const Graph& graph, const std::map<ValueId, RefTensor>& feeds) {
  std::map<ValueId, RefTensor> values = feeds;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!values.count(v) && graph.value(v).role != Role::kActivation && graph.value(v).data) values[v] = to_reference(*graph.value(v).data);
  ENG_ASSIGN(std::vector<NodeId> order, graph.topological_order());
  for (NodeId n : order) {
    const Node& node = graph.node(n);
    const RefDef* def = find_reference(node.domain, node.op_type);
    if (!def) return unsupported("no float64 reference kernel for ", graph.label(n));
    RefCall call{node, {}, {}};
    for (ValueId v : node.inputs) {
      if (v != kNoValue && !values.count(v)) return invalid(graph.label(n), ": no content for '", graph.value(v).name, "'");
      call.inputs.push_back(v == kNoValue ? nullptr : &values[v]);
    }
    for (ValueId v : node.outputs) {
      if (v == kNoValue) { call.outputs.push_back(nullptr); continue; }
      values[v] = RefTensor(graph.value(v).dtype, graph.value(v).shape);
      call.outputs.push_back(&values[v]);
    }
    def->run(call);
  }
  return values;
}

}  // namespace eng::test
