// See plan_svg.h: timeline, memory, and all pictures together. The graph is in plan_svg_graph.cpp.
#include "engine/report/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr double kLeft = 130, kWidth = 1060, kRight = 20;
constexpr double kTotal = kLeft + kWidth + kRight;

std::string opened(double width, double height) {
  return fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n", width, height,
                     width, height);
}

std::string text_at(double x, double y, const std::string& text, const char* more = "") { return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escaped_xml(text)); }

double end_of(const Plan& plan) {
  double end = plan.shards_per_replica > 1 ? 0 : std::max(plan.seconds, plan.measured_seconds.value_or(0));
  for (const PlanNode& n : plan.nodes) end = std::max({end, n.predicted.end, n.measured ? n.measured->end : 0});
  for (const PlanTransfer& x : plan.transfers) end = std::max({end, x.predicted.end, x.measured ? x.measured->end : 0});
  return end;
}

// A round step of which four to nine fit.
double tick_of(double end) {
  if (!(end > 0)) return 1;
  const double rough = end / 8, power = std::pow(10, std::floor(std::log10(rough)));
  for (double f : {1.0, 2.0, 5.0})
    if (f * power >= rough) return f * power;
  return 10 * power;
}

std::string axis(double end, double top, double bottom) {
  std::string t;
  const double step = tick_of(end);
  for (double at = 0; at <= end * (1 + 1e-9); at += step) {
    const double x = kLeft + (end > 0 ? at / end : 0) * kWidth;
    t += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#e2e2e2\"/>\n", x, top, bottom);
    t += text_at(x, bottom + 14, at == 0 ? "0" : seconds_text(at), "text-anchor=\"middle\" fill=\"#666\"");
  }
  return t;
}

// Nodes of one group and phase that follow each other on a device.
struct Bar {
  const PlanNode* first;
  Span span;
  size_t nodes;
};

std::vector<Bar> bars_of(const Plan& plan, int device, bool measured) {
  std::vector<Bar> bars;
  for (const PlanNode& n : plan.nodes) {
    if (n.device != device || (measured && !n.measured)) continue;
    const Span span = measured ? *n.measured : n.predicted;
    if (!bars.empty() && bars.back().first->group == n.group && bars.back().first->phase == n.phase) {
      bars.back().span = {std::min(bars.back().span.start, span.start), std::max(bars.back().span.end, span.end)};
      ++bars.back().nodes;
      if (n.flops > bars.back().first->flops) bars.back().first = &n;
    } else {
      bars.push_back({&n, span, 1});
    }
  }
  return bars;
}

class TimelineDrawing {
 public:
  explicit TimelineDrawing(const Plan& plan) : plan_(plan), end_(end_of(plan)) {
    for (const PlanNode& n : plan.nodes) measured_ |= n.measured.has_value();
  }

  std::string draw() {
    const int devices = plan_.device_count();
    const double bottom = kTop + devices * pitch() - kGap + 8;
    std::string t = opened(kTotal, bottom + 46);
    t += text_at(0, 14, "timeline", "font-size=\"14\" font-weight=\"bold\"");
    std::string note = plan_.shards_per_replica > 1 ? fmt::format("one of {} shards of a step of {}", plan_.shards_per_replica, seconds_text(plan_.seconds)) : "one step of " + seconds_text(plan_.seconds);
    if (plan_.replicas > 1) note += fmt::format(", one of {} replicas", plan_.replicas);
    t += text_at(kLeft, 14, note, "fill=\"#555\"");
    t += axis(end_, kTop - 6, bottom);
    for (int d = 0; d < devices; ++d) t += lane(d);
    for (const PlanTransfer& x : plan_.transfers) t += transfer(x);
    if (plan_.shards_per_replica == 1) {
      t += mark(plan_.bound.best(), "lower bound " + seconds_text(plan_.bound.best()), "#b00020", kTop - 10, bottom);
      if (plan_.measured_seconds) t += mark(*plan_.measured_seconds, "measured " + seconds_text(*plan_.measured_seconds), "#333333", kTop - 22, bottom);
    }
    return t + legend(bottom + 38) + "</svg>\n";
  }

 private:
  static constexpr double kTop = 52, kBar = 26, kThin = 9, kGap = 26;
  double pitch() const { return kBar + (measured_ ? kThin + 2 : 0) + kGap; }
  double x_of(double time) const { return kLeft + (end_ > 0 ? time / end_ : 0) * kWidth; }
  double y_of(int device) const { return kTop + device * pitch(); }

