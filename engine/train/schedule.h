// Learning rate of an update: rate(t) = base * warmup(t) * form(t) / (1 + decay * t), t = updates done so far (from 0).
//   warm-up   (t + 1) / warmup for the first `warmup` updates; the form counts from the end of the warm-up
//   constant  1
//   step      gamma ^ floor(epoch / every)
//   cosine    (1 + cos(pi * u)) / 2, u = (t - warmup) / (total - warmup): ends at 0
// `decay` is Keras's time decay. A pure function of its arguments, so a resumed run needs nothing but t and the epoch.
// A new form: a value of ScheduleKind, a line in parse() and in rate().
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/status.h"

namespace eng {

enum class ScheduleKind : uint8_t { kConstant, kStep, kCosine };

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double gamma = 0.5;      // step: factor
  int64_t every = 1;       // step: epochs between factors
  double base = 1e-3;      // learning rate before all factors
  double decay = 0;        // per update
  int64_t warmup = 0;      // updates
  int64_t total = 0;       // updates of the whole run; needed by cosine

  double rate(int64_t update, int64_t epoch) const;
};

// "constant", "step:GAMMA,EVERY" (step alone: 0.5,1) or "cosine"; only kind, gamma and every are set.
Result<Schedule> parse_schedule(const std::string& text);
std::string to_string(const Schedule& schedule);

}  // namespace eng
