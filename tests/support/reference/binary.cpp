// Arithmetic of broadcast operands: every operator is a function of the operands' elements at one place of the result.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// Calls f with the operands' elements that meet in each element of the result.
template <class F>
void each(RefCall& c, F f) {
  std::vector<double> at(static_cast<size_t>(c.in_count()));
  RefTensor& y = c.out();
  for (int64_t i = 0; i < y.count(); ++i) {
    for (int k = 0; k < c.in_count(); ++k) at[static_cast<size_t>(k)] = c.in(k)[broadcast_index(i, y.shape, c.in(k).shape)];
    y[i] = f(at);
  }
}
using V = const std::vector<double>&;

double sum(V v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

void add(RefCall& c) { each(c, sum); }
void sub(RefCall& c) { each(c, [](V v) { return v[0] - v[1]; }); }
void mul(RefCall& c) { each(c, [](V v) { return v[0] * v[1]; }); }
void div(RefCall& c) {
  const bool whole = is_integer(c.out().dtype);
  each(c, [=](V v) { return whole ? std::trunc(v[0] / v[1]) : v[0] / v[1]; });
}
void mod(RefCall& c) {
  const bool as_c = c.attr().get_int("fmod", 0) != 0;
  each(c, [=](V v) { return as_c ? std::fmod(v[0], v[1]) : v[0] - v[1] * std::floor(v[0] / v[1]); });
}
void power(RefCall& c) { each(c, [](V v) { return std::pow(v[0], v[1]); }); }
void maximum(RefCall& c) {
  each(c, [](V v) { double m = v[0]; for (double x : v) m = std::fmax(m, x); return m; });
}
void minimum(RefCall& c) {
  each(c, [](V v) { double m = v[0]; for (double x : v) m = std::fmin(m, x); return m; });
}
void mean(RefCall& c) { each(c, [](V v) { return sum(v) / static_cast<double>(v.size()); }); }

void pow_grad_base(RefCall& c) { each(c, [](V v) { return v[2] == 0 ? 0 : v[0] * v[2] * std::pow(v[1], v[2] - 1); }); }
void pow_grad_exponent(RefCall& c) { each(c, [](V v) { return v[1] <= 0 ? 0 : v[0] * v[2] * std::log(v[1]); }); }
void extremum_grad(RefCall& c) {
  each(c, [](V v) {
    for (size_t k = 2; k + 1 < v.size(); ++k)
      if (v[k] == v[1]) return 0.0;
    return v.back() == v[1] ? v[0] : 0.0;
  });
}

}  // namespace

std::span<const RefDef> binary_reference() {
  static const RefDef defs[] = {
      {"", "Add", add}, {"", "Sum", add}, {"", "Sub", sub}, {"", "Mul", mul}, {"", "Div", div}, {"", "Mod", mod}, {"", "Pow", power},
      {"", "Max", maximum}, {"", "Min", minimum}, {"", "Mean", mean},
      {"ai.engine", "PowGradBase", pow_grad_base}, {"ai.engine", "PowGradExponent", pow_grad_exponent}, {"ai.engine", "ExtremumGrad", extremum_grad},
  };
  return defs;
}

}  // namespace eng::test
