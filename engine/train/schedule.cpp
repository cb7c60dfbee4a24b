// See schedule.h for the formulas.
#include "engine/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace eng {
namespace {

Status wrong(const std::string& text, const std::string& why) {
  return usage_error("--schedule '", text, "': ", why, "; known: constant, step:GAMMA,EVERY_EPOCHS (such as step:0.5,1), cosine");
}

}  // namespace

double Schedule::rate(int64_t update, int64_t epoch) const {
  double factor = 1 / (1 + decay * static_cast<double>(update));
  if (update < warmup) return base * factor * static_cast<double>(update + 1) / static_cast<double>(warmup);
  if (kind == ScheduleKind::kStep) factor *= std::pow(gamma, static_cast<double>(epoch / std::max<int64_t>(every, 1)));
  if (kind == ScheduleKind::kCosine && total > warmup) {
    const double u = std::min(1.0, static_cast<double>(update - warmup) / static_cast<double>(total - warmup));
    factor *= 0.5 * (1 + std::cos(3.14159265358979323846 * u));
  }
  return base * factor;
}

Result<Schedule> parse_schedule(const std::string& text) {
  Schedule s;
  if (text == "constant") return s;
  if (text == "cosine") {
    s.kind = ScheduleKind::kCosine;
    return s;
  }
  if (text.rfind("step", 0) != 0 || (text.size() > 4 && text[4] != ':')) return wrong(text, "unknown form");
  s.kind = ScheduleKind::kStep;
  if (text.size() == 4) return s;
  const std::string rest = text.substr(5);
  char* end = nullptr;
  s.gamma = std::strtod(rest.c_str(), &end);
  if (end == rest.c_str() || !(s.gamma > 0) || s.gamma > 1) return wrong(text, "GAMMA must be a number in (0, 1]");
  if (*end == '\0') return s;
  if (*end != ',') return wrong(text, "GAMMA and EVERY_EPOCHS are separated by a comma");
  const char* begin = end + 1;
  s.every = std::strtoll(begin, &end, 10);
  if (end == begin || *end != '\0' || s.every < 1) return wrong(text, "EVERY_EPOCHS must be a whole number of at least 1");
  return s;
}

std::string to_string(const Schedule& s) {
  if (s.kind == ScheduleKind::kStep) return cat("step:", s.gamma, ",", s.every);
  return s.kind == ScheduleKind::kCosine ? "cosine" : "constant";
}

}  // namespace eng
