// Batch normalisation in training mode: the batch's population variance, running statistics by momentum. Values by hand.
#include <doctest/doctest.h>

#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpCase training(float momentum) {
  OpCase c{.op = "BatchNormalization",
           .inputs = {given({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), given({2}, {1, 1}), given({2}, {0, 0}), given({2}, {0, 0}), given({2}, {1, 1})}};
  c.attributes = attrs({{"training_mode", int64_t{1}}, {"epsilon", 1e-3f}, {"momentum", momentum}});
  c.outputs = {true, true, true};
  return c;
}

}  // namespace

TEST_CASE("case 10: training mode normalises with the batch and moves the running statistics") {
  struct Row { float momentum; double mean0, mean1, var; };
  for (const Row& row : {Row{0.0f, 3.5, 5.5, 4.25}, Row{0.9f, 0.35, 0.55, 1.325}, Row{1.0f, 0, 0, 1}}) {
    CAPTURE(row.momentum);
    auto out = run_on_cpu(training(row.momentum));
    const double y[] = {-1.212536, -0.727521, -1.212536, -0.727521, 0.727521, 1.212536, 0.727521, 1.212536};
    for (int64_t i = 0; i < 8; ++i) CHECK(out[0].at(i) == doctest::Approx(y[i]).epsilon(1e-5));
    CHECK(out[1].at(0) == doctest::Approx(row.mean0).epsilon(1e-6));
    CHECK(out[1].at(1) == doctest::Approx(row.mean1).epsilon(1e-6));
    CHECK(out[2].at(0) == doctest::Approx(row.var).epsilon(1e-6));
    CHECK(out[2].at(1) == doctest::Approx(row.var).epsilon(1e-6));
  }
}

TEST_CASE("case 10: evaluation afterwards uses the moved statistics") {
  OpCase c{.op = "BatchNormalization", .inputs = {given({1, 2, 1, 1}, {3.5, 5.5}), given({2}, {1, 1}), given({2}, {0, 0}), given({2}, {0.35, 0.55}), given({2}, {1.325, 1.325})}};
  c.attributes = attrs({{"epsilon", 1e-3f}});
  auto y = run_on_cpu(c)[0];
  CHECK(y.at(0) == doctest::Approx(3.15 / 1.151520733).epsilon(1e-5));  // (3.5 - 0.35) / sqrt(1.326)
  CHECK(y.at(1) == doctest::Approx(4.95 / 1.151520733).epsilon(1e-5));
}

TEST_CASE("case 10: a batch of one value a channel gives B") {
  OpCase c = training(0.9f);
  c.inputs[0] = given({1, 2, 1, 1}, {5, -3});
  c.inputs[2] = given({2}, {0.5, -2});
  auto y = run_on_cpu(c)[0];
  CHECK(y.at(0) == 0.5);
  CHECK(y.at(1) == -2);
}
