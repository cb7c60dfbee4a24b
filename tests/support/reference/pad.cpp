// Pad and PadGrad: the source of each element is found by walking from the padded coordinate into the data one step at a time.
#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// -1: the constant.
int64_t source(const std::string& mode, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent) return at;
  if (mode == "constant") return -1;
  if (mode == "edge") return at < 0 ? 0 : extent - 1;
  while (at < 0 || at >= extent) {
    if (mode == "wrap") at += at < 0 ? extent : -extent;
    else if (extent == 1) at = 0;
    else at = at < 0 ? -at : 2 * (extent - 1) - at;
  }
  return at;
}

// Calls f(index in the padded tensor, index in the data or -1).
template <class F>
void each(const Shape& data, const Shape& padded, const std::vector<int64_t>& begin, const std::string& mode, F f) {
  for (int64_t i = 0, n = element_count(padded); i < n; ++i) {
    auto at = unravel(i, padded);
    bool outside = false;
    for (size_t d = 0; d < at.size(); ++d) {
      at[d] = source(mode, at[d] - begin[d], data[d]);
      outside |= at[d] < 0;
    }
    f(i, outside ? -1 : ravel(at, data));
  }
}

void pad(RefCall& c) {
  std::vector<int64_t> begin(c.in(0).shape.size(), 0);
  const auto pads = c.ints(1), axes = c.ints(3);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    int64_t axis = c.has(3) ? axes[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += static_cast<int64_t>(begin.size());
    begin[static_cast<size_t>(axis)] = pads[i];
  }
  const double value = c.has(2) ? c.in(2)[0] : 0;
  each(c.in(0).shape, c.out().shape, begin, c.attr().get_string("mode", "constant"), [&](int64_t to, int64_t from) { c.out()[to] = from < 0 ? value : c.in(0)[from]; });
}

void pad_grad(RefCall& c) {
  each(c.out().shape, c.in(0).shape, c.attr().get_ints("pads"), c.attr().get_string("mode", "constant"), [&](int64_t from, int64_t to) {
    if (to >= 0) c.out()[to] += c.in(0)[from];
  });
}

}  // namespace

std::span<const RefDef> pad_reference() {
  static const RefDef defs[] = {{"", "Pad", pad}, {kEngineDomain, "PadGrad", pad_grad}};
  return defs;
}

}  // namespace eng::test
