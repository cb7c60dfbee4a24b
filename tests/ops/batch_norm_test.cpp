// Batch normalisation: both forms against the float64 reference and finite differences, known values, hard statistics.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpCase make(const std::string& domain, const std::string& op, Shape x, uint64_t seed) {
  const int64_t channels = x.size() > 1 ? x[1] : 1;
  OpCase c{.op = op, .inputs = {real(x), real({channels}, 0.5, 1.5), real({channels}), real({channels}), real({channels}, 0.5, 1.5)}, .domain = domain, .seed = seed};
  c.inputs[3].differentiate = c.inputs[4].differentiate = false;
  return c;
}

}  // namespace

TEST_CASE("batch_norm: inference form, frozen statistics") {
  const Shape shapes[] = {{4, 3}, {2, 3, 4}, {2, 5, 3, 2}, {3, 16, 4, 4}, {1, 2, 2, 3, 2}, {2, 17, 1, 1}, {1, 1, 5, 5}};
  uint64_t seed = 1;
  for (const Shape& x : shapes)
    for (float epsilon : {1e-5f, 1e-2f, 0.5f}) {
      OpCase c = make("", "BatchNormalization", x, ++seed);
      c.attributes = attrs({{"epsilon", epsilon}});
      check_op(c);
    }
}

TEST_CASE("batch_norm: training form with and without ReLU") {
  const Shape shapes[] = {{4, 3}, {2, 3, 4}, {2, 5, 3, 2}, {3, 16, 4, 4}, {2, 2, 2, 3, 2}, {6, 17, 1, 1}, {1, 1, 5, 5}};
  uint64_t seed = 50;
  for (const Shape& x : shapes)
    for (const char* activation : {"", "Relu"})
      for (float epsilon : {1e-3f, 0.1f}) {
        OpCase c = make("ai.engine", "BatchNormTraining", x, ++seed);
        c.attributes = attrs({{"epsilon", epsilon}, {"momentum", 0.7f}});
        if (*activation) c.attributes.set("activation", std::string(activation));
        c.outputs = {true, true, true, true, true};
        c.differentiate_outputs = {true, false, false, false, false};
        c.rtol = 1e-4;
        check_op(c);
      }
}

TEST_CASE("batch_norm: training_mode of ONNX's operator") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    OpCase c = make("", "BatchNormalization", seed % 2 ? Shape{3, 4, 5} : Shape{2, 3, 4, 2}, seed);
    c.attributes = attrs({{"training_mode", int64_t{1}}, {"epsilon", 1e-2f}});
    c.outputs = {true, true, true};
    c.differentiate_outputs = {true, false, false};
    check_op(c);
  }
}

TEST_CASE("batch_norm: long rows are summed in chunks") {
  OpCase c = make("ai.engine", "BatchNormTraining", {5, 20, 21, 19}, 7);
  c.attributes = attrs({{"epsilon", 1e-3f}, {"activation", std::string("Relu")}});
  c.outputs = {true, true, true, true, true};
  c.differentiate_outputs = {true, false, false, false, false};
  c.rtol = 1e-4;
  check_forward(c);
  check_backward(c);
}

TEST_CASE("batch_norm: a mean far above the deviation keeps its variance") {
  OpCase c = make("ai.engine", "BatchNormTraining", {4, 2, 16, 16}, 3);
  c.inputs[0] = real({4, 2, 16, 16}, 1000, 1000.5);
  c.inputs[1] = given({2}, {1, 1});
  c.inputs[2] = given({2}, {0, 0});
  c.attributes = attrs({{"epsilon", 0.0f}});
  c.outputs = {false, false, false, true, true};
  c.rtol = 1e-4;  // of 1 / std, about 7; the naive E[x^2] - E[x]^2 in float32 is off by more than 100 %
  check_forward(c);
}

TEST_CASE("batch_norm: one value a channel gives B and no NaN") {
  OpCase c = make("ai.engine", "BatchNormTraining", {1, 3, 1, 1}, 3);
  c.inputs[2] = given({3}, {0.25, -1, 3});
  auto y = run_on_cpu(c);
  for (int64_t i = 0; i < 3; ++i) CHECK(y[0].at(i) == std::vector<double>{0.25, -1, 3}[static_cast<size_t>(i)]);
}
