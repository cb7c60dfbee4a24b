// Reductions: the elements that fall on each place of the result are collected, then reduced by the definition.
#include <algorithm>
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

std::vector<bool> reduced_axes(const RefCall& c, const Shape& x, int axes_input) {
  const std::vector<int64_t> axes = c.ints(axes_input);
  std::vector<bool> reduced(x.size(), axes.empty() && c.attr().get_int("noop_with_empty_axes", 0) == 0);
  for (int64_t a : axes) reduced[static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(x.size()) : a)] = true;
  return reduced;
}

// Flat index of the result's place (as if axes were kept) for element i of x.
int64_t place_of(int64_t i, const Shape& x, const std::vector<bool>& reduced) {
  const std::vector<int64_t> at = unravel(i, x);
  int64_t place = 0;
  for (size_t k = 0; k < x.size(); ++k)
    if (!reduced[k]) place = place * x[k] + at[k];
  return place;
}

template <class F>
void reduce(RefCall& c, F f) {
  const RefTensor& x = c.in(0);
  const auto reduced = reduced_axes(c, x.shape, 1);
  std::vector<std::vector<double>> groups(static_cast<size_t>(c.out().count()));
  for (int64_t i = 0; i < x.count(); ++i) groups[static_cast<size_t>(place_of(i, x.shape, reduced))].push_back(x[i]);
  for (int64_t i = 0; i < c.out().count(); ++i) c.out()[i] = f(groups[static_cast<size_t>(i)]);
}
using V = const std::vector<double>&;

template <class F>
double total(V v, F f) {
  double s = 0;
  for (double x : v) s += f(x);
  return s;
}
double sum(V v) { return total(v, [](double x) { return x; }); }

void prod_grad(RefCall& c) {
  const RefTensor& x = c.in(1);
  const auto reduced = reduced_axes(c, x.shape, 2);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t place = place_of(i, x.shape, reduced);
    double others = 1;
    for (int64_t j = 0; j < x.count(); ++j)
      if (j != i && place_of(j, x.shape, reduced) == place) others *= x[j];
    c.out()[i] = c.in(0)[place] * others;
  }
}

void arg(RefCall& c, double sign) {
  const RefTensor& x = c.in(0);
  const int64_t rank = static_cast<int64_t>(x.shape.size());
  int64_t axis = c.attr().get_int("axis", 0);
  if (axis < 0) axis += rank;
  std::vector<bool> reduced(x.shape.size(), false);
  reduced[static_cast<size_t>(axis)] = true;
  const bool last = c.attr().get_int("select_last_index", 0) != 0;
  std::vector<double> best(static_cast<size_t>(c.out().count()), -INFINITY);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t place = place_of(i, x.shape, reduced);
    const double v = sign * x[i];
    double& b = best[static_cast<size_t>(place)];
    if (v > b || (last && v == b)) {
      b = v;
      c.out()[place] = static_cast<double>(unravel(i, x.shape)[static_cast<size_t>(axis)]);
    }
  }
}

}  // namespace

std::span<const RefDef> reduce_reference() {
  static const RefDef defs[] = {
      {"", "ReduceSum", [](RefCall& c) { reduce(c, sum); }},
      {"", "ReduceMean", [](RefCall& c) { reduce(c, [](V v) { return sum(v) / static_cast<double>(v.size()); }); }},
      {"", "ReduceSumSquare", [](RefCall& c) { reduce(c, [](V v) { return total(v, [](double x) { return x * x; }); }); }},
      {"", "ReduceL1", [](RefCall& c) { reduce(c, [](V v) { return total(v, [](double x) { return std::fabs(x); }); }); }},
      {"", "ReduceL2", [](RefCall& c) { reduce(c, [](V v) { return std::sqrt(total(v, [](double x) { return x * x; })); }); }},
      {"", "ReduceLogSum", [](RefCall& c) { reduce(c, [](V v) { return std::log(sum(v)); }); }},
      {"", "ReduceLogSumExp", [](RefCall& c) { reduce(c, [](V v) { return std::log(total(v, [](double x) { return std::exp(x); })); }); }},
      {"", "ReduceProd", [](RefCall& c) { reduce(c, [](V v) { double p = 1; for (double x : v) p *= x; return p; }); }},
      {"", "ReduceMax", [](RefCall& c) { reduce(c, [](V v) { return v.empty() ? -INFINITY : *std::max_element(v.begin(), v.end()); }); }},
      {"", "ReduceMin", [](RefCall& c) { reduce(c, [](V v) { return v.empty() ? INFINITY : *std::min_element(v.begin(), v.end()); }); }},
      {"ai.engine", "ReduceProdGrad", prod_grad},
      {"", "ArgMax", [](RefCall& c) { arg(c, 1); }},
      {"", "ArgMin", [](RefCall& c) { arg(c, -1); }},
  };
  return defs;
}

}  // namespace eng::test
