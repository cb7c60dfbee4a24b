// Models as the commands read them: imported, parameters marked, and looked through before anything is tried.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "tools/common/console.h"

namespace eng::tools {

// Imports the file and marks its parameters; what is odd becomes a warning.
Result<Graph> read_model(const std::string& path, const Console& console);

// Refuses a result's path that is one of the files that are read.
Status keep_inputs(const std::string& out, const std::vector<std::string>& inputs);

// The model with one output (empty: the first that depends on weights) and only what leads to it.
Result<Graph> part_for(const Graph& model, const std::string& target);
// All nodes of that part that are not supported, as one error; unsupported nodes elsewhere become a note.
Status check_part(const Graph& model, const std::string& target, const Console& console);

// Metadata of a trained file: class names in index order.
inline constexpr const char* kClassesKey = "engine.classes";
std::string classes_to_json(const std::vector<std::string>& classes);
// Empty where there are none; an error where they cannot be read.
Result<std::vector<std::string>> classes_from(const std::map<std::string, std::string>& metadata);

// "[N,3,224,224]" from declared dimensions.
std::string dims_text(const Value& value);

}  // namespace eng::tools
