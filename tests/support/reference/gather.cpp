// Gather, GatherElements, GatherND and their gradients, element by element.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

int64_t wrap(double index, int64_t extent) { return static_cast<int64_t>(index) + (index < 0 ? extent : 0); }

// Calls f(flat index in data, flat index in result) for each picked element of a Gather.
template <class F>
void each_gather(const RefCall& c, const Shape& data, const Shape& result, F f) {
  int64_t axis = c.attr().get_int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(data.size());
  const size_t a = static_cast<size_t>(axis), width = c.in(1).shape.size();
  for (int64_t i = 0, n = element_count(result); i < n; ++i) {
    const auto at = unravel(i, result);
    const std::vector<int64_t> where(at.begin() + axis, at.begin() + axis + static_cast<int64_t>(width));
    std::vector<int64_t> from(at.begin(), at.begin() + axis);
    from.push_back(wrap(c.in(1)[ravel(where, c.in(1).shape)], data[a]));
    from.insert(from.end(), at.begin() + axis + static_cast<int64_t>(width), at.end());
    f(ravel(from, data), i);
  }
}

template <class F>
void each_nd(const RefCall& c, const Shape& data, const Shape& result, F f) {
  const int64_t batch = c.attr().get_int("batch_dims", 0), lead = static_cast<int64_t>(c.in(1).shape.size()) - 1, depth = c.in(1).shape.back();
  for (int64_t i = 0, n = element_count(result); i < n; ++i) {
    const auto at = unravel(i, result);
    std::vector<int64_t> from(at.begin(), at.begin() + batch), where(at.begin(), at.begin() + lead);
    where.push_back(0);
    for (int64_t k = 0; k < depth; ++k) {
      where.back() = k;
      from.push_back(wrap(c.in(1)[ravel(where, c.in(1).shape)], data[static_cast<size_t>(batch + k)]));
    }
    from.insert(from.end(), at.begin() + lead, at.end());
    f(ravel(from, data), i);
  }
}

void gather(RefCall& c) {
  each_gather(c, c.in(0).shape, c.out().shape, [&](int64_t from, int64_t to) { c.out()[to] = c.in(0)[from]; });
}
void gather_grad(RefCall& c) {
  each_gather(c, c.out().shape, c.in(0).shape, [&](int64_t to, int64_t from) { c.out()[to] += c.in(0)[from]; });
}
void gather_nd(RefCall& c) {
  each_nd(c, c.in(0).shape, c.out().shape, [&](int64_t from, int64_t to) { c.out()[to] = c.in(0)[from]; });
}
void gather_nd_grad(RefCall& c) {
  each_nd(c, c.out().shape, c.in(0).shape, [&](int64_t to, int64_t from) { c.out()[to] += c.in(0)[from]; });
}
void gather_elements(RefCall& c) {
  int64_t axis = c.attr().get_int("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(c.in(0).shape.size());
  for (int64_t i = 0; i < c.out().count(); ++i) {
    auto at = unravel(i, c.out().shape);
    at[static_cast<size_t>(axis)] = wrap(c.in(1)[i], c.in(0).shape[static_cast<size_t>(axis)]);
    c.out()[i] = c.in(0)[ravel(at, c.in(0).shape)];
  }
}

}  // namespace

std::span<const RefDef> gather_reference() {
  static const RefDef defs[] = {{"", "Gather", gather}, {"", "GatherElements", gather_elements}, {"", "GatherND", gather_nd},
                                {kEngineDomain, "GatherGrad", gather_grad}, {kEngineDomain, "GatherNDGrad", gather_nd_grad}};
  return defs;
}

}  // namespace eng::test
