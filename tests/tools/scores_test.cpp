// Scores against values worked out by hand and by scikit-learn 1.9 (log_loss, roc_auc_score).
#include "tools/common/scores.h"

#include <doctest/doctest.h>

#include <cmath>

namespace eng::tools {
namespace {

TEST_CASE("outputs become probabilities: probabilities stay, log-probabilities and logits are turned") {
  std::string note;
  auto p = to_probabilities(Tensor::of<float>({2, 2}, {0.25f, 0.75f, 1, 0}), note);
  REQUIRE(p.ok());
  CHECK(p->values == std::vector<double>{0.25, 0.75, 1, 0});
  p = to_probabilities(Tensor::of<float>({1, 2}, {static_cast<float>(std::log(0.25)), static_cast<float>(std::log(0.75))}), note);
  REQUIRE(p.ok());
  CHECK(p->values[0] == doctest::Approx(0.25));
  p = to_probabilities(Tensor::of<float>({1, 3}, {2, 0, 0}), note);
  REQUIRE(p.ok());
  CHECK(p->values[0] == doctest::Approx(0.7869860).epsilon(1e-6));  // e^2 / (e^2 + 2)
  p = to_probabilities(Tensor::of<float>({2, 1}, {-3, 3}), note);
  REQUIRE(p.ok());
  CHECK(p->values[1] == doctest::Approx(0.9525741).epsilon(1e-6));
}

TEST_CASE("accuracy, log loss and area of two classes") {
  // scikit-learn: log_loss([0,0,1,1], [.1,.4,.35,.8]) = 0.47228795, roc_auc_score = 0.75, accuracy = 3/4
  const Probabilities one{4, 1, {0.1, 0.4, 0.35, 0.8}};
  const Probabilities two{4, 2, {0.9, 0.1, 0.6, 0.4, 0.65, 0.35, 0.2, 0.8}};
  const std::vector<int64_t> labels{0, 0, 1, 1};
  for (const Probabilities& p : {one, two}) {
    CHECK(accuracy(p, labels) == 0.75);
    CHECK(log_loss(p, labels) == doctest::Approx((-std::log(0.9) - std::log(0.6) - std::log(0.35) - std::log(0.8)) / 4));
    CHECK(*area_under_curve(p, labels) == doctest::Approx(0.75));
  }
}

TEST_CASE("ties count one half, and a missing class makes the area undefined") {
  CHECK(*area_under_curve({4, 1, {0.5, 0.5, 0.5, 0.5}}, {0, 1, 0, 1}) == 0.5);
  CHECK_FALSE(area_under_curve({2, 1, {0.1, 0.2}}, {1, 1}).ok());
}

TEST_CASE("scores that are no numbers have no area, and asking for it ends") {
  const double nan = std::nan("");
  const auto one = area_under_curve({4, 1, {0.1, nan, 0.3, nan}}, {0, 1, 0, 1});
  REQUIRE_FALSE(one.ok());
  CHECK(one.status().message().find("2 of 4 samples are no numbers (NaN)") != std::string::npos);
  CHECK_FALSE(area_under_curve({3, 3, {nan, nan, nan, nan, nan, nan, nan, nan, nan}}, {0, 1, 2}).ok());
}

TEST_CASE("a certain wrong answer costs -log(1e-15)") {
  CHECK(log_loss({1, 2, {1, 0}}, {1}) == doctest::Approx(34.538776394910684));
}

}  // namespace
}  // namespace eng::tools