  std::string lane(int device) const {
    const double y = y_of(device);
    std::string t = fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"12\" height=\"{}\" fill=\"{}\"/>\n", y, kBar, device_colour(device));
    t += text_at(18, y + 17, shortened(device_text(plan_, device), 18), "font-weight=\"bold\"");
    t += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"#f4f4f4\"/>\n", kLeft, y, kWidth, kBar);
    t += bars(device, false, y, kBar);
    if (measured_) t += bars(device, true, y + kBar + 2, kThin) + text_at(kLeft - 4, y + kBar + kThin + 1, "measured", "text-anchor=\"end\" fill=\"#666\" font-size=\"9\"");
    if (plan_.replicas > 1) t += all_reduce(device, y);
    return t;
  }

  std::string bars(int device, bool measured, double y, double height) const {
    std::string t;
    for (const Bar& b : bars_of(plan_, device, measured)) {
      const double width = x_of(b.span.end) - x_of(b.span.start);
      if (width <= 0) continue;
      const PlanNode& n = *b.first;
      t += fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"{}><title>{}</title></rect>\n", x_of(b.span.start), y, width, height, phase_colour(n.phase),
                       width > 3 ? " stroke=\"#fff\" stroke-width=\"0.6\"" : "",
                       escaped_xml(fmt::format("{} ({}, {} nodes)\n{} {}, {} to {}\n{}", n.name.empty() ? n.output : n.name, n.op_type, b.nodes, name_of(n.phase), seconds_text(b.span.seconds()),
                                               seconds_text(b.span.start), seconds_text(b.span.end), n.reason)));
    }
    return t;
  }

  // Between a device's last backward node and its first update node.
  std::string all_reduce(int device, double y) const {
    double from = 0, to = end_;
    for (const PlanNode& n : plan_.nodes) {
      if (n.device != device) continue;
      if (n.phase == Phase::kUpdate) to = std::min(to, n.predicted.start);
      else from = std::max(from, n.predicted.end);
    }
    const double width = x_of(to) - x_of(from);
    if (width <= 0.5) return "";
    return fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"#d8d8d8\" stroke=\"#888\"><title>all-reduce over {} replicas, {}</title></rect>\n", x_of(from), y, width, kBar,
                       plan_.replicas, seconds_text(plan_.all_reduce_seconds));
  }

  std::string transfer(const PlanTransfer& x) const {
    const bool down = x.to > x.from;
    const double y1 = y_of(x.from) + (down ? kBar : 0), y2 = y_of(x.to) + (down ? 0 : kBar);
    return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.1f}\" x2=\"{:.2f}\" y2=\"{:.1f}\" stroke=\"#b00020\" stroke-opacity=\"0.55\" stroke-width=\"{:.1f}\"><title>{}</title></line>\n", x_of(x.predicted.start), y1,
                       x_of(x.predicted.end), y2, std::clamp(static_cast<double>(x.bytes) / 8e6, 0.8, 4.0),
                       escaped_xml(fmt::format("{}\n{} {} -> {}, {}, {}", x.value, name_of(x.phase), plan_.device(x.from).name, plan_.device(x.to).name, bytes_text(x.bytes), seconds_text(x.predicted.seconds()))));
  }

  std::string mark(double time, const std::string& text, const char* colour, double y, double bottom) const {
    if (!(time > 0) || time > end_ * 1.0001) return "";
    const double x = x_of(time);
    return fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"/>\n", x, y, bottom, colour) +
           text_at(x - 4, y + 2, text, fmt::format("text-anchor=\"end\" fill=\"{}\"", colour).c_str());
  }

  std::string legend(double y) const {
    std::string t;
    double x = kLeft;
    const auto entry = [&](const char* colour, const std::string& word) {
      t += fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"10\" fill=\"{}\"/>\n", x, y - 9, colour) + text_at(x + 17, y, word);
      x += 100;
    };
    for (Phase p : {Phase::kForward, Phase::kLoss, Phase::kBackward, Phase::kUpdate}) entry(phase_colour(p), name_of(p));
    if (plan_.replicas > 1) entry("#d8d8d8", "all-reduce");
    if (!plan_.transfers.empty()) entry("#b00020", "transfer");
    return t;
  }

  const Plan& plan_;
  const double end_;
  bool measured_ = false;
};

}  // namespace

std::string timeline_picture(const Plan& plan) { return TimelineDrawing(plan).draw(); }

