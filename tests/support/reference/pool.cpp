// Pools and their gradients: for each plane and output position the list of taps inside the input, then max, mean or norm.
#include <cmath>

#include "tests/support/reference/window.h"

namespace eng::test {
namespace {

struct Pool {
  Shape xs, ys;               // spatial shapes
  RefWindow window;
  std::vector<std::vector<int64_t>> taps;  // per output position: input positions
  std::vector<double> padded;              // per output position: window positions within the input and its pads
  int64_t planes;
};

Pool make(const RefCall& c, const Shape& x, const Shape& y) {
  const bool global = c.node.op_type.rfind("Global", 0) == 0;
  Pool p{ref_spatial(x), ref_spatial(y), {}, {}, {}, x[0] * x[1]};
  p.window = ref_window(c.attr(), x, y, global ? p.xs : c.attr().get_ints("kernel_shape"));
  p.taps.resize(static_cast<size_t>(element_count(p.ys)));
  each_tap(p.window, p.xs, p.ys, [&](int64_t at, int64_t, int64_t q) { p.taps[static_cast<size_t>(at)].push_back(q); });
  Shape room = p.xs;  // the input with its pads: a window without front pad over it counts every padded position
  RefWindow shifted = p.window;
  for (size_t i = 0; i < room.size(); ++i) room[i] += p.window.begin[i] + p.window.end[i], shifted.begin[i] = 0;
  p.padded.assign(p.taps.size(), 0);
  each_tap(shifted, room, p.ys, [&](int64_t at, int64_t, int64_t) { p.padded[static_cast<size_t>(at)] += 1; });
  return p;
}

// f(taps, flat index of the plane's first input, flat output index, output position)
template <class F>
void each_output(const Pool& p, F&& f) {
  const int64_t nx = element_count(p.xs), ny = element_count(p.ys);
  for (int64_t plane = 0; plane < p.planes; ++plane)
    for (int64_t at = 0; at < ny; ++at) f(p.taps[static_cast<size_t>(at)], plane * nx, plane * ny + at, static_cast<size_t>(at));
}

int64_t first_maximum(const RefTensor& x, const std::vector<int64_t>& taps, int64_t base) {
  int64_t best = taps[0];
  for (int64_t q : taps)
    if (x[base + q] > x[base + best]) best = q;
  return best;
}

void max_pool(RefCall& c) {
  const Pool p = make(c, c.in(0).shape, c.out().shape);
  each_output(p, [&](const auto& taps, int64_t base, int64_t to, size_t) {
    const int64_t best = first_maximum(c.in(0), taps, base);
    c.out()[to] = c.in(0)[base + best];
    if (!c.wants(1)) return;
    std::vector<int64_t> at = unravel(best, p.xs);
    int64_t flat = best;
    if (c.attr().get_int("storage_order", 0)) {
      flat = 0;
      for (size_t i = at.size(); i-- > 0;) flat = flat * p.xs[i] + at[i];
    }
    c.out(1)[to] = static_cast<double>(base + flat);
  });
}
void max_pool_grad(RefCall& c) {
  each_output(make(c, c.in(1).shape, c.in(0).shape),
              [&](const auto& taps, int64_t base, int64_t to, size_t) { c.out()[base + first_maximum(c.in(1), taps, base)] += c.in(0)[to]; });
}

double divisor(const RefCall& c, const Pool& p, size_t at) {
  return c.attr().get_int("count_include_pad", 0) ? p.padded[at] : static_cast<double>(p.taps[at].size());
}
void average_pool(RefCall& c) {
  const Pool p = make(c, c.in(0).shape, c.out().shape);
  each_output(p, [&](const auto& taps, int64_t base, int64_t to, size_t at) {
    for (int64_t q : taps) c.out()[to] += c.in(0)[base + q];
    c.out()[to] /= divisor(c, p, at);
  });
}
void average_pool_grad(RefCall& c) {
  const Pool p = make(c, c.out().shape, c.in(0).shape);
  each_output(p, [&](const auto& taps, int64_t base, int64_t to, size_t at) {
    for (int64_t q : taps) c.out()[base + q] += c.in(0)[to] / divisor(c, p, at);
  });
}

void lp_pool(RefCall& c) {
  const double e = static_cast<double>(c.attr().get_int("p", 2));
  each_output(make(c, c.in(0).shape, c.out().shape), [&](const auto& taps, int64_t base, int64_t to, size_t) {
    double sum = 0;
    for (int64_t q : taps) sum += std::pow(std::fabs(c.in(0)[base + q]), e);
    c.out()[to] = std::pow(sum, 1 / e);
  });
}
void lp_pool_grad(RefCall& c) {
  const double e = static_cast<double>(c.attr().get_int("p", 2));
  each_output(make(c, c.in(1).shape, c.in(0).shape), [&](const auto& taps, int64_t base, int64_t to, size_t) {
    for (int64_t q : taps) {
      const double x = c.in(1)[base + q], y = c.in(2)[to];
      if (x != 0 && y != 0) c.out()[base + q] += c.in(0)[to] * (x > 0 ? 1 : -1) * std::pow(std::fabs(x), e - 1) * std::pow(y, 1 - e);
    }
  });
}

}  // namespace

std::span<const RefDef> pool_reference() {
  static const RefDef defs[] = {
      {"", "MaxPool", max_pool}, {"", "GlobalMaxPool", max_pool}, {"", "AveragePool", average_pool}, {"", "GlobalAveragePool", average_pool},
      {"", "LpPool", lp_pool}, {"", "GlobalLpPool", lp_pool}, {kEngineDomain, "MaxPoolGrad", max_pool_grad},
      {kEngineDomain, "AveragePoolGrad", average_pool_grad}, {kEngineDomain, "LpPoolGrad", lp_pool_grad},
  };
  return defs;
}

}  // namespace eng::test
