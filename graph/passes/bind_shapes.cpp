// See bind_shapes.h.
#include "graph/passes/bind_shapes.h"

namespace eng {

Status bind_shapes(Graph& g, const ShapeBinding& binding) {
  std::map<std::string, int64_t> symbols;
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
      else if (i == 0 && (d < 0 || binding.rebatch)) d = binding.batch;
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
