// See bind_shapes.h.
#include "graph/passes/bind_shapes.h"

namespace eng {

int64_t fixed_batch(const Graph& g) {
  int64_t batch = -1;
  for (ValueId v : g.inputs) {
    const std::vector<int64_t>& dims = g.value(v).declared_dims;
    if (dims.empty() || dims[0] < 0 || (batch >= 0 && dims[0] != batch)) return -1;
    batch = dims[0];
  }
  return batch;
}

bool is_batched(const Graph& g, ValueId v) {
  const std::vector<int64_t>& dims = g.value(v).declared_dims;
  return !dims.empty() && (dims[0] < 0 || fixed_batch(g) >= 0);
}

std::vector<std::string> zero_unbatched_inputs(Graph& g, const ShapeBinding& binding) {
  std::vector<std::string> names;
  std::vector<ValueId> fed;
  std::vector<char> zero;
  for (ValueId v : g.inputs) {  // all are judged before one is taken away: the rule looks at all inputs
    const Value& value = g.value(v);
    bool known = !value.declared_dims.empty() && !is_batched(g, v) && !binding.shapes.count(value.name);
    for (int64_t d : value.declared_dims) known = known && d >= 0;
    zero.push_back(known && checked_element_count(value.declared_dims).ok() && size_of(value.dtype) != 0);
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    Value& value = g.value(g.inputs[i]);
    if (!zero[i]) {
      fed.push_back(g.inputs[i]);
      continue;
    }
    names.push_back(value.name);
    value.role = Role::kConstant;
    value.shape = value.declared_dims;
    value.has_shape = true;
    value.data = std::make_shared<const Tensor>(value.dtype, value.shape);
  }
  g.inputs = fed;
  return names;
}

Status bind_shapes(Graph& g, const ShapeBinding& binding) {
  std::map<std::string, int64_t> symbols;
  const bool rebatch = fixed_batch(g) >= 0;
  for (const auto& [name, shape] : binding.shapes) {
    ValueId v = g.find_value(name);
    if (v == kNoValue || g.value(v).role != Role::kInput) {
      std::string known;
      for (ValueId i : g.inputs) known += (known.empty() ? "" : ", ") + g.value(i).name;
      return not_found("the model has no input '", name, "'; its inputs are: ", known);
    }
    const Value& value = g.value(v);
    if (shape.size() != value.declared_dims.size())
      return invalid("input '", name, "' has ", value.declared_dims.size(), " dimensions in the model, got shape ", shape);
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] >= 0 && i < value.declared_dim_names.size() && !value.declared_dim_names[i].empty()) symbols[value.declared_dim_names[i]] = shape[i];
  }
  for (ValueId v : g.inputs) {
    Value& value = g.value(v);
    auto given = binding.shapes.find(value.name);
    Shape shape;
    for (size_t i = 0; i < value.declared_dims.size(); ++i) {
      int64_t d = value.declared_dims[i];
      if (given != binding.shapes.end() && given->second[i] >= 0) d = given->second[i];
      else if (i == 0 && (d < 0 || (rebatch && binding.rebatch))) d = binding.batch;
      else if (d < 0 && symbols.count(value.declared_dim_names[i])) d = symbols[value.declared_dim_names[i]];
      if (d < 0)
        return invalid("dimension ", i, (value.declared_dim_names[i].empty() ? "" : " ('" + value.declared_dim_names[i] + "')"), " of input '", value.name,
                       "' is not fixed by the model; give the input's size");
      shape.push_back(d);
    }
    ENG_TRY(checked_element_count(shape).status().in("input '" + value.name + "'"));
    value.shape = std::move(shape);
    value.has_shape = true;
  }
  return {};
}

}  // namespace eng
