// See resize_table.h. ONNX's text: where output x looks in the input, then a filter around that point. Indices past an edge read
// the edge, or are left out and the rest rescaled (exclude_outside). Antialiasing widens the filter by 1 / scale.
#include "backends/cpu/kernels/resize_table.h"

#include <algorithm>
#include <cmath>

namespace eng::cpu {
namespace {

struct Options {
  std::string mode, coordinates, nearest;
  double cubic_a;
  bool antialias, exclude_outside;
};

std::vector<double> host_numbers(const NodeView& n, int i) {
  std::vector<double> v;
  if (!n.in(i).present() || !n.host(i)) return v;
  for (int64_t k = 0; k < n.in(i).count(); ++k) {
    if (n.in(i).dtype == EB_FLOAT32) v.push_back(static_cast<double>(static_cast<const float*>(n.host(i))[k]));
    else if (n.in(i).dtype == EB_FLOAT64) v.push_back(static_cast<const double*>(n.host(i))[k]);
    else v.push_back(static_cast<double>(static_cast<const int64_t*>(n.host(i))[k]));
  }
  return v;
}

// The point in the input that output x looks at.
double source(const Options& o, double x, double in, double out, double scale, double roi_begin, double roi_end) {
  const double width = scale * in;  // of the output before it was rounded
  if (o.coordinates == "align_corners") return width == 1 ? 0 : x * (in - 1) / (width - 1);
  if (o.coordinates == "asymmetric") return x / scale;
  if (o.coordinates == "tf_crop_and_resize")
    return roi_begin * (in - 1) + (width == 1 ? (roi_end - roi_begin) * (in - 1) / 2 : x * (roi_end - roi_begin) * (in - 1) / (width - 1));
  if (o.coordinates == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half_pixel = (x + 0.5) / scale - 0.5;
  return o.coordinates == "half_pixel_symmetric" ? in / 2 * (1 - out / width) + half_pixel : half_pixel;
}

int64_t nearest(const Options& o, double at) {
  if (o.nearest == "floor") return static_cast<int64_t>(std::floor(at));
  if (o.nearest == "ceil") return static_cast<int64_t>(std::ceil(at));
  if (o.nearest == "round_prefer_ceil") return static_cast<int64_t>(std::floor(at + 0.5));
  return static_cast<int64_t>(std::ceil(at - 0.5));
}

double filter(const Options& o, double d) {
  d = std::fabs(d);
  if (o.mode == "linear") return std::max(0.0, 1 - d);
  const double a = o.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

void add_taps(const Options& o, ResizeTable& t, double at, double scale) {
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i, 0, t.in - 1); };
  if (o.mode == "nearest") {
    t.index.push_back(clamp(nearest(o, at)));
    t.weight.push_back(1);
    return;
  }
  const double narrow = o.antialias ? std::min(scale, 1.0) : 1, support = o.mode == "linear" ? 1 : 2, base = std::floor(at);
  const int64_t low = static_cast<int64_t>(std::floor(-support / narrow)) + 1;
  double sum = 0;
  const size_t first = t.weight.size();
  for (int64_t i = low; i <= 1 - low; ++i) {
    const int64_t from = static_cast<int64_t>(base) + i;
    const double w = filter(o, (static_cast<double>(i) - (at - base)) * narrow);
    const bool outside = from < 0 || from >= t.in;
    if (w == 0 || (outside && o.exclude_outside)) continue;
    t.index.push_back(clamp(from));
    t.weight.push_back(w);
    sum += w;
  }
  if ((o.antialias || o.exclude_outside) && sum != 0)
    for (size_t k = first; k < t.weight.size(); ++k) t.weight[k] /= sum;
}

}  // namespace

bool ResizeTable::identity() const {
  if (in != out || static_cast<int64_t>(index.size()) != out) return false;
  for (int64_t i = 0; i < out; ++i)
    if (index[size_t(i)] != i || weight[size_t(i)] != 1 || start[size_t(i)] != i) return false;
  return true;
}

ResizeTable ResizeTable::transposed() const {
  ResizeTable t;
  t.in = out;
  t.out = in;
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t k = start[size_t(o)]; k < start[size_t(o) + 1]; ++k)
        if (index[size_t(k)] == i) t.index.push_back(o), t.weight.push_back(weight[size_t(k)]);
    t.start.push_back(static_cast<int64_t>(t.index.size()));
  }
  return t;
}

std::vector<ResizeTable> resize_tables(const NodeView& n, const std::vector<int64_t>& in, const std::vector<int64_t>& out) {
  const Options o{n.attr_string("mode", "nearest"), n.attr_string("coordinate_transformation_mode", "half_pixel"),
                  n.attr_string("nearest_mode", "round_prefer_floor"), n.attr_float("cubic_coeff_a", -0.75), n.attr_int("antialias", 0) != 0,
                  n.attr_int("exclude_outside", 0) != 0};
  std::vector<int64_t> axes = n.attr_ints("axes");
  if (axes.empty()) for (size_t i = 0; i < in.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const std::vector<double> roi = host_numbers(n, 1), scales = host_numbers(n, 2), sizes = host_numbers(n, 3);
  const std::string policy = n.attr_string("keep_aspect_ratio_policy", "stretch");
  std::vector<double> scale(in.size(), 1), begin(in.size(), 0), end(in.size(), 1);
  double common = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    const size_t a = static_cast<size_t>(axes[k] < 0 ? axes[k] + static_cast<int64_t>(in.size()) : axes[k]);
    scale[a] = scales.empty() ? sizes[k] / static_cast<double>(in[a]) : scales[k];
    common = k == 0 ? scale[a] : policy == "not_larger" ? std::min(common, scale[a]) : std::max(common, scale[a]);
    if (roi.size() == 2 * axes.size()) begin[a] = roi[k], end[a] = roi[axes.size() + k];
    axes[k] = static_cast<int64_t>(a);
  }
  if (scales.empty() && policy != "stretch")
    for (int64_t a : axes) scale[static_cast<size_t>(a)] = common;
  std::vector<ResizeTable> tables;
  for (size_t a = 0; a < in.size(); ++a) {
    ResizeTable t;
    t.in = in[a];
    t.out = out[a];
    const bool crop = o.coordinates == "tf_crop_and_resize", plain = scale[a] == 1 && in[a] == out[a] && (!crop || (begin[a] == 0 && end[a] == 1));
    for (int64_t x = 0; x < t.out; ++x) {
      const double at = plain ? static_cast<double>(x) : source(o, static_cast<double>(x), static_cast<double>(t.in), static_cast<double>(t.out), scale[a], begin[a], end[a]);
      if (!crop || plain || (at >= 0 && at <= static_cast<double>(t.in - 1))) add_taps(o, t, at, scale[a]);
      t.start.push_back(static_cast<int64_t>(t.index.size()));
    }
    tables.push_back(std::move(t));
  }
  return tables;
}

}  // namespace eng::cpu
