// Reshape, Flatten, Squeeze, Unsqueeze.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

Shape shape_of(const std::string& op, OpInput x, std::vector<OpInput> more, Attributes a = {}) {
  OpCase c{.op = op, .inputs = {x}, .attributes = std::move(a), .outputs = {true}, .domain = "", .seed = 1, .rtol = 0, .differentiate_outputs = {}};
  for (const OpInput& i : more) c.inputs.push_back(i);
  check_op(c);
  return run_on_cpu(c)[0].shape();
}

}  // namespace

TEST_CASE("Reshape copies, infers and keeps dimensions") {
  CHECK(shape_of("Reshape", real({2, 3, 4}), {ints({4, 6})}) == Shape{4, 6});
  CHECK(shape_of("Reshape", real({2, 3, 4}), {ints({0, -1})}) == Shape{2, 12});
  CHECK(shape_of("Reshape", real({2, 3, 4}), {ints({-1, 0, 2, 1})}) == Shape{4, 3, 2, 1});
  CHECK(shape_of("Reshape", real({1}), {ints({})}) == Shape{});
  CHECK(shape_of("Reshape", real({0, 3}), {ints({3, 0})}, attrs({{"allowzero", int64_t{1}}})) == Shape{3, 0});
}

TEST_CASE("Squeeze drops the named axes, or all of extent 1") {
  CHECK(shape_of("Squeeze", real({1, 3, 1, 1}), {ints({0})}) == Shape{3, 1, 1});
  CHECK(shape_of("Squeeze", real({1, 3, 1, 1}), {ints({-4})}) == Shape{3, 1, 1});
  CHECK(shape_of("Squeeze", real({1, 3, 1, 1}), {}) == Shape{3});
  CHECK(shape_of("Unsqueeze", real({3}), {ints({0, -1, 2})}) == Shape{1, 3, 1, 1});
}

TEST_CASE("Flatten cuts at any axis") {
  for (int64_t axis = -3; axis <= 3; ++axis) {
    const Shape s = shape_of("Flatten", real({2, 3, 4}), {}, attrs({{"axis", axis}}));
    const int64_t rows[] = {1, 2, 6, 24};
    CHECK(s == Shape{rows[axis < 0 ? axis + 3 : axis], 24 / rows[axis < 0 ? axis + 3 : axis]});
  }
}
