// Small models for tests, built in memory: inputs with a symbolic batch, parameters and states with content.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

namespace eng::test {

class ModelBuilder {
 public:
  explicit ModelBuilder(DType type = DType::kFloat32) : type_(type) {}
  Graph g;

  // An input [N, shape...].
  ValueId input(const std::string& name, Shape shape, DType type = DType::kUndefined) {
    ValueId v = g.add_value(name, type == DType::kUndefined ? type_ : type);
    Value& value = g.value(v);
    value.role = Role::kInput;
    value.declared_dims = {-1};
    value.declared_dims.insert(value.declared_dims.end(), shape.begin(), shape.end());
    value.declared_dim_names.assign(value.declared_dims.size(), "");
    value.declared_dim_names[0] = "N";
    g.inputs.push_back(v);
    return v;
  }
  ValueId tensor(const std::string& name, Shape shape, const std::vector<double>& values, Role role = Role::kParameter, DType type = DType::kUndefined) {
    Tensor t(type == DType::kUndefined ? type_ : type, std::move(shape));
    for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
    return g.add_tensor(name, std::move(t), role);
  }
  // Deterministic content in [-scale, scale], different for each name.
  ValueId weight(const std::string& name, Shape shape, double scale = 0.5) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    uint64_t state = 1469598103934665603ull;
    for (char c : name) state = (state ^ static_cast<uint64_t>(c)) * 1099511628211ull;
    for (double& v : values) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      v = static_cast<double>(static_cast<float>((static_cast<double>(state >> 33) * 0x1p-30 - 1) * scale));
    }
    return tensor(name, std::move(shape), values);
  }
  ValueId op(const std::string& type, std::vector<ValueId> inputs, Attributes attributes = {}, const std::string& name = "") {
    return g.node(g.add_node("", type, std::move(inputs), 1, std::move(attributes), name)).outputs[0];
  }
  void output(ValueId v, const std::string& name) {
    g.rename_value(v, name);
    g.outputs.push_back(v);
  }

 private:
  DType type_;
};

}  // namespace eng::test
