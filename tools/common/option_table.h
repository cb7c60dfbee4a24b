// Command lines from one table: a row is an option's name, where its value goes, and its help. From the table come parsing (CLI11 splits
// the words), --help, the nearest name for an unknown one, refusals of what is not there yet, and config.toml, written and read.
// A new option is a row in the command's table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/base/status.h"

namespace eng::tools {

// bool: a flag, with --no-NAME for its opposite. Lists are given with commas or by repeating the option. Numbers may be fractions (1/255).
using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<double>*, std::vector<std::string>*>;

struct OptionRow {
  std::string name = "";  // "--epochs"; without dashes: a positional word, required
  Target target = {};      // its present content is the default
  std::string value = ""; // what stands for the value in the help: "N", "FILE", "RATE"; empty for flags
  std::string help = "";  // what it does, with the unit; the default is added
  std::string default_text = "";             // where the plain value would not say it: "off", "from the model"
  std::vector<std::string> choices = {};     // the only values of a string option
  double low = -1e300, high = 1e300;         // bounds of a number
};

struct OptionGroup {
  std::string title;
  std::vector<OptionRow> rows;
};

struct OptionTable {
  std::string command, usage, about;
  std::vector<OptionGroup> groups;
  std::vector<std::pair<std::string, std::string>> refused;  // known by name but not there yet: option, what would do instead ("" for nothing)
};

struct ParsedLine {
  bool help = false, version = false;
  std::vector<std::string> given;  // names that stood on the command line
  bool has(std::string_view name) const;
};

// Sets the targets of what is given. Errors are kUsage and name the option, what came, what was wanted.
Result<ParsedLine> parse_options(const OptionTable& table, const std::vector<std::string>& words);
// Sets the targets from "name = value" lines except those in `keep`. `source` is for messages.
Status read_config(const OptionTable& table, const std::string& text, const std::string& source, const std::vector<std::string>& keep);
// Every option with its present value; reads back to the same values.
std::string write_config(const OptionTable& table, const std::vector<std::string>& leave_out);
std::string help_text(const OptionTable& table);
std::string version_text(const OptionTable& table);

// Names of the options whose values in `table` are not those in `defaults`, a table of the same rows.
std::vector<std::string> changed_options(const OptionTable& table, const OptionTable& defaults);
// An option's present value as it stands in config.toml.
std::string value_text(const OptionTable& table, const std::string& name);
// The first of `names` that is among `given`, or "".
std::string first_of(const std::vector<std::string>& given, const std::vector<std::string>& names);

// A number or a fraction.
Result<double> parse_number(const std::string& text);
// Known names by increasing distance to `name`, at most three, none that is far off.
std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known);
// " Did you mean a or b?", or empty.
std::string suggestion(const std::string& name, const std::vector<std::string>& known);

}  // namespace eng::tools
