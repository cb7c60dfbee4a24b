// Softmax, LogSoftmax, Hardmax along any axis, their gradients, and large scores.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("softmax and its logarithm equal the reference along every axis, gradients included") {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"})
    for (const Shape& shape : {Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 3, 4, 5}, Shape{2, 7, 1, 1}, Shape{5}})
      for (int64_t axis = -static_cast<int64_t>(shape.size()); axis < static_cast<int64_t>(shape.size()); ++axis)
        check_op({.op = op, .inputs = {real(shape, -3, 3)}, .attributes = attrs({{"axis", axis}})});
}

TEST_CASE("large scores neither overflow nor lose the small ones") {
  const Tensor p = run_on_cpu({.op = "Softmax", .inputs = {given({1, 3}, {1000, 1000, -1000})}})[0];
  CHECK(p.at(0) == 0.5);
  CHECK(p.at(1) == 0.5);
  CHECK(p.at(2) == 0);
  const Tensor l = run_on_cpu({.op = "LogSoftmax", .inputs = {given({1, 3}, {200, 0, 0})}})[0];
  CHECK(l.at(1) == doctest::Approx(-200));
}
