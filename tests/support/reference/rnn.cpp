// RNN and RnnGrad: H' = f(X W^T + H R^T + Wb + Rb), one number at a time, each sample on its own.
#include "tests/support/reference/recurrent.h"

namespace eng::test {
namespace {

const std::vector<std::string> kDefaults = {"tanh"};
using Vector = std::vector<double>;

void forward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) {
      Vector h = s.state(5, d, b);
      for (int64_t k = 0, length = s.length(4, b); k < length; ++k) {
        const int64_t t = s.time(d, k, length);
        Vector next;
        for (int64_t j = 0; j < s.hidden; ++j) {
          double sum = c.has(3) ? c.in(3)[2 * d * s.rows + j] + c.in(3)[(2 * d + 1) * s.rows + j] : 0;
          for (int64_t i = 0; i < s.input; ++i) sum += c.in(0)[s.x_at(t, b, i)] * c.in(1)[s.w_at(d, j, i)];
          for (int64_t i = 0; i < s.hidden; ++i) sum += h[static_cast<size_t>(i)] * c.in(2)[s.r_at(d, j, i)];
          next.push_back(s.f(d, 0)(sum));
          if (c.wants(0)) c.out(0)[s.y_at(d, t, b, j)] = next.back();
        }
        h = next;
      }
      for (int64_t j = 0; j < s.hidden; ++j)
        if (c.wants(1)) c.out(1)[s.state_at(d, b, j)] = h[static_cast<size_t>(j)];
    }
}

// X, W, R, lens, h0, Y, dY, dY_h -> dX, dW, dR, dB, dh0
void backward_sample(RefCall& c, const RefRecurrent& s, int64_t d, int64_t b) {
  const int64_t length = s.length(3, b);
  Vector dh = s.state(7, d, b);
  for (int64_t k = length; k-- > 0;) {
    const int64_t t = s.time(d, k, length);
    Vector h = s.state(4, d, b), next(static_cast<size_t>(s.hidden), 0.0);
    for (int64_t j = 0; j < s.hidden && k > 0; ++j) h[static_cast<size_t>(j)] = c.in(5)[s.y_at(d, s.time(d, k - 1, length), b, j)];
    for (int64_t j = 0; j < s.hidden; ++j) {
      const int64_t at = s.y_at(d, t, b, j);
      const double g = (dh[static_cast<size_t>(j)] + (c.has(6) ? c.in(6)[at] : 0)) * s.f(d, 0).slope(c.in(5)[at]);
      for (int64_t i = 0; i < s.input; ++i) {
        if (c.wants(0)) c.out(0)[s.x_at(t, b, i)] += g * c.in(1)[s.w_at(d, j, i)];
        if (c.wants(1)) c.out(1)[s.w_at(d, j, i)] += g * c.in(0)[s.x_at(t, b, i)];
      }
      for (int64_t i = 0; i < s.hidden; ++i) {
        next[static_cast<size_t>(i)] += g * c.in(2)[s.r_at(d, j, i)];
        if (c.wants(2)) c.out(2)[s.r_at(d, j, i)] += g * h[static_cast<size_t>(i)];
      }
      if (!c.wants(3)) continue;
      c.out(3)[2 * d * s.rows + j] += g;
      c.out(3)[(2 * d + 1) * s.rows + j] += g;
    }
    dh = next;
  }
  for (int64_t j = 0; j < s.hidden; ++j)
    if (c.wants(4)) c.out(4)[s.state_at(d, b, j)] = dh[static_cast<size_t>(j)];
}

void backward(RefCall& c) {
  const RefRecurrent s(c, kDefaults);
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t b = 0; b < s.batch; ++b) backward_sample(c, s, d, b);
}

}  // namespace

std::span<const RefDef> rnn_reference() {
  static const RefDef defs[] = {{"", "RNN", forward}, {kEngineDomain, "RnnGrad", backward}};
  return defs;
}

}  // namespace eng::test
