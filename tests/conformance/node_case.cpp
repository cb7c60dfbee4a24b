// See node_case.h.
#include "tests/conformance/node_case.h"

#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/exec/evaluate.h"
#include "graph/ops/op.h"
#include "importers/onnx/import.h"

namespace eng::conformance {
namespace {

namespace fs = std::filesystem;

// ---- what a model needs -------------------------------------------------------------------------------------------------

bool parse_file(const std::string& path, google::protobuf::Message& message) {
  std::ifstream in(path, std::ios::binary);
  return in && message.ParseFromIstream(&in);
}

bool known_type(int type) { return type == 0 || size_of(static_cast<DType>(type)) != 0; }

std::string type_name(int type) { return onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(type)); }

void note_type(const onnx::TypeProto& type, std::set<std::string>& out) {
  if (type.has_sequence_type()) out.insert("sequence");
  else if (type.has_optional_type()) out.insert("optional");
  else if (type.has_map_type()) out.insert("map");
  else if (!known_type(type.tensor_type().elem_type())) out.insert(type_name(type.tensor_type().elem_type()));
}

// Types of the file that the engine does not have: of inputs, outputs, initializers, constants and the targets of casts.
std::set<std::string> unknown_types(const onnx::GraphProto& graph) {
  std::set<std::string> out;
  for (const auto* list : {&graph.input(), &graph.output(), &graph.value_info()})
    for (const onnx::ValueInfoProto& v : *list) note_type(v.type(), out);
  for (const onnx::TensorProto& t : graph.initializer())
    if (!known_type(t.data_type())) out.insert(type_name(t.data_type()));
  for (const onnx::NodeProto& n : graph.node())
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (a.has_t() && !known_type(a.t().data_type())) out.insert(type_name(a.t().data_type()));
      const bool names_type = a.name() == "to" || a.name() == "output_dtype" || (a.name() == "dtype" && a.type() == onnx::AttributeProto::INT);
      if (names_type && !known_type(static_cast<int>(a.i()))) out.insert(type_name(static_cast<int>(a.i())));
      if (a.has_g()) out.merge(unknown_types(a.g()));
    }
  return out;
}

std::string join(const std::set<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

// Operators that the catalogue lacks: of the imported graph where there is one, else of the file.
std::set<std::string> unknown_operators(const Case& test, const Graph* graph) {
  std::set<std::string> out;
  if (graph) {
    for (NodeId n : graph->live_nodes()) {
      const Node& node = graph->node(n);
      if (!find_op(node.domain, node.op_type)) out.insert(node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type);
    }
    return out;
  }
  for (const std::string& name : test.operators) {
    const size_t colon = name.find("::");
    const bool found = colon == std::string::npos ? find_op("", name) != nullptr : find_op(name.substr(0, colon), name.substr(colon + 2)) != nullptr;
    if (!found) out.insert(name);
  }
  return out;
}

// An error is a skip where the model uses what the engine does not offer, or what a plugin's device lacks a kernel for, else a failure.
Outcome refused(const Case& test, const Graph* graph, const Status& status, const Device& device) {
  const std::set<std::string> operators = unknown_operators(test, graph);
  if (!operators.empty()) return {Verdict::kSkipped, "operator " + join(operators)};
  onnx::ModelProto model;
  if (parse_file(test.folder + "/model.onnx", model)) {
    const std::set<std::string> types = unknown_types(model.graph());
    if (!types.empty()) return {Verdict::kSkipped, "element type " + join(types)};
  }
  if (status.code() == Code::kUnsupported && device.name().rfind("cpu:", 0) != 0) return {Verdict::kSkipped, "kernels of " + device.name()};
  return {Verdict::kFailed, status.message()};
}

// ---- inputs -------------------------------------------------------------------------------------------------------------

// Graph inputs that something needs before the step: those from which a host input can be reached without passing Shape or Size,
// which need no content.
std::set<ValueId> needed_early(const Graph& graph) {
  std::vector<ValueId> open;
  for (NodeId n : graph.live_nodes()) {
    const Node& node = graph.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    for (size_t i = 0; op && i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && slot_of(*op, static_cast<int>(i)) == Slot::kHost) open.push_back(node.inputs[i]);
  }
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!seen.insert(v).second) continue;
    const NodeId producer = graph.value(v).producer;
    if (producer == kNoNode) continue;
    const Node& node = graph.node(producer);
    if (node.op_type == "Shape" || node.op_type == "Size") continue;
    for (ValueId input : node.inputs)
      if (input != kNoValue) open.push_back(input);
  }
  return seen;
}

Result<std::vector<Tensor>> read_tensors(const std::string& folder, const std::string& kind) {
  std::vector<Tensor> out;
  for (int j = 0; fs::exists(cat(folder, "/", kind, "_", j, ".pb")); ++j) {
    ENG_ASSIGN(Tensor t, read_tensor_proto(cat(folder, "/", kind, "_", j, ".pb")));
    out.push_back(std::move(t));
  }
  return out;
}

