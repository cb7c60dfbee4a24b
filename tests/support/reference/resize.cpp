// Resize element by element: per axis a dense row of weights over the input's indices, their product over axes, one sum over the
// whole input. Slow and plain; the gradient is the same walk with the roles of input and output exchanged.
#include <algorithm>
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

double kernel_value(const std::string& mode, double a, double x) {
  x = std::fabs(x);
  if (mode == "linear") return x < 1 ? 1 - x : 0;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

int64_t pick_nearest(const std::string& how, double x) {
  const double below = std::floor(x), ratio = x - below;
  if (ratio == 0) return static_cast<int64_t>(x);
  const bool up = how == "ceil" || (how == "round_prefer_floor" && ratio > 0.5) || (how == "round_prefer_ceil" && ratio >= 0.5);
  return static_cast<int64_t>(below) + (up ? 1 : 0);
}

struct Axis {
  double scale = 1, roi0 = 0, roi1 = 1;
  bool resized = false;
};

std::vector<Axis> axes_of(const RefCall& c, const Shape& wide) {
  std::vector<Axis> out(wide.size());
  std::vector<int64_t> axes = c.attr().get_ints("axes");
  if (axes.empty()) for (size_t i = 0; i < wide.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  auto list = [&](int i) { return c.has(i) ? c.in(i).v : std::vector<double>(); };
  const auto roi = list(1), scales = list(2), sizes = list(3);
  const std::string policy = c.attr().get_string("keep_aspect_ratio_policy", "stretch");
  std::vector<double> factors;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (axes[k] < 0) axes[k] += static_cast<int64_t>(wide.size());
    factors.push_back(scales.empty() ? sizes[k] / static_cast<double>(wide[static_cast<size_t>(axes[k])]) : scales[k]);
  }
  if (scales.empty() && policy == "not_larger") factors.assign(factors.size(), *std::min_element(factors.begin(), factors.end()));
  if (scales.empty() && policy == "not_smaller") factors.assign(factors.size(), *std::max_element(factors.begin(), factors.end()));
  for (size_t k = 0; k < axes.size(); ++k) {
    Axis& a = out[static_cast<size_t>(axes[k])];
    a.scale = factors[k];
    a.resized = true;
    if (!roi.empty()) a.roi0 = roi[k], a.roi1 = roi[k + axes.size()];
  }
  return out;
}

// Weights of output x over all inputs of one axis; empty where it lies outside the crop.
std::vector<double> weights_of(const RefCall& c, const Axis& axis, int64_t x, int64_t in, int64_t out) {
  std::vector<double> w(static_cast<size_t>(in), 0);
  if (!axis.resized) { w[static_cast<size_t>(x)] = 1; return w; }
  const std::string how = c.attr().get_string("coordinate_transformation_mode", "half_pixel"), mode = c.attr().get_string("mode", "nearest");
  const double length = static_cast<double>(in), resized = axis.scale * length, xd = static_cast<double>(x);
  double at = (xd + 0.5) / axis.scale - 0.5;
  if (how == "asymmetric") at = xd / axis.scale;
  if (how == "align_corners") at = resized == 1 ? 0 : xd * (length - 1) / (resized - 1);
  if (how == "pytorch_half_pixel" && resized == 1) at = -0.5;
  if (how == "half_pixel_symmetric") at += length / 2 * (1 - static_cast<double>(out) / resized);
  if (how == "tf_crop_and_resize") {
    at = axis.roi0 * (length - 1);
    at += resized == 1 ? 0.5 * (axis.roi1 - axis.roi0) * (length - 1) : xd * (axis.roi1 - axis.roi0) * (length - 1) / (resized - 1);
    if (at < 0 || at > length - 1) return {};
  }
  auto edge = [&](int64_t i) { return static_cast<size_t>(std::min(std::max<int64_t>(i, 0), in - 1)); };
  if (mode == "nearest") { w[edge(pick_nearest(c.attr().get_string("nearest_mode", "round_prefer_floor"), at))] = 1; return w; }
  const bool antialias = c.attr().get_int("antialias", 0) != 0, exclude = c.attr().get_int("exclude_outside", 0) != 0;
  const double squeeze = antialias ? std::min(axis.scale, 1.0) : 1, a = static_cast<double>(c.attr().get_float("cubic_coeff_a", -0.75f));
  const int64_t far = static_cast<int64_t>(2 / squeeze) + 2;
  double total = 0;
  for (int64_t i = static_cast<int64_t>(std::floor(at)) - far; i <= static_cast<int64_t>(std::floor(at)) + far; ++i) {
    if (exclude && (i < 0 || i >= in)) continue;
    const double v = kernel_value(mode, a, (static_cast<double>(i) - at) * squeeze);
    w[edge(i)] += v;
    total += v;
  }
  if (antialias || exclude) for (double& v : w) v /= total;
  return w;
}

// f(flat output, flat input or -1 for extrapolated, weight)
template <class F>
void each(const RefCall& c, const Shape& wide, const Shape& narrow, F&& f) {
  const auto axes = axes_of(c, wide);
  for (int64_t o = 0; o < element_count(narrow); ++o) {
    const auto at = unravel(o, narrow);
    std::vector<std::vector<double>> w;
    bool outside = false;
    for (size_t a = 0; a < wide.size(); ++a) {
      w.push_back(weights_of(c, axes[a], at[a], wide[a], narrow[a]));
      outside |= w.back().empty();
    }
    if (outside) { f(o, int64_t{-1}, 1.0); continue; }
    for (int64_t i = 0; i < element_count(wide); ++i) {
      const auto from = unravel(i, wide);
      double product = 1;
      for (size_t a = 0; a < wide.size(); ++a) product *= w[a][static_cast<size_t>(from[a])];
      if (product != 0) f(o, i, product);
    }
  }
}

}  // namespace

std::span<const RefDef> resize_reference() {
  static const RefDef defs[] = {
      {"", "Resize", [](RefCall& c) {
         const double outside = static_cast<double>(c.attr().get_float("extrapolation_value", 0));
         each(c, c.in(0).shape, c.out().shape, [&](int64_t o, int64_t i, double w) { c.out()[o] += i < 0 ? outside : w * c.in(0)[i]; });
       }},
      {kEngineDomain, "ResizeGrad", [](RefCall& c) {
         each(c, c.out().shape, c.in(0).shape, [&](int64_t o, int64_t i, double w) { if (i >= 0) c.out()[i] += w * c.in(0)[o]; });
       }},
  };
  return defs;
}

}  // namespace eng::test
