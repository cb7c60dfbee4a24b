// Layer, instance and group normalisation: every element knows its set (whose statistics it shares) and its scale.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

struct Sets {
  std::vector<int64_t> set, scale;  // per element
  std::vector<double> mean, inverse, count;

  Sets(const RefCall& c, const RefTensor& x) {
    const std::string form = c.node.domain.empty() ? c.node.op_type : c.attr().get_string("form", "");
    int64_t axis = c.attr().get_int("axis", -1);
    if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
    const int64_t per_channel = form == "LayerNormalization" ? 1 : element_count(Shape(x.shape.begin() + 2, x.shape.end()));
    const int64_t row = form == "LayerNormalization" ? element_count(Shape(x.shape.begin() + axis, x.shape.end())) : 1;
    int64_t sets = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      const int64_t channel = i / per_channel % (form == "LayerNormalization" ? 1 : x.dim(1));
      if (form == "LayerNormalization") set.push_back(i / row), scale.push_back(i % row);
      else if (form == "InstanceNormalization") set.push_back(i / per_channel), scale.push_back(channel);
      else {
        const int64_t groups = c.attr().get_int("num_groups", 1), sample = i / per_channel / x.dim(1);
        set.push_back(sample * groups + channel / (x.dim(1) / groups));
        scale.push_back(channel);
      }
      sets = std::max(sets, set.back() + 1);
    }
    mean.assign(static_cast<size_t>(sets), 0);
    inverse = count = mean;
    for (int64_t s : set) count[static_cast<size_t>(s)] += 1;
    for (int64_t i = 0; i < x.count(); ++i) mean[of(i)] += x[i] / count[of(i)];
    for (int64_t i = 0; i < x.count(); ++i) inverse[of(i)] += std::pow(x[i] - mean[of(i)], 2) / count[of(i)];
    for (double& v : inverse) v = 1 / std::sqrt(v + static_cast<double>(c.attr().get_float("epsilon", 1e-5f)));
  }
  size_t of(int64_t i) const { return static_cast<size_t>(set[static_cast<size_t>(i)]); }
  int64_t scale_of(int64_t i) const { return scale[static_cast<size_t>(i)]; }
};

void forward(RefCall& c) {
  const RefTensor& x = c.in(0);
  const Sets s(c, x);
  for (int64_t i = 0; i < x.count(); ++i)
    c.out()[i] = (x[i] - s.mean[s.of(i)]) * s.inverse[s.of(i)] * c.in(1)[s.scale_of(i)] + (c.has(2) ? c.in(2)[s.scale_of(i)] : 0);
  if (c.wants(1)) c.out(1).v = s.mean;
  if (c.wants(2)) c.out(2).v = s.inverse;
}

void gradient(RefCall& c) {
  const RefTensor &dy = c.in(0), &x = c.in(1), &scale = c.in(2);
  const Sets s(c, x);
  std::vector<double> g(s.mean.size(), 0), gh(g);
  auto h = [&](int64_t i) { return (x[i] - s.mean[s.of(i)]) * s.inverse[s.of(i)]; };
  for (int64_t i = 0; i < x.count(); ++i) {
    g[s.of(i)] += dy[i] * scale[s.scale_of(i)] / s.count[s.of(i)];
    gh[s.of(i)] += dy[i] * scale[s.scale_of(i)] * h(i) / s.count[s.of(i)];
    if (c.wants(1)) c.out(1)[s.scale_of(i)] += dy[i] * h(i);
    if (c.wants(2)) c.out(2)[s.scale_of(i)] += dy[i];
  }
  if (!c.wants(0)) return;
  for (int64_t i = 0; i < x.count(); ++i) c.out()[i] = s.inverse[s.of(i)] * (dy[i] * scale[s.scale_of(i)] - g[s.of(i)] - h(i) * gh[s.of(i)]);
}

}  // namespace

std::span<const RefDef> layer_norm_reference() {
  static const RefDef defs[] = {
      {"", "LayerNormalization", forward}, {"", "InstanceNormalization", forward}, {"", "GroupNormalization", forward}, {kEngineDomain, "NormGrad", gradient}};
  return defs;
}

}  // namespace eng::test
