// See option_table.h. config.toml is read and written in toml.cpp.
#include "tools/common/option_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>

#include "tools/common/toml.h"

namespace eng::tools {
namespace {

bool positional(const OptionRow& row) { return row.name.rfind("--", 0) != 0; }
bool is_flag(const OptionRow& row) { return std::holds_alternative<bool*>(row.target); }
bool is_list(const OptionRow& row) {
  return std::holds_alternative<std::vector<double>*>(row.target) || std::holds_alternative<std::vector<std::string>*>(row.target);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::string number_text(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {  // the shortest that reads back
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

Status check_bounds(const OptionRow& row, double value, const std::string& given) {
  if (value >= row.low && value <= row.high) return {};
  std::string wanted = row.low > -1e300 ? "at least " + number_text(row.low) : "";
  if (row.high < 1e300) wanted += (wanted.empty() ? "at most " : " and at most ") + number_text(row.high);
  return usage_error(row.name, " ", given, ": must be ", wanted);
}

Status set(const OptionRow& row, int64_t& target, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno == ERANGE) return usage_error(row.name, " '", text, "': a whole number is wanted");
  target = value;
  return check_bounds(row, static_cast<double>(value), text);
}

Status set(const OptionRow& row, double& target, const std::string& text) {
  const auto value = parse_number(text);
  if (!value.ok()) return value.status().in(row.name);
  target = *value;
  return check_bounds(row, *value, text);
}

Status set(const OptionRow& row, std::string& target, const std::string& text) {
  target = text;
  if (row.choices.empty() || std::find(row.choices.begin(), row.choices.end(), text) != row.choices.end()) return {};
  std::string list;
  for (const std::string& c : row.choices) list += (list.empty() ? "" : ", ") + c;
  return usage_error(row.name, " '", text, "': known are ", list, suggestion(text, row.choices));
}

// The words given for one option; a list option may have several.
Status assign(const OptionRow& row, const std::vector<std::string>& words) {
  if (auto* flag = std::get_if<bool*>(&row.target)) {
    const std::string& word = words.back();
    if (word != "true" && word != "false") return usage_error(row.name, " '", word, "': true or false is wanted");
    **flag = word == "true";
    return {};
  }
  if (auto* number = std::get_if<int64_t*>(&row.target)) return set(row, **number, words.back());
  if (auto* number = std::get_if<double*>(&row.target)) return set(row, **number, words.back());
  if (auto* text = std::get_if<std::string*>(&row.target)) return set(row, **text, words.back());
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    for (std::string& part : split(word, ',')) parts.push_back(std::move(part));
  }
  if (auto* texts = std::get_if<std::vector<std::string>*>(&row.target)) {
    (*texts)->clear();
    for (const std::string& part : parts) {
      std::string text;
      ENG_TRY(set(row, text, part));
      (*texts)->push_back(text);
    }
    return {};
  }
  auto* numbers = std::get<std::vector<double>*>(row.target);
  numbers->clear();
  for (const std::string& part : parts) {
    double number = 0;
    ENG_TRY(set(row, number, part));
    numbers->push_back(number);
  }
  return {};
}

std::vector<std::string> names_of(const OptionTable& table) {
  std::vector<std::string> names{"--help", "--version"};
  for (const OptionGroup& group : table.groups) {
    for (const OptionRow& row : group.rows) {
      if (positional(row)) continue;
      names.push_back(row.name);
      if (is_flag(row)) names.push_back("--no-" + row.name.substr(2));
    }
  }
  for (const auto& [name, hint] : table.refused) names.push_back(name);
  return names;
}

Status unknown(const OptionTable& table, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.rfind('-', 0) != 0 || word == "-" || word == "--") continue;
    const std::string name = word.substr(0, word.find('='));
    return usage_error("unknown option ", name, suggestion(name, names_of(table)), " ", table.command, " --help lists all options");
  }
  return usage_error("unexpected argument '", words.front(), "'; usage: ", table.usage);
}

TomlValue toml_value(const Target& target) {
  TomlValue v;
  if (auto* flag = std::get_if<bool*>(&target)) v.items = {**flag ? "true" : "false"};
  else if (auto* integer = std::get_if<int64_t*>(&target)) v.items = {std::to_string(**integer)};
  else if (auto* number = std::get_if<double*>(&target)) v.items = {number_text(**number)};
  else if (auto* text = std::get_if<std::string*>(&target)) v = {{**text}, true, false};
  else if (auto* texts = std::get_if<std::vector<std::string>*>(&target)) v = {**texts, true, true};
  else {
    v.list = true;
    for (double n : *std::get<std::vector<double>*>(target)) v.items.push_back(number_text(n));
  }
  return v;
}

std::string default_of(const OptionRow& row) {
  if (!row.default_text.empty()) return row.default_text;
  const TomlValue v = toml_value(row.target);
  if (is_flag(row)) return v.items[0] == "true" ? "on" : "";
  std::string text;
  for (const std::string& item : v.items) text += (text.empty() ? "" : ",") + item;
  return text;
}

}  // namespace

