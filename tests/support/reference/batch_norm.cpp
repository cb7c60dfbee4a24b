// Batch normalisation in both forms and its gradient, channel by channel, with plain sums.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

struct Channels {
  int64_t channels, area, count;  // count: values a channel
  explicit Channels(const Shape& x) : channels(x.size() > 1 ? x[1] : 1), area(1), count(1) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (i >= 2) area *= x[i];
      if (i != 1) count *= x[i];
    }
  }
  int64_t of(int64_t i) const { return i / area % channels; }
};

void forward(RefCall& c, bool training) {
  const RefTensor &x = c.in(0), &scale = c.in(1), &b = c.in(2);
  const Channels s(x.shape);
  const double epsilon = static_cast<double>(c.attr().get_float("epsilon", 1e-5f)), momentum = static_cast<double>(c.attr().get_float("momentum", 0.9f));
  std::vector<double> mean = c.in(3).v, var = c.in(4).v;
  if (training) {
    std::fill(mean.begin(), mean.end(), 0.0);
    std::fill(var.begin(), var.end(), 0.0);
    for (int64_t i = 0; i < x.count(); ++i) mean[static_cast<size_t>(s.of(i))] += x[i] / static_cast<double>(s.count);
    for (int64_t i = 0; i < x.count(); ++i) {
      const double d = x[i] - mean[static_cast<size_t>(s.of(i))];
      var[static_cast<size_t>(s.of(i))] += d * d / static_cast<double>(s.count);
    }
  }
  for (int64_t k = 0; k < s.channels; ++k) {
    const size_t u = static_cast<size_t>(k);
    if (c.wants(1)) c.out(1)[k] = c.in(3)[k] * momentum + mean[u] * (1 - momentum);
    if (c.wants(2)) c.out(2)[k] = c.in(4)[k] * momentum + var[u] * (1 - momentum);
    if (c.wants(3)) c.out(3)[k] = mean[u];
    if (c.wants(4)) c.out(4)[k] = 1 / std::sqrt(var[u] + epsilon);
  }
  if (!c.wants(0)) return;
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t u = static_cast<size_t>(s.of(i));
    double y = (x[i] - mean[u]) / std::sqrt(var[u] + epsilon) * scale.v[u] + b.v[u];
    if (c.attr().get_string("activation", "") == "Relu" && y < 0) y = 0;
    c.out()[i] = y;
  }
}

void gradient(RefCall& c) {
  const RefTensor &dy = c.in(0), &x = c.in(1), &scale = c.in(2), &b = c.in(3), &mean = c.in(4), &inv = c.in(5);
  const Channels s(x.shape);
  const bool relu = c.attr().get_string("activation", "") == "Relu", frozen = c.attr().get_int("frozen", 0) != 0;
  std::vector<double> g(dy.v), db(static_cast<size_t>(s.channels)), dscale(db);
  auto h = [&](int64_t i) { return (x[i] - mean[s.of(i)]) * inv[s.of(i)]; };
  for (int64_t i = 0; i < x.count(); ++i) {
    if (relu && h(i) * scale[s.of(i)] + b[s.of(i)] <= 0) g[static_cast<size_t>(i)] = 0;
    db[static_cast<size_t>(s.of(i))] += g[static_cast<size_t>(i)];
    dscale[static_cast<size_t>(s.of(i))] += g[static_cast<size_t>(i)] * h(i);
  }
  if (c.wants(1)) c.out(1).v = dscale;
  if (c.wants(2)) c.out(2).v = db;
  if (!c.wants(0)) return;
  const double m = static_cast<double>(s.count);
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t u = static_cast<size_t>(s.of(i));
    const double through_statistics = frozen ? 0 : db[u] / m + h(i) * dscale[u] / m;
    c.out()[i] = scale.v[u] * inv.v[u] * (g[static_cast<size_t>(i)] - through_statistics);
  }
}

}  // namespace

std::span<const RefDef> batch_norm_reference() {
  static const RefDef defs[] = {
      {"", "BatchNormalization", [](RefCall& c) { forward(c, c.attr().get_int("training_mode", 0) != 0); }},
      {kEngineDomain, "BatchNormTraining", [](RefCall& c) { forward(c, true); }},
      {kEngineDomain, "BatchNormGrad", gradient},
  };
  return defs;
}

}  // namespace eng::test
