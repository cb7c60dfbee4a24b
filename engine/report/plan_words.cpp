// See plan_words.h.
#include "engine/report/plan_words.h"

#include <fmt/format.h>

namespace eng {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kLoss: return "loss";
    case Phase::kBackward: return "backward";
    case Phase::kUpdate: return "update";
  }
  return "";
}

std::string percent_text(double part) { return fmt::format("{:.1f} %", 100 * part); }
std::string change_text(double part) { return fmt::format("{:+.1f} %", 100 * part); }

std::string escaped_xml(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string device_text(const Plan& plan, int device) {
  if (plan.replicas < 2) return plan.device(device).name;
  const auto name = [&](const std::vector<int>& replica) { return plan.machine.devices[static_cast<size_t>(replica[static_cast<size_t>(device)])].name; };
  return name(plan.replica_devices.front()) + (plan.replicas > 2 ? " | .. | " : " | ") + name(plan.replica_devices.back());
}

const char* device_colour(int device) {
  static const char* const colours[] = {"#7fb2e5", "#f5b26b", "#8fcf8f", "#e59aa8", "#b9a3e3", "#d9c24e", "#79cdc5", "#c7a98b"};
  return colours[static_cast<size_t>(device) % std::size(colours)];
}

const char* phase_colour(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "#5b93cc";
    case Phase::kLoss: return "#d9764a";
    case Phase::kBackward: return "#6aab5e";
    case Phase::kUpdate: return "#9a6fb8";
  }
  return "#888888";
}

std::string arrangement_text(const Plan& plan) {
  std::string devices;
  for (const DeviceSpec& d : plan.machine.devices) devices += (devices.empty() ? "" : ", ") + d.name;
  const int split = plan.device_count();
  std::string t = plan.batch > 0 ? fmt::format("batch {} on {}: ", plan.batch, devices) : devices + ": ";
  t += plan.replicas == 1 ? (split == 1 ? "one device computes" : fmt::format("one replica of {} devices", split))
                          : fmt::format("{} replicas of {} device{}", plan.replicas, split, split == 1 ? "" : "s");
  return t + fmt::format(", {} shard{}{}", plan.shards_per_replica, plan.shards_per_replica == 1 ? "" : "s", plan.replicas > 1 ? " each" : "");
}

std::string bound_text(const Plan& plan) {
  const PlanBound& b = plan.bound;
  if (b.best() <= 0) return "no lower bound";
  const char* which = b.best() == b.work ? "all work spread evenly over the devices" : b.best() == b.crossings ? "the longest path with the transfers on it" : "the longest path";
  return fmt::format("{} ({}); the plan is {} above it", seconds_text(b.best()), which, percent_text(plan.gap()));
}

}  // namespace eng
