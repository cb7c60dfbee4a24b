// auto_pad SAME_UPPER and SAME_LOWER with a stride: the pad depends on stride and input size, the odd one lies at the end or front.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpCase same(const std::string& op, const std::string& mode) {
  std::vector<double> x;
  for (int i = 0; i < 16; ++i) x.push_back(op == "Conv" ? i : -i);
  OpCase c{.op = op, .inputs = {given({1, 1, 4, 4}, x)}, .attributes = attrs({{"strides", std::vector<int64_t>{2, 2}}, {"auto_pad", mode}})};
  c.attributes.set("kernel_shape", std::vector<int64_t>{3, 3});
  if (op == "Conv") c.inputs.push_back(given({1, 1, 3, 3}, std::vector<double>(9, 1)));
  return c;
}
void expect(const OpCase& c, const std::vector<double>& wanted) {
  auto y = run_on_cpu(c)[0];
  REQUIRE(y.shape() == Shape{1, 1, 2, 2});
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(y.at(static_cast<int64_t>(i)) == wanted[i]);
}

}  // namespace

TEST_CASE("case 9: convolution") {
  expect(same("Conv", "SAME_UPPER"), {45, 39, 66, 50});
  expect(same("Conv", "SAME_LOWER"), {10, 24, 51, 90});
  check_gradient(same("Conv", "SAME_UPPER"));
  check_gradient(same("Conv", "SAME_LOWER"));
}

TEST_CASE("case 9: maximum pooling pads with minus infinity") {
  expect(same("MaxPool", "SAME_UPPER"), {0, -2, -8, -10});
  expect(same("MaxPool", "SAME_LOWER"), {0, -1, -4, -5});
}
