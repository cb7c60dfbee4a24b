// The part of TOML that config.toml needs: "key = value" lines and comments; values are strings, numbers, true, false, and lists of
// those. Tables, dates and multi-line strings are refused.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"

namespace eng::tools {

struct TomlValue {
  std::vector<std::string> items;  // one where it is no list
  bool text = false;               // written in quotes
  bool list = false;
};

Result<std::vector<std::pair<std::string, TomlValue>>> parse_toml(const std::string& text, const std::string& source);
std::string to_text(const TomlValue& value);

}  // namespace eng::tools
