// GRU, GruTraining and GruGrad: the formulas of graph/ops/gru.cpp one number at a time, each sample on its own.
#include "tests/support/reference/recurrent.h"

namespace eng::test {
namespace {

const std::vector<std::string> kDefaults = {"sigmoid", "tanh"};
using Vector = std::vector<double>;

void forward_sample(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b) {
  const int64_t n = s.hidden, length = s.length(4, b), cells = s.steps * s.batch, reserve = d * cells * 4 * n;
  const bool linear = c.attr().get_int("linear_before_reset", 0) != 0;
  Vector h = s.state(5, d, b);
  auto bias = [&](int64_t which, int64_t at) { return c.has(3) ? c.in(3)[(2 * d + which) * s.rows + at] : 0.0; };
  for (int64_t k = 0; k < length; ++k) {
    const int64_t t = s.time(d, k, length), row = t * s.batch + b;
    auto of_x = [&](int64_t at) {
      double sum = bias(0, at);
      for (int64_t i = 0; i < s.input; ++i) sum += c.in(0)[s.x_at(t, b, i)] * c.in(1)[s.w_at(d, at, i)];
      return sum;
    };
    auto of_h = [&](int64_t at, const Vector& state) {
      double sum = bias(1, at);
      for (int64_t i = 0; i < n; ++i) sum += state[static_cast<size_t>(i)] * c.in(2)[s.r_at(d, at, i)];
      return sum;
    };
    Vector z, r, reset, next;
    for (int64_t j = 0; j < n; ++j) {
      z.push_back(s.f(d, 0)(of_x(j) + of_h(j, h)));
      r.push_back(s.f(d, 0)(of_x(n + j) + of_h(n + j, h)));
      reset.push_back(r.back() * h[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < n; ++j) {
      const size_t u = static_cast<size_t>(j);
      const double inner = linear ? of_h(2 * n + j, h) : of_h(2 * n + j, reset);
      const double candidate = s.f(d, 1)(of_x(2 * n + j) + (linear ? r[u] * inner : inner));
      next.push_back((1 - z[u]) * candidate + z[u] * h[u]);
      if (c.wants(0)) c.out(0)[s.y_at(d, t, b, j)] = next[u];
      if (!c.wants(2)) continue;
      const double gates[] = {z[u], r[u], candidate};
      for (int64_t g = 0; g < 3; ++g) c.out(2)[reserve + (row * 3 + g) * n + j] = gates[g];
      c.out(2)[reserve + (cells * 3 + row) * n + j] = linear ? inner : reset[u];
    }
    h = next;
  }
  for (int64_t j = 0; j < n; ++j)
    if (c.wants(1)) c.out(1)[s.state_at(d, b, j)] = h[static_cast<size_t>(j)];
}

void forward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) forward_sample(c, s, d, b);
}

// Gradient g of the sum X W^T + Wb at row `at`.
void spread_x(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b, int64_t t, int64_t at, double g) {
  for (int64_t i = 0; i < s.input; ++i) {
    if (c.wants(0)) c.out(0)[s.x_at(t, b, i)] += g * c.in(1)[s.w_at(d, at, i)];
    if (c.wants(1)) c.out(1)[s.w_at(d, at, i)] += g * c.in(0)[s.x_at(t, b, i)];
  }
  if (c.wants(3)) c.out(3)[2 * d * s.rows + at] += g;
}
// Gradient g of the sum state R^T + Rb at row `at`.
void spread_h(RefCall& c, const RefRecurrent& s, int64_t d, int64_t at, double g, const Vector& state, Vector& dstate) {
  for (int64_t i = 0; i < s.hidden; ++i) {
    dstate[static_cast<size_t>(i)] += g * c.in(2)[s.r_at(d, at, i)];
    if (c.wants(2)) c.out(2)[s.r_at(d, at, i)] += g * state[static_cast<size_t>(i)];
  }
  if (c.wants(3)) c.out(3)[(2 * d + 1) * s.rows + at] += g;
}

// X, W, R, lens, h0, Y, reserve, dY, dY_h -> dX, dW, dR, dB, dh0
void backward_sample(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b) {
  const int64_t n = s.hidden, length = s.length(3, b), cells = s.steps * s.batch, reserve = d * cells * 4 * n;
  const bool linear = c.attr().get_int("linear_before_reset", 0) != 0;
  const size_t width = static_cast<size_t>(n);
  Vector dh = s.state(8, d, b);
  for (int64_t k = length; k-- > 0;) {
    const int64_t t = s.time(d, k, length), row = t * s.batch + b;
    Vector h = s.state(4, d, b);
    for (int64_t j = 0; j < n && k > 0; ++j) h[static_cast<size_t>(j)] = c.in(5)[s.y_at(d, s.time(d, k - 1, length), b, j)];
    auto gate = [&](int64_t g, size_t j) { return c.in(6)[reserve + (row * 3 + g) * n + static_cast<int64_t>(j)]; };
    Vector next(width, 0.0), dr(width, 0.0), reset(width), dreset(width, 0.0);
    for (size_t j = 0; j < width; ++j) {
      reset[j] = gate(1, j) * h[j];
      dh[j] += c.has(7) ? c.in(7)[s.y_at(d, t, b, static_cast<int64_t>(j))] : 0;
    }
    for (size_t j = 0; j < width; ++j) {
      const int64_t at = static_cast<int64_t>(j);
      const double g_h = dh[j] * (1 - gate(0, j)) * s.f(d, 1).slope(gate(2, j)), g_z = dh[j] * (h[j] - gate(2, j)) * s.f(d, 0).slope(gate(0, j));
      next[j] += dh[j] * gate(0, j);
      spread_x(c, s, d, b, t, 2 * n + at, g_h);
      spread_x(c, s, d, b, t, at, g_z);
      spread_h(c, s, d, at, g_z, h, next);
      if (linear) {
        dr[j] += g_h * c.in(6)[reserve + (cells * 3 + row) * n + at];
        spread_h(c, s, d, 2 * n + at, g_h * gate(1, j), h, next);
      } else {
        spread_h(c, s, d, 2 * n + at, g_h, reset, dreset);
      }
    }
    for (size_t j = 0; j < width; ++j) {
      if (!linear) {
        dr[j] += dreset[j] * h[j];
        next[j] += dreset[j] * gate(1, j);
      }
      const double g_r = dr[j] * s.f(d, 0).slope(gate(1, j));
      spread_x(c, s, d, b, t, n + static_cast<int64_t>(j), g_r);
      spread_h(c, s, d, n + static_cast<int64_t>(j), g_r, h, next);
    }
    dh = next;
  }
  for (int64_t j = 0; j < n; ++j)
    if (c.wants(4)) c.out(4)[s.state_at(d, b, j)] = dh[static_cast<size_t>(j)];
}

void backward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) backward_sample(c, s, d, b);
}

}  // namespace

std::span<const RefDef> gru_reference() {
  static const RefDef defs[] = {{"", "GRU", forward}, {kEngineDomain, "GruTraining", forward}, {kEngineDomain, "GruGrad", backward}};
  return defs;
}

}  // namespace eng::test
