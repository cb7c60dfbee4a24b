// The CPU kernels' elementary functions against double precision, over float bit patterns of every exponent and sign.
// Bounds, in units in the last place: those that backends/cpu/vector_math.h states.
#include "backends/cpu/vector_math.h"

#include <doctest/doctest.h>

using namespace eng::cpu;

namespace {

// Largest error in units in the last place of the right result; infinities and NaN must agree.
template <class Fast, class Exact>
double worst_error(Fast fast, Exact exact, bool positive_only) {
  double worst = 0;
  for (uint64_t bits = 0; bits < (positive_only ? 0x7f800000ull : 0x100000000ull); bits += 9973) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const float got = fast(x);
    const double wanted = exact(static_cast<double>(x));
    if (std::isnan(wanted) || std::isnan(got)) {
      if (std::isnan(wanted) != std::isnan(got)) return INFINITY;
      continue;
    }
    const float rounded = static_cast<float>(wanted);
    if (std::isinf(rounded) || std::isinf(got)) {
      if (rounded != got && std::fabs(wanted) < 3.4e38) return INFINITY;
      continue;
    }
    const double unit = std::max(static_cast<double>(std::nextafter(std::fabs(rounded), INFINITY)) - std::fabs(static_cast<double>(rounded)), 0x1p-149);
    worst = std::max(worst, std::fabs(static_cast<double>(got) - wanted) / unit);
  }
  return worst;
}

}  // namespace

TEST_CASE("elementary functions stay within their stated errors for every exponent") {
  CHECK(worst_error([](float x) { return fast_exp(x); }, [](double x) { return std::exp(x); }, false) <= 1.1);
  CHECK(worst_error([](float x) { return fast_log(x); }, [](double x) { return std::log(x); }, true) <= 1.0);
  CHECK(worst_error([](float x) { return fast_tanh(x); }, [](double x) { return std::tanh(x); }, false) <= 1.5);
  CHECK(worst_error([](float x) { return fast_sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, false) <= 2.5);
  CHECK(worst_error([](float x) { return fast_erf(x); }, [](double x) { return std::erf(x); }, false) <= 1.1);
}