// Binds the data set's inputs: constants where needed early, feeds otherwise.
Result<std::map<ValueId, Tensor>> bind_inputs(Graph& graph, const std::vector<Tensor>& tensors) {
  if (tensors.size() > graph.inputs.size()) return invalid("the data set has ", tensors.size(), " inputs, the graph takes ", graph.inputs.size());
  const std::set<ValueId> early = needed_early(graph);
  std::map<ValueId, Tensor> feeds;
  std::vector<ValueId> kept;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i];
    if (i >= tensors.size() || !early.count(id)) kept.push_back(id);
    if (i >= tensors.size()) continue;
    if (!early.count(id)) {
      feeds[id] = tensors[i];
      continue;
    }
    Value& v = graph.value(id);
    v.role = Role::kConstant;
    v.dtype = tensors[i].dtype();
    v.shape = tensors[i].shape();
    v.has_shape = true;
    v.data = std::make_shared<const Tensor>(tensors[i]);
  }
  graph.inputs = kept;
  return feeds;
}

// ---- comparison ---------------------------------------------------------------------------------------------------------

// Outputs that come from a random generator whose numbers ONNX does not define: only type and shape are compared.
bool random_content(const std::string& name) {
  for (const char* prefix : {"test_training_dropout", "test_bernoulli"})
    if (name.rfind(prefix, 0) == 0) return name.find("zero_ratio") == std::string::npos;
  return false;
}

std::string difference(const Tensor& got, const Tensor& wanted, const Case& test) {
  if (got.dtype() != wanted.dtype()) return cat("type ", name_of(got.dtype()), ", wanted ", name_of(wanted.dtype()));
  if (got.shape() != wanted.shape()) return cat("shape ", got.shape(), ", wanted ", wanted.shape());
  if (random_content(test.name)) return "";
  const bool exact = !is_floating(got.dtype());
  const size_t size = size_of(got.dtype());
  int64_t wrong = 0, first = -1;
  double worst = 0;
  for (int64_t i = 0; i < got.element_count(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(got.bytes() + at, wanted.bytes() + at, size) == 0) continue;
    const double g = got.at(i), w = wanted.at(i), error = std::abs(g - w);
    const bool fine = !exact && ((std::isnan(g) && std::isnan(w)) || g == w || error <= test.atol + test.rtol * std::abs(w));
    if (fine) continue;
    ++wrong;
    if (first < 0) first = i;
    if (!(error <= worst)) worst = error;
  }
  if (wrong == 0) return "";
  return cat(wrong, " of ", got.element_count(), " elements differ, most by ", worst, "; element ", first, " is ", got.at(first), ", wanted ",
             wanted.at(first));
}

std::vector<std::string> data_sets(const Case& test) {
  std::vector<std::string> out;
  for (int i = 0; fs::exists(cat(test.folder, "/test_data_set_", i)); ++i) out.push_back(cat(test.folder, "/test_data_set_", i));
  return out;
}

Outcome run_data_set(const Case& test, const std::string& folder, const std::shared_ptr<Device>& device) {
  Result<Graph> imported = import_onnx(test.folder + "/model.onnx");
  if (!imported.ok()) return refused(test, nullptr, imported.status().in("import"), *device);
  Graph graph = std::move(*imported);
  const Graph as_imported = graph;
  const Result<std::vector<Tensor>> inputs = read_tensors(folder, "input"), wanted = read_tensors(folder, "output");
  if (!inputs.ok()) return refused(test, &as_imported, inputs.status(), *device);
  if (!wanted.ok()) return refused(test, &as_imported, wanted.status(), *device);
  Result<std::map<ValueId, Tensor>> feeds = bind_inputs(graph, *inputs);
  if (!feeds.ok()) return refused(test, &as_imported, feeds.status(), *device);
  const std::vector<ValueId> outputs = graph.outputs;
  const Result<std::vector<Tensor>> got = evaluate(device, graph, *feeds, outputs);
  if (!got.ok()) return refused(test, &as_imported, got.status(), *device);
  if (got->size() != wanted->size()) return {Verdict::kFailed, cat(got->size(), " outputs, wanted ", wanted->size())};
  for (size_t i = 0; i < got->size(); ++i) {
    const std::string text = difference((*got)[i], (*wanted)[i], test);
    if (!text.empty()) return {Verdict::kFailed, cat("output ", i, " ('", as_imported.value(as_imported.outputs[i]).name, "'): ", text)};
  }
  return {Verdict::kPassed, ""};
}

// ---- shape inference ----------------------------------------------------------------------------------------------------