std::string memory_picture(const Plan& plan) {
  constexpr double kHeight = 84, kPitch = 118, kTop = 34;
  const double end = end_of(plan);
  uint64_t highest = 1;
  for (const PlanMemory& m : plan.memory) highest = std::max({highest, m.peak, m.measured_peak.value_or(0)});
  // One scale for all; a limit far above everything is only named, so that the curves stay readable.
  uint64_t scale = highest;
  for (const PlanMemory& m : plan.memory)
    if (m.limit && *m.limit <= 2 * highest) scale = std::max(scale, *m.limit);
  std::string t = opened(kTotal, kTop + static_cast<double>(plan.memory.size()) * kPitch);
  t += text_at(0, 14, "memory", "font-size=\"14\" font-weight=\"bold\"");
  t += text_at(kLeft, 14, "bytes alive over the step, all devices on one scale; resident (dashed): weights and optimiser", "fill=\"#555\"");
  for (size_t d = 0; d < plan.memory.size(); ++d) {
    const PlanMemory& m = plan.memory[d];
    const double top = kTop + static_cast<double>(d) * kPitch, bottom = top + kHeight;
    const auto y_of = [&](uint64_t bytes) { return bottom - static_cast<double>(bytes) / (1.06 * static_cast<double>(scale)) * kHeight; };
    const auto x_of = [&](double time) { return kLeft + (end > 0 ? time / end : 0) * kWidth; };
    t += axis(end, top, bottom);
    std::string points = fmt::format("{:.1f},{:.1f}", kLeft, bottom);
    for (size_t i = 0; i < m.curve.size(); ++i) {
      const double until = i + 1 < m.curve.size() ? m.curve[i + 1].time : end;
      points += fmt::format(" {:.1f},{:.1f} {:.1f},{:.1f}", x_of(m.curve[i].time), y_of(m.curve[i].bytes), x_of(until), y_of(m.curve[i].bytes));
    }
    t += fmt::format("<polygon points=\"{} {:.1f},{:.1f}\" fill=\"{}\" stroke=\"#445\" stroke-width=\"0.7\"/>\n", points, x_of(end), bottom, device_colour(static_cast<int>(d)));
    const auto level = [&](uint64_t bytes, const char* colour, const std::string& words, bool above) {
      return fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-dasharray=\"5 3\"/>\n", kLeft, kLeft + kWidth, y_of(bytes), y_of(bytes), colour) +
             text_at(kLeft + kWidth - 4, y_of(bytes) + (above ? -3 : 11), words, fmt::format("text-anchor=\"end\" fill=\"{}\"", colour).c_str());
    };
    t += level(m.resident, "#445566", "", true);
    if (m.limit && *m.limit <= scale) t += level(*m.limit, "#b00020", "limit " + bytes_text(*m.limit), false);
    if (m.measured_peak) t += level(*m.measured_peak, "#222222", "measured peak " + bytes_text(*m.measured_peak), true);
    t += fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"12\" height=\"26\" fill=\"{}\"/>\n", top, device_colour(static_cast<int>(d)));
    t += text_at(18, top + 17, shortened(device_text(plan, static_cast<int>(d)), 18), "font-weight=\"bold\"");
    t += text_at(0, top + 44, "peak " + bytes_text(m.peak));
    t += text_at(0, top + 59, m.limit ? "limit " + bytes_text(*m.limit) : "no limit", "fill=\"#666\"");
    t += text_at(0, top + 74, "resident " + bytes_text(m.resident), "fill=\"#666\"");
  }
  return t + "</svg>\n";
}

std::string to_svg(const Plan& plan, const Graph& step) {
  const std::string pictures[] = {timeline_picture(plan), memory_picture(plan), graph_picture(plan, step)};
  double width = 0, y = 78;
  std::string inner;
  for (const std::string& p : pictures) {
    const auto size = [&](const char* name) { return std::strtod(p.c_str() + p.find(name) + std::string(name).size(), nullptr); };
    width = std::max(width, size(" width=\""));
    inner += fmt::format("<g transform=\"translate(20,{:.0f})\">\n{}</g>\n", y, p);
    y += size(" height=\"") + 24;
  }
  std::string t = opened(width + 40, y) + fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", width + 40, y);
  t += text_at(20, 26, fmt::format("plan of '{}'", plan.graph_name), "font-size=\"17\" font-weight=\"bold\"");
  t += text_at(20, 45, arrangement_text(plan) + "; found by: " + plan.method, "font-size=\"12\"");
  t += text_at(20, 62, fmt::format("step {} predicted{}; lower bound {}", seconds_text(plan.seconds), plan.measured_seconds ? ", measured " + seconds_text(*plan.measured_seconds) : "", bound_text(plan)), "font-size=\"12\"");
  return t + inner + "</svg>\n";
}

}  // namespace eng
