// See model_source.h.
#include "tools/common/model_source.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/passes/check_supported.h"
#include "graph/passes/dead_code.h"
#include "graph/passes/mark_parameters.h"
#include "graph/surgery/training_step.h"
#include "importers/onnx/import.h"

namespace eng::tools {

Result<Graph> read_model(const std::string& path, const Console& console) {
  std::vector<std::string> warnings;
  ImportOptions options;
  options.warnings = &warnings;
  ENG_ASSIGN(Graph model, import_onnx(path, options));
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < warnings.size() && i < kShown; ++i) console.warn(path + ": " + warnings[i]);
  if (warnings.size() > kShown) console.warn(cat(path, ": and ", warnings.size() - kShown, " more"));
  ENG_TRY(mark_parameters(model).in(path));
  return model;
}

Status keep_inputs(const std::string& out, const std::vector<std::string>& inputs) {
  for (const std::string& in : inputs) {
    std::error_code no_such_file;
    if (!out.empty() && !in.empty() && std::filesystem::equivalent(out, in, no_such_file)) return usage_error("--out ", out, " is the file ", in, " that is read: another name is wanted");
  }
  return {};
}

Result<Graph> part_for(const Graph& model, const std::string& target) {
  Graph part = model;
  ENG_ASSIGN(const ValueId output, find_target(model, target));
  part.outputs = {output};
  part.updates.clear();
  ENG_ASSIGN(const int removed, dead_code(part));
  (void)removed;
  const auto uses = part.uses();
  std::erase_if(part.inputs, [&](ValueId id) { return uses[static_cast<size_t>(id)].empty() && id != output; });
  return part;
}

Status check_part(const Graph& model, const std::string& target, const Console& console) {
  ENG_ASSIGN(const Graph part, part_for(model, target));
  ENG_TRY(check_supported(part));
  for (const std::string& finding : unsupported_nodes(model)) {
    console.note("not supported, but not needed for output '" + model.value(part.outputs[0]).name + "' either: " + finding);
  }
  return {};
}

std::string classes_to_json(const std::vector<std::string>& classes) {
  return nlohmann::json(classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<std::string>> classes_from(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kClassesKey);
  if (found == metadata.end()) return std::vector<std::string>();
  const auto j = nlohmann::json::parse(found->second, nullptr, false);
  std::vector<std::string> classes;
  if (!j.is_array()) return invalid("metadata ", kClassesKey, " is no list of names");
  for (const auto& name : j) {
    if (!name.is_string()) return invalid("metadata ", kClassesKey, " is no list of names");
    classes.push_back(name.get<std::string>());
  }
  return classes;
}

std::string dims_text(const Value& value) {
  std::string text = "[";
  for (size_t i = 0; i < value.declared_dims.size(); ++i) {
    const std::string symbol = i < value.declared_dim_names.size() ? value.declared_dim_names[i] : "";
    text += (i ? "," : "") + (value.declared_dims[i] >= 0 ? std::to_string(value.declared_dims[i]) : symbol.empty() ? "?" : symbol);
  }
  return text + "]";
}

}  // namespace eng::tools