bool ParsedLine::has(std::string_view name) const { return std::find(given.begin(), given.end(), name) != given.end(); }

Result<double> parse_number(const std::string& text) {
  double result = 1;
  const std::vector<std::string> parts = split(text, '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    char* end = nullptr;
    const double value = std::strtod(parts[i].c_str(), &end);
    if (parts[i].empty() || *end != '\0' || !std::isfinite(value) || parts.size() > 2 || (i == 1 && value == 0)) {
      return usage_error("'", text, "': a number (such as 0.5, 1e-3 or 1/255) is wanted");
    }
    result = i == 0 ? value : result / value;
  }
  return result;
}

Result<ParsedLine> parse_options(const OptionTable& table, const std::vector<std::string>& words) {
  CLI::App app(table.about);
  app.set_help_flag("");
  app.allow_extras();
  ParsedLine line;
  app.add_flag("--help,-h", line.help);
  app.add_flag("--version", line.version);
  std::deque<std::vector<std::string>> values;  // one a row, addresses stay
  std::deque<std::string> words_of;             // of the positional rows
  std::vector<std::pair<const OptionRow*, CLI::Option*>> options;
  try {
    for (const OptionGroup& group : table.groups) {
      for (const OptionRow& row : group.rows) {
        values.emplace_back();
        if (positional(row)) {  // a plain string takes one word and leaves the rest to the next row
          words_of.emplace_back();
          options.emplace_back(&row, app.add_option(row.name, words_of.back()));
          continue;
        }
        CLI::Option* option = is_flag(row) ? app.add_flag(row.name + ",!--no-" + row.name.substr(2), values.back())
                                           : app.add_option(row.name, values.back())->expected(1)->allow_extra_args(false);
        option->multi_option_policy(is_list(row) ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
        options.emplace_back(&row, option);
      }
    }
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    for (const std::string& word : words) {
      for (const auto& [name, hint] : table.refused) {
        if (word == name || word.rfind(name + "=", 0) == 0) {
          return usage_error(name, " is not there yet", hint.empty() ? "" : "; ", hint);
        }
      }
    }
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& e) {  // "--lr: 1 required TEXT missing"
    const std::string text = e.what();
    return usage_error(text.substr(0, text.find(':')), ": a value is wanted; ", table.command, " --help explains the options");
  } catch (const CLI::Error& e) {
    return usage_error(e.what(), "; ", table.command, " --help explains the options");
  }
  if (line.help || line.version) return line;
  if (!app.remaining().empty()) return unknown(table, app.remaining());
  for (size_t i = 0; i < options.size(); ++i) {
    const auto& [row, option] = options[i];
    if (option->count() == 0) continue;
    ENG_TRY(assign(*row, positional(*row) ? option->results() : values[i]));
    line.given.push_back(row->name);
  }
  return line;
}

Status read_config(const OptionTable& table, const std::string& text, const std::string& source, const std::vector<std::string>& keep) {
  ENG_ASSIGN(const auto entries, parse_toml(text, source));
  for (const auto& [key, value] : entries) {
    const OptionRow* found = nullptr;
    for (const OptionGroup& group : table.groups) {
      for (const OptionRow& row : group.rows) {
        if (row.name == "--" + key || row.name == key) found = &row;
      }
    }
    if (!found) {
      for (const auto& [name, hint] : table.refused) {
        if (name == "--" + key) return usage_error(source, ": '", key, "' is not there yet", hint.empty() ? "" : "; ", hint);
      }
      std::vector<std::string> known = names_of(table);
      for (std::string& k : known) k = k.substr(2);
      return usage_error(source, ": unknown key '", key, "'", suggestion(key, known));
    }
    if (std::find(keep.begin(), keep.end(), found->name) != keep.end()) continue;
    if (value.list && value.items.empty()) {
      if (auto* texts = std::get_if<std::vector<std::string>*>(&found->target)) (*texts)->clear();
      if (auto* numbers = std::get_if<std::vector<double>*>(&found->target)) (*numbers)->clear();
      continue;
    }
    ENG_TRY(assign(*found, value.items).in(source));
  }
  return {};
}

std::string write_config(const OptionTable& table, const std::vector<std::string>& leave_out) {
  std::string text = "# " + table.command + ": every option of this run, as it was resolved. " + table.command + " --config FILE reads it.\n";
  for (const OptionGroup& group : table.groups) {
    text += "\n# " + group.title + "\n";
    for (const OptionRow& row : group.rows) {
      if (std::find(leave_out.begin(), leave_out.end(), row.name) != leave_out.end()) continue;
      text += (positional(row) ? row.name : row.name.substr(2)) + " = " + to_text(toml_value(row.target)) + "\n";
    }
  }
  return text;
}

std::vector<std::string> changed_options(const OptionTable& table, const OptionTable& defaults) {
  std::vector<std::string> names;
  for (size_t g = 0; g < table.groups.size(); ++g) {
    for (size_t r = 0; r < table.groups[g].rows.size(); ++r) {
      const OptionRow& row = table.groups[g].rows[r];
      if (to_text(toml_value(row.target)) != to_text(toml_value(defaults.groups[g].rows[r].target))) names.push_back(row.name);
    }
  }
  return names;
}

std::string value_text(const OptionTable& table, const std::string& name) {
  for (const OptionGroup& group : table.groups) {
    for (const OptionRow& row : group.rows) {
      if (row.name == name) return to_text(toml_value(row.target));
    }
  }
  return "";
}

std::string first_of(const std::vector<std::string>& given, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(given.begin(), given.end(), name) != given.end()) return name;
  }
  return "";
}

