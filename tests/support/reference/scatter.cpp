// ScatterElements and ScatterND, update by update.
#include <algorithm>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void reduce(const std::string& how, double& to, double from) {
  if (how == "add") to += from;
  else if (how == "mul") to *= from;
  else if (how == "max") to = std::max(to, from);
  else if (how == "min") to = std::min(to, from);
  else to = from;
}

int64_t wrap(double index, int64_t extent) { return static_cast<int64_t>(index) + (index < 0 ? extent : 0); }

void elements(RefCall& c) {
  c.out().v = c.in(0).v;
  int64_t axis = c.attr().get_int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(c.in(0).shape.size());
  for (int64_t i = 0; i < c.in(1).count(); ++i) {
    auto at = unravel(i, c.in(1).shape);
    at[static_cast<size_t>(axis)] = wrap(c.in(1)[i], c.out().shape[static_cast<size_t>(axis)]);
    reduce(c.attr().get_string("reduction", "none"), c.out()[ravel(at, c.out().shape)], c.in(2)[i]);
  }
}

void nd(RefCall& c) {
  c.out().v = c.in(0).v;
  const size_t lead = c.in(1).shape.size() - 1;
  for (int64_t i = 0; i < c.in(2).count(); ++i) {
    const auto at = unravel(i, c.in(2).shape);
    std::vector<int64_t> where(at.begin(), at.begin() + static_cast<int64_t>(lead)), to;
    where.push_back(0);
    for (int64_t k = 0; k < c.in(1).shape.back(); ++k) {
      where.back() = k;
      to.push_back(wrap(c.in(1)[ravel(where, c.in(1).shape)], c.out().shape[static_cast<size_t>(k)]));
    }
    to.insert(to.end(), at.begin() + static_cast<int64_t>(lead), at.end());
    reduce(c.attr().get_string("reduction", "none"), c.out()[ravel(to, c.out().shape)], c.in(2)[i]);
  }
}

}  // namespace

std::span<const RefDef> scatter_reference() {
  static const RefDef defs[] = {{"", "ScatterElements", elements}, {"", "ScatterND", nd}};
  return defs;
}

}  // namespace eng::test
