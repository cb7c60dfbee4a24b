// Dropout: identity in inference, and the training form's random mask: its rate, its scale, its repeatability.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput state(int64_t seed, int64_t counter) { return given({2}, {static_cast<double>(seed), static_cast<double>(counter)}, DType::kInt64); }
OpCase random_dropout(Shape shape, float ratio, int64_t seed, int64_t counter, int64_t stream = 0) {
  return {.op = "RandomDropout", .inputs = {real(std::move(shape), 1, 2), state(seed, counter)}, .attributes = attrs({{"ratio", ratio}, {"stream", stream}}),
          .outputs = {true, true}, .domain = kEngineDomain, .differentiate_outputs = {true, false}};
}
std::vector<double> mask_of(const OpCase& c) {
  const Tensor m = run_on_cpu(c)[1];
  std::vector<double> out;
  for (int64_t i = 0; i < m.element_count(); ++i) out.push_back(m.at(i));
  return out;
}

}  // namespace

TEST_CASE("dropout in inference form is the identity") {
  check_op({.op = "Dropout", .inputs = {real({2, 3, 4, 5})}});
  check_op({.op = "Dropout", .inputs = {real({7}), given({}, {0.3})}});
}

TEST_CASE("the training form keeps 1 - ratio of the elements, scaled, in any layout, with the matching gradient") {
  for (float ratio : {0.2F, 0.5F, 0.9F})
    for (const Shape& shape : {Shape{11}, Shape{2, 3, 4, 5}}) check_op(random_dropout(shape, ratio, 7, 3));
  const auto mask = mask_of(random_dropout({100000}, 0.2F, 1, 0));
  double kept = 0;
  for (double m : mask) kept += m;
  // Binomial with p = 0.8: standard deviation 126; five of them.
  CHECK(std::fabs(kept - 80000) < 632);
}

TEST_CASE("the mask depends on seed, counter and stream, and on nothing else") {
  const auto mask = mask_of(random_dropout({1000}, 0.5F, 1, 0));
  CHECK(mask == mask_of(random_dropout({1000}, 0.5F, 1, 0)));
  CHECK(mask == mask_of(random_dropout({10, 100}, 0.5F, 1, 0)));
  CHECK(mask != mask_of(random_dropout({1000}, 0.5F, 2, 0)));
  CHECK(mask != mask_of(random_dropout({1000}, 0.5F, 1, 1)));
  CHECK(mask != mask_of(random_dropout({1000}, 0.5F, 1, 0, 1)));
}

TEST_CASE("the random state advances by one step") {
  CHECK(run_on_cpu({.op = "AdvanceRandom", .inputs = {state(42, 6)}, .domain = kEngineDomain})[0].to_ints() == std::vector<int64_t>{42, 7});
}
