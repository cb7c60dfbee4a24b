// Trilu, ReverseSequence, TopK.
#include <algorithm>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

void trilu(RefCall& c) {
  const bool upper = c.attr().get_int("upper", 1) != 0;
  const int64_t k = c.has(1) ? c.ints(1)[0] : 0, columns = c.in(0).dim(-1), rows = c.in(0).dim(-2);
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    const int64_t row = i / columns % rows, column = i % columns;
    c.out()[i] = (upper ? column - row >= k : column - row <= k) ? c.in(0)[i] : 0;
  }
}

void reverse_sequence(RefCall& c) {
  const size_t batch = static_cast<size_t>(c.attr().get_int("batch_axis", 1)), time = static_cast<size_t>(c.attr().get_int("time_axis", 0));
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    auto at = unravel(i, c.in(0).shape);
    const int64_t length = static_cast<int64_t>(c.in(1)[at[batch]]);
    if (at[time] < length) at[time] = length - 1 - at[time];
    c.out()[i] = c.in(0)[ravel(at, c.in(0).shape)];
  }
}

void top_k(RefCall& c) {
  const Shape& shape = c.in(0).shape;
  int64_t axis = c.attr().get_int("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  const size_t a = static_cast<size_t>(axis);
  const double sign = c.attr().get_int("largest", 1) ? -1 : 1;
  Shape lines = shape;
  lines[a] = 1;
  for (int64_t line = 0; line < element_count(lines); ++line) {
    auto at = unravel(line, lines);
    std::vector<std::pair<double, int64_t>> order;
    for (at[a] = 0; at[a] < shape[a]; ++at[a]) order.push_back({sign * c.in(0)[ravel(at, shape)], at[a]});
    std::sort(order.begin(), order.end());
    Shape out = shape;
    out[a] = c.ints(1)[0];
    for (at[a] = 0; at[a] < out[a]; ++at[a]) {
      const auto& [key, index] = order[static_cast<size_t>(at[a])];
      if (c.wants(0)) c.out(0)[ravel(at, out)] = sign * key;
      if (c.wants(1)) c.out(1)[ravel(at, out)] = static_cast<double>(index);
    }
  }
}

}  // namespace

std::span<const RefDef> select_reference() {
  static const RefDef defs[] = {{"", "Trilu", trilu}, {"", "ReverseSequence", reverse_sequence}, {"", "TopK", top_k}};
  return defs;
}

}  // namespace eng::test
