// See weights.h.
#include "importers/weights/weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "importers/onnx/import.h"
#include "importers/weights/plan.h"

namespace eng {
namespace {

// Tensors of one layer are skipped together: "fc.weight" and "fc.bias" are the layer "fc". Names of another kind stand alone.
std::string group_of(const std::string& name) {
  static const std::set<std::string> kParts{"weight", "bias", "kernel", "gamma", "beta", "W", "B", "b", "moving_mean", "moving_variance",
                                            "running_mean", "running_var", "scale", "mean", "var"};
  size_t cut = name.find_last_of("./");
  return cut != std::string::npos && kParts.count(name.substr(cut + 1)) ? name.substr(0, cut) : name;
}

// Weights that feed the same node belong to one layer, whatever they are called.
std::map<ValueId, NodeId> first_readers(const Graph& graph) {
  std::map<ValueId, NodeId> readers;
  for (NodeId id : graph.live_nodes())
    for (ValueId input : graph.node(id).inputs)
      if (input != kNoValue && is_weight(graph, input)) readers.emplace(input, id);
  return readers;
}

void plan_by_name(const Graph& graph, const std::map<std::string, Tensor>& tensors, LoadPlan& plan) {
  for (const auto& [name, tensor] : tensors) {
    ValueId value = graph.find_value(name);
    if (value == kNoValue || !is_weight(graph, value)) {
      plan.report.only_in_file.push_back(name);
      continue;
    }
    Assignment a;
    a.value = value;
    a.layer = name;
    a.tensor_name = name;
    a.file_shape = tensor.shape();
    a.content = tensor;
    a.group = group_of(name);
    plan.assignments.push_back(std::move(a));
  }
}

Result<std::map<std::string, Tensor>> tensors_of_onnx(const std::string& path) {
  ENG_ASSIGN(Graph source, import_onnx(path));
  std::map<std::string, Tensor> tensors;
  for (ValueId id = 0; id < source.value_count(); ++id)
    if (is_weight(source, id)) tensors.emplace(source.value(id).name, *source.value(id).data);
  return tensors;
}

// The file's tensor without its first row along the axis that is one longer than the model's; undefined where that is not all.
Tensor without_background(const Tensor& content, const Shape& wanted) {
  const Shape& have = content.shape();
  if (have.size() != wanted.size() || have.empty() || have.size() > 2) return {};
  size_t axis = have.size();
  for (size_t d = 0; d < have.size(); ++d) {
    if (have[d] == wanted[d]) continue;
    if (have[d] != wanted[d] + 1 || axis != have.size()) return {};
    axis = d;
  }
  if (axis == have.size()) return {};
  Tensor out(content.dtype(), wanted);
  int64_t columns = have.size() == 2 ? wanted[1] : 1, stride = have.size() == 2 ? have[1] : 1;
  int64_t skip_rows = axis == 0 ? 1 : 0, skip_columns = axis == 1 ? 1 : 0;
  for (int64_t row = 0; row < wanted[0]; ++row)
    for (int64_t column = 0; column < columns; ++column)
      out.set(row * columns + column, content.at((row + skip_rows) * stride + column + skip_columns));
  return out;
}

Tensor converted(const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  Tensor out(type, tensor.shape());
  for (int64_t i = 0, n = tensor.element_count(); i < n; ++i) out.set(i, tensor.at(i));
  return out;
}

// Marks what does not fit. Without skip_mismatch the first mismatch is the error.
Status check_shapes(const Graph& graph, const LoadOptions& options, LoadPlan& plan) {
  std::map<ValueId, NodeId> readers = first_readers(graph);
  std::set<std::string> bad_groups;
  std::set<NodeId> bad_nodes;
  for (Assignment& a : plan.assignments) {
    const Tensor& model = *graph.value(a.value).data;
    if (!is_floating(a.content.dtype()) && is_floating(model.dtype()))
      return invalid("'", printable(a.layer), "' holds ", name_of(a.content.dtype()), ", the model's '", graph.value(a.value).name, "' is ",
                     name_of(model.dtype()));
    if (a.content.shape() == model.shape()) continue;
    if (options.drop_background) {
      Tensor cut = without_background(a.content, model.shape());
      if (cut.defined()) {
        a.content = cut;
        continue;
      }
    }
    if (!options.skip_mismatch)
      return invalid("layer '", printable(a.layer), "': the file's ", printable(a.tensor_name), " has shape ", a.file_shape, ", the model's '",
                     graph.value(a.value).name, "' has ", model.shape(),
                     "; --skip-mismatch leaves such layers as freshly initialised, --replace-head fits the model's head to the data");
    bad_groups.insert(a.group);
    if (auto it = readers.find(a.value); it != readers.end()) bad_nodes.insert(it->second);
  }
  auto bad = [&](const Assignment& a) {
    auto reader = readers.find(a.value);
    return bad_groups.count(a.group) || (reader != readers.end() && bad_nodes.count(reader->second));
  };
  for (const Assignment& a : plan.assignments)
    if (bad(a)) plan.report.skipped.push_back({a.layer, graph.value(a.value).name, a.file_shape, graph.value(a.value).data->shape(), a.value});
  std::erase_if(plan.assignments, bad);
  return {};
}

void apply(Graph& graph, LoadPlan& plan) {
  std::set<ValueId> seen;
  for (Assignment& a : plan.assignments) {
    Value& value = graph.value(a.value);
    value.data = std::make_shared<const Tensor>(converted(a.content, value.data->dtype()));
    if (a.freeze) value.frozen = true;
    plan.report.loaded.push_back(value.name);
    seen.insert(a.value);
  }
  for (const auto& skipped : plan.report.skipped) seen.insert(skipped.value);
  for (const auto& [value, reader] : first_readers(graph)) {
    Role role = graph.value(value).role;
    // A scalar constant is an operator's argument, not a weight that anybody would look for in a file.
    bool counts = role == Role::kParameter || role == Role::kState || graph.value(value).data->element_count() > 1;
    if (counts && !seen.count(value)) plan.report.only_in_model.push_back(graph.value(value).name);
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 12; ++i) out += (i ? ", " : "") + printable(names[i]);
  return names.size() > 12 ? cat(out, ", ... (", names.size(), " in all)") : out;
}

}  // namespace

bool is_weight(const Graph& graph, ValueId id) {
  if (id == kNoValue) return false;
  const Value& value = graph.value(id);
  return value.data && value.producer == kNoNode && is_floating(value.data->dtype());
}

std::vector<std::string> LoadReport::summary() const {
  std::vector<std::string> lines{cat(loaded.size(), " weights loaded")};
  for (const Skipped& s : skipped)
    lines.push_back(cat("skipped '", printable(s.layer), "': file ", s.file_shape, ", model '", s.tensor, "' ", s.model_shape));
  for (const std::string& text : defaults) lines.push_back(text);
  if (!only_in_file.empty()) lines.push_back("only in the file: " + joined(only_in_file));
  if (!only_in_model.empty()) lines.push_back("only in the model, left as it is: " + joined(only_in_model));
  return lines;
}

Result<LoadReport> load_weights(Graph& graph, const std::string& path, const LoadOptions& options) {
  LoadPlan plan;
  if (looks_like_hdf5(path)) {
    ENG_ASSIGN(KerasWeights weights, read_keras_weights(path));
    ENG_TRY(plan_keras(graph, weights, plan).in(printable(path)));
  } else if (looks_like_safetensors(path)) {
    ENG_ASSIGN(SafetensorsFile file, read_safetensors(path));
    plan_by_name(graph, file.tensors, plan);
  } else {
    FileInfo info = file_info(path);
    if (info.kind != FileKind::kRegular) ENG_TRY(InputFile::open(path).status());
    if (path.ends_with(".h5") || path.ends_with(".hdf5") || path.ends_with(".safetensors"))
      return invalid("'", printable(path), "' is damaged: it does not begin like a ", path.ends_with(".safetensors") ? "safetensors" : "HDF5", " file");
    ENG_ASSIGN(auto tensors, tensors_of_onnx(path));
    plan_by_name(graph, tensors, plan);
  }
  ENG_TRY(check_shapes(graph, options, plan).in(printable(path)));
  if (plan.assignments.empty() && plan.report.skipped.empty())
    return invalid("no name in '", printable(path), "' fits the model; the file has ", joined(plan.report.only_in_file));
  apply(graph, plan);
  return std::move(plan.report);
}

}  // namespace eng
