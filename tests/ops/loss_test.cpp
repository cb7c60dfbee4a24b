// Losses and their gradients, the field's values for stable cross-entropy, and counts of right answers.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput labels(Shape shape, int64_t classes) {
  OpInput i = real(std::move(shape), 0, static_cast<double>(classes - 1));
  i.dtype = DType::kInt64;
  return i;
}
OpInput fixed(Shape shape, double low, double high) {
  OpInput i = real(std::move(shape), low, high);
  i.differentiate = false;
  return i;
}
double cross_entropy(std::vector<double> logits, double label) {
  const int64_t classes = static_cast<int64_t>(logits.size());
  return run_on_cpu({.op = "SoftmaxCrossEntropy", .inputs = {given({1, classes}, std::move(logits)), given({1}, {label}, DType::kInt64)}, .domain = kEngineDomain})[0].at(0);
}

}  // namespace

TEST_CASE("softmax cross-entropy equals the reference for class numbers and for probabilities") {
  for (uint64_t seed = 1; seed <= 10; ++seed)
    for (const Shape& shape : {Shape{4, 3}, Shape{1, 10}, Shape{2, 3, 4}}) {
      Shape rows = shape;
      rows.erase(rows.begin() + 1);
      for (float smoothing : {0.0F, 0.1F}) {
        OpCase c{.op = "SoftmaxCrossEntropy", .inputs = {real(shape, -4, 4), labels(rows, shape[1])}, .attributes = attrs({{"label_smoothing", smoothing}}), .domain = kEngineDomain};
        c.seed = seed;
        check_op(c);
        c.outputs = {true, true};
        check_op(c);
        c.outputs = {true};
        c.inputs[1] = fixed(shape, 0, 1);
        check_op(c);
      }
    }
}

TEST_CASE("cross-entropy from logits has the field's values and stays finite") {
  CHECK(cross_entropy({2, 0, 0}, 0) == doctest::Approx(.239545).epsilon(1e-5));
  CHECK(cross_entropy({10, 0, 0}, 0) == doctest::Approx(.0000907957).epsilon(1e-4));
  CHECK(cross_entropy({200, 0, 0}, 1) == doctest::Approx(200));
  const Tensor d = gradient_on_cpu({.op = "SoftmaxCrossEntropy", .inputs = {given({1, 3}, {200, 0, 0}), given({1}, {1}, DType::kInt64)}, .domain = kEngineDomain}, 0, {1});
  CHECK(d.at(0) == doctest::Approx(1));
  CHECK(d.at(1) == doctest::Approx(-1));
  CHECK(d.at(2) == doctest::Approx(0));
}

TEST_CASE("elementwise losses equal the reference, gradients included") {
  for (const char* op : {"SigmoidBinaryCrossEntropy", "MeanSquaredError", "MeanAbsoluteError"})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Random random(seed);
      const Shape shape{random.between(1, 5), random.between(1, 6)};
      OpCase c{.op = op, .inputs = {real(shape, -4, 4), fixed(shape, 0, 1)}, .domain = kEngineDomain};
      c.seed = seed;
      check_op(c);
    }
}

TEST_CASE("ONNX's losses equal the reference with weights, ignored labels and every reduction") {
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"})
    for (const char* reduction : {"mean", "sum", "none"})
      for (bool weighted : {false, true})
        for (const Shape& shape : {Shape{5, 4}, Shape{2, 3, 4}, Shape{2, 4, 2, 3}}) {
          Shape rows = shape;
          rows.erase(rows.begin() + 1);
          OpCase c{.op = op, .inputs = {real(shape, -3, 3), labels(rows, shape[1])}, .attributes = attrs({{"reduction", std::string(reduction)}, {"ignore_index", int64_t{1}}})};
          c.inputs[1].values = std::vector<double>(static_cast<size_t>(element_count(rows)), 0);
          for (size_t i = 0; i < c.inputs[1].values.size(); ++i) c.inputs[1].values[i] = static_cast<double>(i % static_cast<size_t>(shape[1]));
          if (weighted) c.inputs.push_back(fixed({shape[1]}, 0.5, 2));
          check_op(c);
        }
}

TEST_CASE("right answers are counted, not-a-number never is one") {
  auto count = [](const char* op, OpInput scores, OpInput wanted, Attributes a = {}) {
    return run_on_cpu({.op = op, .inputs = {scores, wanted}, .attributes = a, .domain = kEngineDomain})[0].at(0);
  };
  CHECK(count("CorrectCount", given({3, 2}, {1, 2, 5, 4, 0, 0}), given({3}, {1, 1, 0}, DType::kInt64)) == 2);   // a tie: the first wins
  CHECK(count("CorrectCount", given({2, 2}, {1, 2, 5, 4}), given({2, 2}, {0, 1, 0, 1})) == 1);
  CHECK(count("CorrectCount", given({1, 2}, {NAN, NAN}), given({1}, {0}, DType::kInt64)) == 0);
  CHECK(count("BinaryCorrectCount", given({4, 1}, {-1, 1, 2, -3}), given({4, 1}, {0, 0, 1, 1}), attrs({{"threshold", 0.0F}})) == 2);
  check_forward({.op = "CorrectCount", .inputs = {real({40, 7}), labels({40}, 7)}, .domain = kEngineDomain});
  check_forward({.op = "BinaryCorrectCount", .inputs = {real({40, 1}), fixed({40, 1}, 0, 1)}, .attributes = attrs({{"threshold", 0.0F}}), .domain = kEngineDomain});
}
