// Softmax, LogSoftmax, Hardmax and gradients along one axis, straight from the definitions.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

// Calls f with the flat indices of each line along the node's axis.
template <class F>
void lines(RefCall& c, F f) {
  const Shape& s = c.in(0).shape;
  int64_t axis = c.attr().get_int("axis", -1), step = 1;
  if (axis < 0) axis += static_cast<int64_t>(s.size());
  for (size_t i = static_cast<size_t>(axis) + 1; i < s.size(); ++i) step *= s[i];
  const int64_t n = s[static_cast<size_t>(axis)];
  for (int64_t i = 0; i < c.in(0).count(); ++i) {
    if (i / step % n != 0) continue;
    std::vector<int64_t> at;
    for (int64_t k = 0; k < n; ++k) at.push_back(i + k * step);
    f(at);
  }
}
using Line = const std::vector<int64_t>&;

double sum_exp(const RefTensor& x, Line at, double* most) {
  *most = x[at[0]];
  for (int64_t i : at) *most = std::fmax(*most, x[i]);
  double sum = 0;
  for (int64_t i : at) sum += std::exp(x[i] - *most);
  return sum;
}

void softmax(RefCall& c) {
  lines(c, [&](Line at) {
    double most;
    const double sum = sum_exp(c.in(0), at, &most);
    for (int64_t i : at) c.out()[i] = std::exp(c.in(0)[i] - most) / sum;
  });
}
void log_softmax(RefCall& c) {
  lines(c, [&](Line at) {
    double most;
    const double sum = sum_exp(c.in(0), at, &most);
    for (int64_t i : at) c.out()[i] = c.in(0)[i] - most - std::log(sum);
  });
}
void hardmax(RefCall& c) {
  lines(c, [&](Line at) {
    int64_t best = at[0];
    for (int64_t i : at)
      if (c.in(0)[i] > c.in(0)[best]) best = i;
    c.out()[best] = 1;
  });
}
// The Jacobian's rows: d y_j / d x_i = y_j ([i = j] - y_i).
void softmax_grad(RefCall& c) {
  lines(c, [&](Line at) {
    for (int64_t i : at)
      for (int64_t j : at) c.out()[i] += c.in(0)[j] * c.in(1)[j] * ((i == j ? 1 : 0) - c.in(1)[i]);
  });
}
void log_softmax_grad(RefCall& c) {
  lines(c, [&](Line at) {
    for (int64_t i : at)
      for (int64_t j : at) c.out()[i] += c.in(0)[j] * ((i == j ? 1 : 0) - std::exp(c.in(1)[i]));
  });
}

}  // namespace

std::span<const RefDef> softmax_reference() {
  static const RefDef defs[] = {{"", "Softmax", softmax}, {"", "LogSoftmax", log_softmax}, {"", "Hardmax", hardmax},
                                {"ai.engine", "SoftmaxGrad", softmax_grad}, {"ai.engine", "LogSoftmaxGrad", log_softmax_grad}};
  return defs;
}

}  // namespace eng::test
