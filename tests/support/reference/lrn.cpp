// LRN straight from the formula; its gradient sums dy[k] * d y[k] / d x[c] over all pairs of channels.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

struct Lrn {
  int64_t size, channels, area = 1;
  double alpha, beta, bias;
  explicit Lrn(const RefCall& c) : size(c.attr().get_int("size", 1)), channels(c.in(0).dim(1)) {
    alpha = static_cast<double>(c.attr().get_float("alpha", 1e-4f));
    beta = static_cast<double>(c.attr().get_float("beta", 0.75f));
    bias = static_cast<double>(c.attr().get_float("bias", 1.0f));
    for (size_t i = 2; i < c.in(0).shape.size(); ++i) area *= c.in(0).shape[i];
  }
  bool holds(int64_t window, int64_t c) const {
    const double half = static_cast<double>(size - 1) / 2;
    return c >= window - static_cast<int64_t>(std::floor(half)) && c <= window + static_cast<int64_t>(std::ceil(half));
  }
  double denominator(const RefTensor& x, int64_t n, int64_t k, int64_t p) const {
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      if (holds(k, c)) sum += std::pow(x[(n * channels + c) * area + p], 2);
    return bias + alpha / static_cast<double>(size) * sum;
  }
};

void forward(RefCall& c) {
  const Lrn l(c);
  const RefTensor& x = c.in(0);
  for (int64_t i = 0; i < x.count(); ++i) c.out()[i] = x[i] / std::pow(l.denominator(x, i / l.area / l.channels, i / l.area % l.channels, i % l.area), l.beta);
}

void gradient(RefCall& c) {
  const Lrn l(c);
  const RefTensor &dy = c.in(0), &x = c.in(1);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t n = i / l.area / l.channels, at = i / l.area % l.channels, p = i % l.area;
    for (int64_t k = 0; k < l.channels; ++k) {
      const int64_t j = (n * l.channels + k) * l.area + p;
      const double s = l.denominator(x, n, k, p);
      double slope = k == at ? std::pow(s, -l.beta) : 0;
      if (l.holds(k, at)) slope -= x[j] * l.beta * std::pow(s, -l.beta - 1) * l.alpha / static_cast<double>(l.size) * 2 * x[i];
      c.out()[i] += dy[j] * slope;
    }
  }
}

}  // namespace

std::span<const RefDef> lrn_reference() {
  static const RefDef defs[] = {{"", "LRN", forward}, {kEngineDomain, "LRNGrad", gradient}};
  return defs;
}

}  // namespace eng::test
