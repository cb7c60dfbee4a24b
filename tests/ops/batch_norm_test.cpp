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
  // Of 1 / std, about 7. Summed in float32, Welford's method is off by up to 8e-5 of it here, two passes by 5e-6; the naive E[x^2] - E[x]^2 by more than 100 %.
  c.rtol = 2e-4;
  check_forward(c);
}

TEST_CASE("batch_norm: a mean far above the deviation is taken off as well as float32 holds it") {
  OpCase c = make("ai.engine", "BatchNormTraining", {4, 2, 16, 16}, 3);
  c.inputs[0] = real({4, 2, 16, 16}, 1000, 1000.5);
  c.attributes = attrs({{"epsilon", 0.0f}});
  // A mean of 1000 is held to 3e-5; summed in float32, a value after the other, it is off by up to 7e-4. Times 7 / unit of X times scale that is 7e-3 of Y, which goes to 3.
  c.rtol = 4e-3;
  check_forward(c);
}

TEST_CASE("batch_norm: running statistics take the population's variance; absent outputs change nothing") {
  for (const std::vector<bool>& wanted : {std::vector<bool>{true, true, true, true, true}, {true, false, true, false, true}, {true, true, false, true, false}, {true}, {false, true, true}}) {
    OpCase c = make("ai.engine", "BatchNormTraining", {2, 2, 1}, 1);
    c.inputs[0] = given({2, 2, 1}, {1, 10, 3, 16});  // channel 0: 1 3, channel 1: 10 16
    c.inputs[1] = given({2}, {2, 1});
    c.inputs[2] = given({2}, {0.5, 0});
    c.inputs[3] = given({2}, {10, 0});
    c.inputs[4] = given({2}, {4, 1});
    c.attributes = attrs({{"epsilon", 0.0f}, {"momentum", 0.75f}});
    c.outputs = wanted;
    const std::vector<std::vector<double>> literal{{-1.5, -1, 2.5, 1}, {8, 3.25}, {3.25, 3}, {2, 13}, {1, 1.0 / 3}};  // variances 1 and 9; unbiased they are 2 and 18
    const auto got = run_on_cpu(c);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i])
        for (size_t k = 0; k < literal[i].size(); ++k) CHECK(got[i].at(static_cast<int64_t>(k)) == doctest::Approx(literal[i][k]).epsilon(1e-6));
  }
}

TEST_CASE("batch_norm: gradients of which some are not wanted") {
  for (int wanted = 1; wanted < 8; ++wanted) {
    OpCase c = make("ai.engine", "BatchNormTraining", {3, 4, 5}, static_cast<uint64_t>(wanted));
    for (size_t i = 0; i < 3; ++i) c.inputs[i].differentiate = (wanted >> i & 1) != 0;
    c.outputs = {true, true, true, true, true};
    c.differentiate_outputs = {true, false, false, false, false};
    check_backward(c);
  }
}

TEST_CASE("batch_norm: one value a channel gives B and no NaN") {
  OpCase c = make("ai.engine", "BatchNormTraining", {1, 3, 1, 1}, 3);
  c.inputs[2] = given({3}, {0.25, -1, 3});
  c.outputs = {true, true, true, true, true};
  auto y = run_on_cpu(c);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(y[0].at(i) == std::vector<double>{0.25, -1, 3}[static_cast<size_t>(i)]);
    for (size_t k = 1; k < 5; ++k) CHECK(std::isfinite(y[k].at(i)));
  }
}
