// Counts of right answers.
#include <cmath>

#include "tests/support/reference/reference.h"

namespace eng::test {
namespace {

int64_t first_highest(const RefTensor& t, int64_t row, int64_t classes) {
  int64_t best = 0;
  for (int64_t k = 1; k < classes; ++k)
    if (t[row * classes + k] > t[row * classes + best]) best = k;
  return best;
}

void correct(RefCall& c) {
  const RefTensor &x = c.in(0), &y = c.in(1);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const int64_t label = is_floating(y.dtype) ? first_highest(y, i, x.dim(1)) : static_cast<int64_t>(y[i]);
    c.out()[0] += first_highest(x, i, x.dim(1)) == label;
  }
}
void binary(RefCall& c) {
  const double threshold = static_cast<double>(c.attr().get_float("threshold", 0.5F));
  for (int64_t i = 0; i < c.in(0).count(); ++i) c.out()[0] += (c.in(0)[i] > threshold) == (c.in(1)[i] > 0.5);
}

}  // namespace

std::span<const RefDef> metric_reference() {
  static const RefDef defs[] = {{"ai.engine", "CorrectCount", correct}, {"ai.engine", "BinaryCorrectCount", binary}};
  return defs;
}

}  // namespace eng::test
