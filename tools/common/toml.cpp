// See toml.h.
#include "tools/common/toml.h"

#include <cctype>

namespace eng::tools {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (byte < 0x20 || byte == 0x7f) {
      const char* digits = "0123456789abcdef";
      out += "\\u00", out += digits[byte >> 4], out += digits[byte & 15];
    } else out += c;
  }
  return out + "\"";
}

class Parser {
 public:
  Parser(const std::string& text, const std::string& source) : text_(text), source_(source) {}

  Result<std::vector<std::pair<std::string, TomlValue>>> parse() {
    std::vector<std::pair<std::string, TomlValue>> entries;
    while (skip_blank(), at_ < text_.size()) {
      if (text_[at_] == '[') return error("sections are not used here: write plain 'key = value' lines");
      std::string key;
      while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-' || text_[at_] == '_')) key += text_[at_++];
      skip_spaces();
      if (key.empty() || at_ >= text_.size() || text_[at_] != '=') return error("'key = value' is wanted");
      ++at_;
      skip_spaces();
      TomlValue value;
      ENG_TRY(read_value(value));
      skip_spaces();
      if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r' && text_[at_] != '#') return error("something follows the value");
      for (const auto& [known, v] : entries) {
        if (known == key) return error("key '" + key + "' is there twice");
      }
      entries.emplace_back(key, value);
    }
    return entries;
  }

 private:
  Status error(const std::string& what) const {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    return usage_error(source_, ":", line, ": ", what);
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
      else break;
    }
  }
  Status read_value(TomlValue& value) {
    if (at_ >= text_.size() || text_[at_] != '[') {
      value.items.emplace_back();
      return read_item(value.items.back(), value.text);
    }
    value.list = true;
    for (++at_;;) {
      skip_blank();
      if (at_ < text_.size() && text_[at_] == ']') return ++at_, Status();
      value.items.emplace_back();
      ENG_TRY(read_item(value.items.back(), value.text));
      skip_blank();
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
      else if (at_ >= text_.size() || text_[at_] != ']') return error("a list is not closed");
    }
  }
  Status read_item(std::string& item, bool& text) {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      text = true;
      return read_string(item, text_[at_++]);
    }
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || std::string("+-._").find(text_[at_]) != std::string::npos)) {
      if (text_[at_] != '_') item += text_[at_];
      ++at_;
    }
    return item.empty() ? error("a value is wanted: a number, true, false, or a text in quotes") : Status();
  }
  Status read_string(std::string& item, char quote) {
    for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      char c = text_[at_];
      if (c == quote) return ++at_, Status();
      if (c == '\\' && quote == '"') {
        if (++at_ >= text_.size()) break;
        switch (text_[at_]) {
          case 'n': c = '\n'; break;
          case 't': c = '\t'; break;
          case '"': case '\\': c = text_[at_]; break;
          case 'u': {
            const std::string digits = text_.substr(at_ + 1, 4);
            if (digits.size() < 4 || digits.substr(0, 2) != "00" || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
              return error("\\u is known for control characters only");
            }
            c = static_cast<char>(std::stoi(digits, nullptr, 16));
            at_ += 4;
            break;
          }
          default: return error(std::string("unknown escape \\") + text_[at_]);
        }
      }
      item += c;
    }
    return error("a text is not closed");
  }

  const std::string& text_;
  const std::string& source_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<std::pair<std::string, TomlValue>>> parse_toml(const std::string& text, const std::string& source) {
  return Parser(text, source).parse();
}

std::string to_text(const TomlValue& value) {
  std::string out;
  for (size_t i = 0; i < value.items.size(); ++i) out += (i ? ", " : "") + (value.text ? quoted(value.items[i]) : value.items[i]);
  return value.list ? "[" + out + "]" : out;
}

}  // namespace eng::tools
