// Einsum and EinsumGrad: every assignment of indices to the letters, one product each.
#include <algorithm>
#include <cctype>
#include <map>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// One letter per axis; axes of the ellipsis become '0', '1', ... from its last axis on.
std::string spell(const std::string& term, size_t rank) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) return term;
  std::string axes;
  for (size_t k = 0; k < rank - (term.size() - 3); ++k) axes.insert(axes.begin(), static_cast<char>('0' + k));
  return term.substr(0, dots) + axes + term.substr(dots + 3);
}

void each(RefCall& c, bool backward) {
  std::string text = c.attr().get_string("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->"), first = backward ? 1 : 0;
  std::string left = text.substr(0, arrow) + ",";
  std::vector<std::string> terms;
  std::map<char, int64_t> extent;
  std::map<char, int> uses;
  for (size_t comma; (comma = left.find(',')) != std::string::npos; left = left.substr(comma + 1)) {
    const Shape& shape = c.in(static_cast<int>(terms.size() + first)).shape;
    terms.push_back(spell(left.substr(0, comma), shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) {
      extent[terms.back()[d]] = std::max(extent[terms.back()[d]], shape[d]);
      ++uses[terms.back()[d]];
    }
  }
  const RefTensor& y = backward ? c.in(0) : c.out();
  std::string out;
  if (arrow != std::string::npos) out = spell(text.substr(arrow + 2), y.shape.size());
  else {
    for (char ch = '9'; ch >= '0'; --ch) if (uses[ch]) out += ch;
    for (auto [ch, count] : uses) if (std::isalpha(static_cast<unsigned char>(ch)) && count == 1) out += ch;
  }
  Shape space;
  std::string letters;
  for (auto [ch, n] : extent) {
    if (n == 0 && !uses[ch]) continue;
    letters += ch;
    space.push_back(n);
  }
  for (int64_t i = 0, n = element_count(space); i < n; ++i) {
    const auto at = unravel(i, space);
    auto index = [&](const std::string& term, const Shape& shape) {
      std::vector<int64_t> own;
      for (size_t d = 0; d < shape.size(); ++d) own.push_back(shape[d] == 1 ? 0 : at[letters.find(term[d])]);
      return ravel(own, shape);
    };
    const int64_t target = backward ? c.attr().get_int("operand", 0) : -1;
    double product = backward ? y[index(out, y.shape)] : 1;
    for (size_t k = 0; k < terms.size(); ++k) {
      const RefTensor& x = c.in(static_cast<int>(k + first));
      if (static_cast<int64_t>(k) != target) product *= x[index(terms[k], x.shape)];
    }
    RefTensor& to = c.out();
    to[index(backward ? terms[static_cast<size_t>(target)] : out, to.shape)] += product;
  }
}

}  // namespace

std::span<const RefDef> einsum_reference() {
  static const RefDef defs[] = {{"", "Einsum", [](RefCall& c) { each(c, false); }}, {kEngineDomain, "EinsumGrad", [](RefCall& c) { each(c, true); }}};
  return defs;
}

}  // namespace eng::test
