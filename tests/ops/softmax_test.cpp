// Softmax, LogSoftmax, Hardmax along any axis, their gradients, and large scores.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

TEST_CASE("softmax and its logarithm equal the reference along every axis, gradients included") {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"})
    for (const Shape& shape : {Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 3, 4, 5}, Shape{2, 7, 1, 1}, Shape{5}})
      for (int64_t axis = -static_cast<int64_t>(shape.size()); axis < static_cast<int64_t>(shape.size()); ++axis)
        check_op({.op = op, .inputs = {real(shape, -3, 3)}, .attributes = attrs({{"axis", axis}})});
}

TEST_CASE("a score of minus infinity has probability 0 and takes no part in the gradient of others") {
  const double none = -std::numeric_limits<double>::infinity();
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (int64_t axis : {0, 1, 2}) {
      OpCase c{.op = op, .inputs = {given({2, 2, 3}, {none, 1, 2, 0.5, none, -1, 3, 2, 1, 0, none, 4})}, .attributes = attrs({{"axis", axis}})};
      check_forward(c);
      check_backward(c);
    }
  const Tensor p = run_on_cpu({.op = "Softmax", .inputs = {given({1, 3}, {0, none, 0})}})[0];
  CHECK(p.at(0) == 0.5);
  CHECK(p.at(1) == 0);
}

TEST_CASE("long axes are summed well enough") {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (int64_t axis : {0, 1}) {
      OpCase c{.op = op, .inputs = {real(axis ? Shape{3, 5000} : Shape{5000, 3}, -4, 4)}, .attributes = attrs({{"axis", axis}})};
      check_forward(c);
      check_backward(c);
    }
}

TEST_CASE("large scores neither overflow nor lose the small ones") {
  const Tensor p = run_on_cpu({.op = "Softmax", .inputs = {given({1, 3}, {1000, 1000, -1000})}})[0];
  CHECK(p.at(0) == 0.5);
  CHECK(p.at(1) == 0.5);
  CHECK(p.at(2) == 0);
  const Tensor l = run_on_cpu({.op = "LogSoftmax", .inputs = {given({1, 3}, {200, 0, 0})}})[0];
  CHECK(l.at(1) == doctest::Approx(-200));
}