// The model with the data set's inputs: concrete shapes, and initializers where the content is needed. Declared output and
// intermediate shapes are dropped, so that only inference can give them.
Result<onnx::ModelProto> bound_model(const Case& test, const std::vector<Tensor>& inputs, const std::set<std::string>& early) {
  onnx::ModelProto model;
  if (!parse_file(test.folder + "/model.onnx", model)) return invalid(test.folder, "/model.onnx: not readable");
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.clear_value_info();
  for (onnx::ValueInfoProto& v : *graph.mutable_output()) v.clear_type();
  std::set<std::string> filled;
  for (const onnx::TensorProto& t : graph.initializer()) filled.insert(t.name());
  int j = 0;
  for (onnx::ValueInfoProto& v : *graph.mutable_input()) {
    if (filled.count(v.name()) || j >= static_cast<int>(inputs.size())) continue;
    const Tensor& t = inputs[static_cast<size_t>(j)];
    auto* shape = v.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (int64_t d : t.shape()) shape->add_dim()->set_dim_value(d);
    if (early.count(v.name())) {
      onnx::TensorProto content;
      if (!parse_file(cat(test.folder, "/test_data_set_0/input_", j, ".pb"), content)) return invalid("input ", j, ": not readable");
      content.set_name(v.name());
      *graph.add_initializer() = content;
    }
    ++j;
  }
  return model;
}

// "float32 [2,3]" where ONNX knows type and every dimension, else "".
std::string known_shape(const onnx::ValueInfoProto& v) {
  if (!v.type().has_tensor_type() || !v.type().tensor_type().has_shape() || v.type().tensor_type().elem_type() == 0) return "";
  Shape shape;
  for (const auto& d : v.type().tensor_type().shape().dim()) {
    if (!d.has_dim_value()) return "";
    shape.push_back(d.dim_value());
  }
  return cat(name_of(static_cast<DType>(v.type().tensor_type().elem_type())), " ", shape);
}

}  // namespace

Result<std::vector<Case>> read_cases(const std::string& folder) {
  const std::string path = folder + "/cases.json";
  std::ifstream in(path);
  if (!in) return not_found(path, ": cannot be opened; write it with tests/conformance/generate.py");
  const nlohmann::json rows = nlohmann::json::parse(in, nullptr, false);
  if (!rows.is_array()) return invalid(path, ": not a list of cases");
  std::vector<Case> out;
  for (const auto& row : rows) {
    Case test;
    test.name = row.at("name").get<std::string>();
    test.folder = folder + "/" + test.name;
    test.operators = row.at("ops").get<std::vector<std::string>>();
    test.rtol = row.at("rtol").get<double>();
    test.atol = row.at("atol").get<double>();
    out.push_back(std::move(test));
  }
  return out;
}

Outcome run_case(const Case& test, const std::shared_ptr<Device>& device) {
  const std::vector<std::string> sets = data_sets(test);
  if (sets.empty()) return {Verdict::kFailed, "no data set in " + test.folder};
  for (const std::string& folder : sets) {
    Outcome outcome = run_data_set(test, folder, device);
    if (outcome.verdict != Verdict::kPassed) return outcome;
  }
  return {Verdict::kPassed, ""};
}

Outcome compare_shapes(const Case& test, const std::shared_ptr<Device>& device) {
  Result<Graph> imported = import_onnx(test.folder + "/model.onnx");
  if (!imported.ok()) return refused(test, nullptr, imported.status().in("import"), *device);
  Graph graph = std::move(*imported);
  const Graph as_imported = graph;
  const Result<std::vector<Tensor>> inputs = read_tensors(test.folder + "/test_data_set_0", "input");
  if (!inputs.ok()) return refused(test, &as_imported, inputs.status(), *device);
  std::set<std::string> early;
  for (ValueId v : needed_early(graph)) early.insert(graph.value(v).name);
  Result<std::map<ValueId, Tensor>> feeds = bind_inputs(graph, *inputs);
  if (!feeds.ok()) return refused(test, &as_imported, feeds.status(), *device);
  for (const auto& [id, tensor] : *feeds) {
    Value& v = graph.value(id);
    v.dtype = tensor.dtype();
    v.shape = tensor.shape();
    v.has_shape = true;
  }
  const Status status = infer_shapes(graph, evaluator_on(device));
  if (!status.ok()) return refused(test, &as_imported, status, *device);
  Result<onnx::ModelProto> theirs = bound_model(test, *inputs, early);
  if (!theirs.ok()) return {Verdict::kFailed, theirs.status().message()};
  try {
    onnx::shape_inference::InferShapes(*theirs, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions{true, 1, true});
  } catch (const std::exception& e) {
    return {Verdict::kSkipped, cat("ONNX infers no shapes: ", e.what())};
  }
  Outcome outcome{Verdict::kPassed, "", 0, 0};
  for (const auto* list : {&theirs->graph().output(), &theirs->graph().value_info()})
    for (const onnx::ValueInfoProto& v : *list) {
      const ValueId id = graph.find_value(v.name());
      const std::string wanted = known_shape(v);
      if (wanted.empty() || id == kNoValue || !graph.value(id).has_shape) continue;
      const std::string got = cat(name_of(graph.value(id).dtype), " ", graph.value(id).shape);
      if (got == wanted) { ++outcome.agree; continue; }
      ++outcome.differ;
      outcome.verdict = Verdict::kFailed;
      outcome.reason += cat("'", v.name(), "' is ", got, ", ONNX says ", wanted, "; ");
    }
  return outcome;
}

}  // namespace eng::conformance