std::string version_text(const OptionTable& table) { return table.command + " " ENGINE_VERSION "\n"; }

std::string help_text(const OptionTable& table) {
  std::string text = "Usage: " + table.usage + "\n\n" + table.about + "\n";
  for (const OptionGroup& group : table.groups) {
    text += "\n" + group.title + "\n";
    for (const OptionRow& row : group.rows) {
      std::string left = "  " + row.name;
      if (is_flag(row) && default_of(row) == "on") left += ", --no-" + row.name.substr(2);
      if (!row.value.empty()) left += " " + row.value;
      const std::string by_default = default_of(row);
      std::string right = row.help;
      if (!row.choices.empty()) {
        right += ": ";
        for (size_t i = 0; i < row.choices.size(); ++i) right += (i ? ", " : "") + row.choices[i];
      }
      if (!by_default.empty()) right += " (default " + by_default + ")";
      left.resize(std::max<size_t>(left.size() + 2, 34), ' ');
      size_t column = left.size();
      text += left;
      for (const std::string& word : split(right, ' ')) {  // wrapped at 120 columns
        if (column + word.size() > 120) {
          while (text.back() == ' ') text.pop_back();
          text += "\n" + std::string(34, ' ');
          column = 34;
        }
        text += word + " ";
        column += word.size() + 1;
      }
      while (text.back() == ' ') text.pop_back();
      text += "\n";
    }
  }
  text += "\nOf an option that is given twice the last counts (of a list: all). --version prints the version.\n";
  if (!table.refused.empty()) {
    text += "\nNot there yet (refused by name):";
    for (const auto& [name, hint] : table.refused) text += " " + name;
    text += "\n";
  }
  return text;
}

std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& k : known) {  // Levenshtein
    std::vector<size_t> row(k.size() + 1);
    for (size_t j = 0; j <= k.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= k.size(); ++j) {
        const size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == k[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    const bool part = name.size() > 4 && (k.find(name) != std::string::npos || name.find(k) != std::string::npos);
    const size_t distance = part ? std::min<size_t>(row.back(), 2) : row.back();
    if (distance <= std::max<size_t>(2, name.size() / 3)) ranked.emplace_back(distance, k);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (const auto& [distance, k] : ranked) {
    if (names.size() < 3) names.push_back(k);
  }
  return names;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::vector<std::string> near = nearest(name, known);
  if (near.empty()) return ".";
  std::string text = "; did you mean ";
  for (size_t i = 0; i < near.size(); ++i) text += (i == 0 ? "" : i + 1 == near.size() ? " or " : ", ") + near[i];
  return text + "?";
}

}  // namespace eng::tools
