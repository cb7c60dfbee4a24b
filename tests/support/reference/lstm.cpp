// LSTM, LstmTraining and LstmGrad: the formulas of graph/ops/lstm.cpp one number at a time, each sample on its own.
#include "tests/support/reference/recurrent.h"

namespace eng::test {
namespace {

const std::vector<std::string> kDefaults = {"sigmoid", "tanh", "tanh"};
using Vector = std::vector<double>;

void forward_sample(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b) {
  const int64_t n = s.hidden, length = s.length(4, b), cells = s.steps * s.batch, reserve = d * cells * 5 * n;
  const bool coupled = c.attr().get_int("input_forget", 0) != 0;
  Vector h = s.state(5, d, b), cell = s.state(6, d, b);
  for (int64_t k = 0; k < length; ++k) {
    const int64_t t = s.time(d, k, length), row = t * s.batch + b;
    Vector next = h;
    for (int64_t j = 0; j < n; ++j) {
      double sum[4];
      for (int64_t g = 0; g < 4; ++g) {
        const int64_t at = g * n + j;
        sum[g] = c.has(3) ? c.in(3)[2 * d * s.rows + at] + c.in(3)[(2 * d + 1) * s.rows + at] : 0;
        for (int64_t i = 0; i < s.input; ++i) sum[g] += c.in(0)[s.x_at(t, b, i)] * c.in(1)[s.w_at(d, at, i)];
        for (int64_t i = 0; i < n; ++i) sum[g] += h[static_cast<size_t>(i)] * c.in(2)[s.r_at(d, at, i)];
      }
      auto peep = [&](int64_t which) { return c.has(7) ? c.in(7)[(d * 3 + which) * n + j] : 0.0; };
      double& state = cell[static_cast<size_t>(j)];
      const double in = s.f(d, 0)(sum[0] + peep(0) * state);
      const double forget = coupled ? 1 - in : s.f(d, 0)(sum[2] + peep(2) * state);
      const double candidate = s.f(d, 1)(sum[3]);
      state = forget * state + in * candidate;
      const double out = s.f(d, 0)(sum[1] + peep(1) * state);
      next[static_cast<size_t>(j)] = out * s.f(d, 2)(state);
      if (c.wants(0)) c.out(0)[s.y_at(d, t, b, j)] = next[static_cast<size_t>(j)];
      if (!c.wants(3)) continue;
      const double gates[] = {in, out, forget, candidate};
      for (int64_t g = 0; g < 4; ++g) c.out(3)[reserve + (row * 4 + g) * n + j] = gates[g];
      c.out(3)[reserve + (cells * 4 + row) * n + j] = state;
    }
    h = next;
  }
  for (int64_t j = 0; j < n; ++j) {
    if (c.wants(1)) c.out(1)[s.state_at(d, b, j)] = h[static_cast<size_t>(j)];
    if (c.wants(2)) c.out(2)[s.state_at(d, b, j)] = cell[static_cast<size_t>(j)];
  }
}

void forward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) forward_sample(c, s, d, b);
}

// Adds one gate sum's gradient to everything it was made of, but for peepholes.
void spread(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b, int64_t t, int64_t at, double g, const Vector& before, Vector& dh) {
  for (int64_t i = 0; i < s.input; ++i) {
    if (c.wants(0)) c.out(0)[s.x_at(t, b, i)] += g * c.in(1)[s.w_at(d, at, i)];
    if (c.wants(1)) c.out(1)[s.w_at(d, at, i)] += g * c.in(0)[s.x_at(t, b, i)];
  }
  for (int64_t i = 0; i < s.hidden; ++i) {
    dh[static_cast<size_t>(i)] += g * c.in(2)[s.r_at(d, at, i)];
    if (c.wants(2)) c.out(2)[s.r_at(d, at, i)] += g * before[static_cast<size_t>(i)];
  }
  if (c.wants(3)) {
    c.out(3)[2 * d * s.rows + at] += g;
    c.out(3)[(2 * d + 1) * s.rows + at] += g;
  }
}

// X, W, R, lens, h0, c0, P, Y, reserve, dY, dY_h, dY_c -> dX, dW, dR, dB, dh0, dc0, dP
void backward_sample(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b) {
  const int64_t n = s.hidden, length = s.length(3, b), cells = s.steps * s.batch, reserve = d * cells * 5 * n;
  const bool coupled = c.attr().get_int("input_forget", 0) != 0;
  Vector dh = s.state(10, d, b), dc = s.state(11, d, b);
  for (int64_t k = length; k-- > 0;) {
    const int64_t t = s.time(d, k, length), row = t * s.batch + b, past = k > 0 ? s.time(d, k - 1, length) : -1;
    Vector h = s.state(4, d, b), before = s.state(5, d, b), next(static_cast<size_t>(n), 0.0);
    for (int64_t j = 0; j < n && past >= 0; ++j) {
      h[static_cast<size_t>(j)] = c.in(7)[s.y_at(d, past, b, j)];
      before[static_cast<size_t>(j)] = c.in(8)[reserve + (cells * 4 + past * s.batch + b) * n + j];
    }
    for (int64_t j = 0; j < n; ++j) {
      auto gate = [&](int64_t g) { return c.in(8)[reserve + (row * 4 + g) * n + j]; };
      auto peep = [&](int64_t which) { return c.has(6) ? c.in(6)[(d * 3 + which) * n + j] : 0.0; };
      const double cell = c.in(8)[reserve + (cells * 4 + row) * n + j], squashed = s.f(d, 2)(cell);
      const double dy = dh[static_cast<size_t>(j)] + (c.has(9) ? c.in(9)[s.y_at(d, t, b, j)] : 0);
      double sums[4];
      sums[1] = dy * squashed * s.f(d, 0).slope(gate(1));
      const double state = dc[static_cast<size_t>(j)] + dy * gate(1) * s.f(d, 2).slope(squashed) + sums[1] * peep(1);
      double of_in = state * gate(3), of_forget = state * before[static_cast<size_t>(j)];
      if (coupled) {
        of_in -= of_forget;
        of_forget = 0;
      }
      sums[0] = of_in * s.f(d, 0).slope(gate(0));
      sums[2] = coupled ? 0 : of_forget * s.f(d, 0).slope(gate(2));
      sums[3] = state * gate(0) * s.f(d, 1).slope(gate(3));
      dc[static_cast<size_t>(j)] = state * gate(2) + sums[0] * peep(0) + sums[2] * peep(2);
      for (int64_t g = 0; g < 4; ++g) spread(c, s, d, b, t, g * n + j, sums[g], h, next);
      if (!c.wants(6)) continue;
      c.out(6)[d * 3 * n + j] += sums[0] * before[static_cast<size_t>(j)];
      c.out(6)[(d * 3 + 1) * n + j] += sums[1] * cell;
      c.out(6)[(d * 3 + 2) * n + j] += sums[2] * before[static_cast<size_t>(j)];
    }
    dh = next;
  }
  for (int64_t j = 0; j < n; ++j) {
    if (c.wants(4)) c.out(4)[s.state_at(d, b, j)] = dh[static_cast<size_t>(j)];
    if (c.wants(5)) c.out(5)[s.state_at(d, b, j)] = dc[static_cast<size_t>(j)];
  }
}

void backward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) backward_sample(c, s, d, b);
}

}  // namespace

std::span<const RefDef> lstm_reference() {
  static const RefDef defs[] = {{"", "LSTM", forward}, {kEngineDomain, "LstmTraining", forward}, {kEngineDomain, "LstmGrad", backward}};
  return defs;
}

}  // namespace eng::test
