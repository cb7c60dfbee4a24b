// Learning-rate schedules, the monitor, and the metrics file, against values worked out by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/train/monitor.h"
#include "engine/train/schedule.h"

namespace eng {
namespace {

TEST_CASE("a constant schedule decays by Keras's time decay only") {
  Schedule s;
  s.base = 0.1;
  s.decay = 0.5;
  CHECK(s.rate(0, 0) == doctest::Approx(0.1));
  CHECK(s.rate(2, 7) == doctest::Approx(0.05));  // 0.1 / (1 + 0.5 * 2)
}

TEST_CASE("a step schedule multiplies once per so many epochs") {
  auto s = parse_schedule("step:0.5,2");
  REQUIRE(s.ok());
  s->base = 0.8;
  CHECK(s->rate(100, 1) == doctest::Approx(0.8));
  CHECK(s->rate(100, 2) == doctest::Approx(0.4));
  CHECK(s->rate(100, 5) == doctest::Approx(0.2));
}

TEST_CASE("a cosine schedule rises through its warm-up, is half-way at the middle and ends at zero") {
  auto s = parse_schedule("cosine");
  REQUIRE(s.ok());
  s->base = 1;
  s->warmup = 4;
  s->total = 104;
  CHECK(s->rate(0, 0) == doctest::Approx(0.25));
  CHECK(s->rate(3, 0) == doctest::Approx(1.0));
  CHECK(s->rate(4, 0) == doctest::Approx(1.0));
  CHECK(s->rate(54, 0) == doctest::Approx(0.5));
  CHECK(s->rate(29, 0) == doctest::Approx(0.5 + std::sqrt(0.5) / 2));  // a quarter: (1 + cos 45 deg) / 2
  CHECK(s->rate(104, 0) == doctest::Approx(0).epsilon(1e-12));
}

TEST_CASE("schedules that are not understood are refused with the known forms") {
  for (const char* text : {"linear", "step:", "step:2", "step:0.5,0", "step:0.5;2", "stepwise"}) {
    const auto s = parse_schedule(text);
    REQUIRE_FALSE(s.ok());
    CHECK(s.status().code() == Code::kUsage);
    CHECK(s.status().message().find("step:GAMMA,EVERY_EPOCHS") != std::string::npos);
  }
}

EpochRecord record(int64_t epoch, double loss, double val_accuracy) {
  EpochRecord r;
  r.epoch = epoch;
  r.loss = loss;
  r.val_loss = loss;
  r.val_accuracy = val_accuracy;
  return r;
}

TEST_CASE("the monitor keeps the highest accuracy and stops after epochs without a better one") {
  auto m = Monitor::create({"val_acc", "auto", 2}, true, true);
  REQUIRE(m.ok());
  CHECK(m->update(record(0, 1, 0.5)));
  CHECK(m->update(record(1, 1, 0.7)));
  CHECK_FALSE(m->update(record(2, 1, 0.7)));  // equal is not better
  CHECK_FALSE(m->should_stop());
  CHECK_FALSE(m->update(record(3, 1, std::numeric_limits<double>::quiet_NaN())));
  CHECK(m->should_stop());
  CHECK(*m->state().best == 0.7);
  CHECK(m->state().best_epoch == 1);
}

TEST_CASE("without validation data the training loss is watched, and a validation metric is refused") {
  auto m = Monitor::create({}, false, true);
  REQUIRE(m.ok());
  CHECK(m->metric() == "loss");
  CHECK(m->update(record(0, 2, 0)));
  CHECK(m->update(record(1, 1, 0)));
  const auto refused = Monitor::create({"val_accuracy", "max", 0}, false, true);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("--val") != std::string::npos);
}

}  // namespace
}  // namespace eng
