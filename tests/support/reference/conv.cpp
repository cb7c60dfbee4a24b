// Conv and its gradients: one walk over all (n, o, c, position, tap), each adding x*w to y, or dy*w to dx, or x*dy to dw.
#include "tests/support/reference/window.h"

namespace eng::test {
namespace {

// visit(flat x, flat y, flat w) for every product that enters the sum.
void each_product(const Attributes& a, const Shape& x, const Shape& y, const Shape& w, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const RefWindow window = ref_window(a, x, y, ref_spatial(w));
  const Shape xs = ref_spatial(x), ys = ref_spatial(y);
  const int64_t nx = element_count(xs), ny = element_count(ys), nk = element_count(window.kernel);
  const int64_t outs_per_group = w[0] / a.get_int("group", 1);
  each_tap(window, xs, ys, [&](int64_t p, int64_t k, int64_t q) {
    for (int64_t n = 0; n < x[0]; ++n)
      for (int64_t o = 0; o < w[0]; ++o)
        for (int64_t i = 0; i < w[1]; ++i) {
          const int64_t c = o / outs_per_group * w[1] + i;
          visit((n * x[1] + c) * nx + q, (n * w[0] + o) * ny + p, (o * w[1] + i) * nk + k);
        }
  });
}

void conv(RefCall& c) {
  const RefTensor &x = c.in(0), &w = c.in(1);
  RefTensor& y = c.out();
  const int64_t per_channel = element_count(ref_spatial(y.shape));
  if (c.has(2))
    for (int64_t i = 0; i < y.count(); ++i) y[i] = c.in(2)[i / per_channel % y.dim(1)];
  each_product(c.attr(), x.shape, y.shape, w.shape, [&](int64_t xi, int64_t yi, int64_t wi) { y[yi] += x[xi] * w[wi]; });
}

void grad_input(RefCall& c) {
  const RefTensor &dy = c.in(0), &w = c.in(1);
  RefTensor& dx = c.out();
  each_product(c.attr(), dx.shape, dy.shape, w.shape, [&](int64_t xi, int64_t yi, int64_t wi) { dx[xi] += dy[yi] * w[wi]; });
}

void grad_weight(RefCall& c) {
  const RefTensor &x = c.in(0), &dy = c.in(1);
  RefTensor& dw = c.out();
  each_product(c.attr(), x.shape, dy.shape, dw.shape, [&](int64_t xi, int64_t yi, int64_t wi) { dw[wi] += x[xi] * dy[yi]; });
  if (!c.wants(1)) return;
  const int64_t per_channel = element_count(ref_spatial(dy.shape));
  for (int64_t i = 0; i < dy.count(); ++i) c.out(1)[i / per_channel % dy.dim(1)] += dy[i];
}

}  // namespace

std::span<const RefDef> conv_reference() {
  static const RefDef defs[] = {{"", "Conv", conv}, {kEngineDomain, "ConvGradInput", grad_input}, {kEngineDomain, "ConvGradWeight", grad_weight}};
  return defs;
}

}  // namespace eng::test
