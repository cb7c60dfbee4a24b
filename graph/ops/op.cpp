// See op.h: contexts and the builder.
#include "graph/ops/op.h"

#include <algorithm>

namespace eng {

Result<std::vector<int64_t>> InferContext::constant_ints(int i, const char* input_name) const {
  const Tensor* t = constant(i);
  if (!t)
    return error(cat("input '", input_name, "' (", has_input(i) ? graph_.value(node().inputs[static_cast<size_t>(i)]).name : "missing",
                     ") must be known before the step runs, but it is computed from data"));
  if (!is_integer(t->dtype())) return error(cat("input '", input_name, "' must be integers, got ", name_of(t->dtype())));
  return t->to_ints();
}

Status InferContext::set_output(int i, DType type, Shape shape) {
  if (!has_output(i)) return {};
  auto count = checked_element_count(shape);
  if (!count.ok()) return error(cat("output ", i, ": ", count.status().message()));
  Value& v = graph_.value(node().outputs[static_cast<size_t>(i)]);
  v.dtype = type;
  v.shape = std::move(shape);
  v.has_shape = true;
  return {};
}

Status InferContext::set_constant_output(int i, Tensor content) {
  if (!has_output(i)) return {};
  ENG_TRY(set_output(i, content.dtype(), content.shape()));
  graph_.value(node().outputs[static_cast<size_t>(i)]).data = std::make_shared<const Tensor>(std::move(content));
  return {};
}

Status InferContext::error(const std::string& what) const { return invalid(graph_.label(id_), ": ", what); }

ValueId Builder::op(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes) {
  return ops("", op_type, std::move(inputs), {true}, std::move(attributes))[0];
}

ValueId Builder::engine_op(const std::string& op_type, std::vector<ValueId> inputs, Attributes attributes) {
  return ops(kEngineDomain, op_type, std::move(inputs), {true}, std::move(attributes))[0];
}

std::vector<ValueId> Builder::ops(const std::string& domain, const std::string& op_type, std::vector<ValueId> inputs,
                                  const std::vector<bool>& wanted, Attributes attributes) {
  Node n;
  n.domain = domain;
  n.op_type = op_type;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
  n.phase = phase_;
  n.forward_node = forward_node_;
  for (bool w : wanted) n.outputs.push_back(w ? graph_.add_value(hint_.empty() ? op_type : hint_) : kNoValue);
  std::vector<ValueId> outputs = n.outputs;
  if (status_.ok()) {
    NodeId id = graph_.add_node(std::move(n));
    status_ = infer_node(graph_, id);
  }
  return outputs;
}

ValueId Builder::constant(Tensor content) { return graph_.add_tensor(hint_.empty() ? "constant" : hint_ + "/constant", std::move(content), Role::kConstant); }
ValueId Builder::scalar(DType type, double value) { return constant(Tensor::scalar(type, value)); }
ValueId Builder::ints(const std::vector<int64_t>& values) { return constant(Tensor::ints(values)); }
ValueId Builder::zeros_like(ValueId v) { return constant(Tensor(dtype(v), shape(v))); }

ValueId Builder::sum_to(ValueId v, const Shape& target) {
  const Shape from = shape(v);
  if (from == target) return v;
  std::vector<int64_t> axes;
  const size_t lead = from.size() - std::min(from.size(), target.size());
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (target[i - lead] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  if (!axes.empty()) {
    Attributes keep;
    keep.set("keepdims", int64_t{1});
    v = op("ReduceSum", {v, ints(axes)}, keep);
  }
  return shape(v) == target ? v : op("Reshape", {v, ints(target)});
}

Status infer_same_as_input(InferContext& c) { return c.set_output(0, c.dtype(0), c.shape(0)); }

Status infer_broadcast(InferContext& c) {
  Shape out = c.shape(0);
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has_input(i)) continue;
    auto wider = broadcast(out, c.shape(i));
    if (!wider.ok()) return c.error(cat("input ", i, ": ", wider.status().message()));
    out = *wider;
  }
  return c.set_output(0, c.dtype(0), out);
}

}  // namespace eng
