// AveragePool with ceil_mode: the last window is divided by what it covers of the input and its pads, not by the kernel.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpCase line() {
  return {.op = "AveragePool", .inputs = {given({1, 1, 5}, {1, 2, 3, 4, 5})},
          .attributes = attrs({{"kernel_shape", std::vector<int64_t>{2}}, {"strides", std::vector<int64_t>{2}}, {"ceil_mode", int64_t{1}}, {"count_include_pad", int64_t{1}}})};
}
OpCase square(int64_t include) {
  std::vector<double> x;
  for (int i = 1; i <= 16; ++i) x.push_back(i);
  return {.op = "AveragePool", .inputs = {given({1, 1, 4, 4}, x)},
          .attributes = attrs({{"kernel_shape", std::vector<int64_t>{3, 3}}, {"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                               {"ceil_mode", int64_t{1}}, {"count_include_pad", include}})};
}
void expect(const Tensor& y, const std::vector<double>& wanted) {
  REQUIRE(y.element_count() == static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(y.at(static_cast<int64_t>(i)) == doctest::Approx(wanted[i]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("case 8: a last window over the end of a line") {
  expect(run_on_cpu(line())[0], {1.5, 3.5, 5});
  expect(gradient_on_cpu(line(), 0, {1, 1, 1}), {0.5, 0.5, 0.5, 0.5, 1});
}

TEST_CASE("case 8: windows over padded edges of a square") {
  expect(run_on_cpu(square(1))[0], {1.555556, 3.333333, 2, 6.333333, 11, 6, 4.5, 7.5, 4});
  expect(run_on_cpu(square(0))[0], {3.5, 5, 6, 9.5, 11, 12, 13.5, 15, 16});
  check_gradient(square(1));
  check_gradient(square(0));
}
