// Import, run on the CPU and export of small models, for tests of the ONNX reader and writer.
#pragma once

#include <doctest/doctest.h>
#include <onnx/checker.h>

#include <map>
#include <string>
#include <vector>

#include "engine/exec/evaluate.h"
#include "graph/ops/op.h"
#include "graph/passes/check_supported.h"
#include "graph/passes/mark_parameters.h"
#include "importers/onnx/export.h"
#include "importers/onnx/import.h"
#include "tests/importers/onnx_proto.h"
#include "tests/support/op_check.h"

namespace eng::test {

// A model that must be fine.
inline Graph import_model(const ModelProto& model, std::vector<std::string>* warnings = nullptr) {
  const std::string bytes = model.SerializeAsString();
  ImportOptions options;
  options.warnings = warnings;
  auto graph = import_onnx_bytes(bytes.data(), bytes.size(), "", options);
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  return std::move(*graph);
}

// Writes the graph, has ONNX's checker judge it (shapes inferred strictly), and gives the model back.
inline ModelProto export_checked(const Graph& graph) {
  auto bytes = export_onnx_bytes(graph);
  REQUIRE_MESSAGE(bytes.ok(), bytes.status().message());
  ModelProto model;
  REQUIRE(model.ParseFromString(*bytes));
  CHECK_NOTHROW(onnx::checker::check_model(model, /*full_check=*/true));
  return model;
}

inline std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.element_count(); ++i) out.push_back(t.at(i));
  return out;
}

// The outputs of the graph for inputs by name.
inline std::vector<Tensor> run_graph(Graph graph, const std::map<std::string, Tensor>& feeds) {
  REQUIRE_MESSAGE(check_supported(graph).ok(), check_supported(graph).message());
  std::map<ValueId, Tensor> by_id;
  for (const auto& [name, tensor] : feeds) {
    REQUIRE(graph.find_value(name) != kNoValue);
    by_id[graph.find_value(name)] = tensor;
  }
  auto outputs = evaluate(cpu_device(), graph, by_id, std::vector<ValueId>(graph.outputs));
  REQUIRE_MESSAGE(outputs.ok(), outputs.status().message());
  return *outputs;
}

inline void check_near(const Tensor& got, const Shape& shape, const std::vector<double>& wanted, double tolerance = 1e-5) {
  CHECK(got.shape() == shape);
  const std::vector<double> values = numbers(got);
  REQUIRE(values.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(values[i] == doctest::Approx(wanted[i]).epsilon(1e-4).scale(tolerance * 1e4));
}

// Imported, exported, imported again: both must give the wanted outputs.
inline void check_outputs(const ModelProto& model, const std::map<std::string, Tensor>& feeds, const std::vector<std::pair<Shape, std::vector<double>>>& wanted) {
  const Graph graph = import_model(model);
  const Graph again = import_model(export_checked(graph));
  for (const Graph* g : {&graph, &again}) {
    const std::vector<Tensor> outputs = run_graph(*g, feeds);
    REQUIRE(outputs.size() == wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) check_near(outputs[i], wanted[i].first, wanted[i].second);
  }
}

inline Tensor floats(Shape shape, const std::vector<float>& values) { return Tensor::of<float>(std::move(shape), values); }
// 0, step, 2 step, ...
inline Tensor ramp(Shape shape, float step = 1) {
  Tensor t(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < t.element_count(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i) * step;
  return t;
}

// The only node of this kind.
inline const Node& only_node(const Graph& graph, const std::string& op_type) {
  const Node* found = nullptr;
  for (NodeId id : graph.live_nodes())
    if (graph.node(id).op_type == op_type) {
      REQUIRE(found == nullptr);
      found = &graph.node(id);
    }
  REQUIRE(found != nullptr);
  return *found;
}
inline std::vector<int64_t> constant_ints(const Graph& graph, ValueId v) {
  REQUIRE(graph.constant(v) != nullptr);
  return graph.constant(v)->to_ints();
}

}  // namespace eng::test
