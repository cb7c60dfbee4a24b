// Name patterns: * any run of characters, ? one character; everything else literal. The whole name must match.
#pragma once

#include <string_view>

namespace eng {

inline bool glob_match(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] != '*' && (pattern[p] == '?' || pattern[p] == name[n])) ++p, ++n;
    else if (p < pattern.size() && pattern[p] == '*') star = p++, resume = n;
    else if (star != std::string_view::npos) p = star + 1, n = ++resume;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace eng
