// See html_report.h. A curve is a polyline in a 560 x 220 frame with three grid lines a side.
#include "engine/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

struct Curve {
  const char* name;
  const char* colour;
  std::vector<std::pair<double, double>> points;  // epoch, value
};

std::string chart(const std::string& title, const std::vector<Curve>& curves) {
  constexpr double kLeft = 60, kTop = 12, kWidth = 480, kHeight = 170;
  double low = INFINITY, high = -INFINITY, first = INFINITY, last = -INFINITY;
  for (const Curve& c : curves) {
    for (const auto& [x, y] : c.points) low = std::min(low, y), high = std::max(high, y), first = std::min(first, x), last = std::max(last, x);
  }
  if (!(high >= low)) return "";
  if (high - low < 1e-12) high += 0.5 * std::max(1e-6, std::fabs(high)), low -= 0.5 * std::max(1e-6, std::fabs(low));
  const double span = std::max(last - first, 1e-9);
  const auto x_of = [&](double x) { return kLeft + (last > first ? (x - first) / span : 0.5) * kWidth; };
  const auto y_of = [&](double y) { return kTop + (high - y) / (high - low) * kHeight; };
  std::string svg = fmt::format("<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 560 220\" role=\"img\" aria-label=\"{}\">\n", escaped_xml(title), escaped_xml(title));
  for (int i = 0; i <= 4; ++i) {
    const double value = low + (high - low) * i / 4, y = y_of(value);
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"grid\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.4g}</text>\n", kLeft,
                       kLeft + kWidth, y, y, kLeft - 6, y + 4, value);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\">{:.0f}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">epoch {:.0f}</text>\n", kLeft, kTop + kHeight + 18, first,
                     kLeft + kWidth, kTop + kHeight + 18, last);
  double legend = kLeft + 90;
  for (const Curve& c : curves) {
    if (c.points.empty()) continue;
    std::string path, dots;
    for (const auto& [x, y] : c.points) {
      path += fmt::format("{:.1f},{:.1f} ", x_of(x), y_of(y));
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} {:.6g} (epoch {:.0f})</title></circle>", x_of(x), y_of(y), c.colour, c.name, y, x);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>{}\n<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", path, c.colour,
                       dots, legend, kTop + kHeight + 12, c.colour, legend + 17, kTop + kHeight + 18, c.name);
    legend += 110;
  }
  return svg + "</svg></figure>\n";
}

std::vector<std::pair<double, double>> points_of(const std::vector<EpochRecord>& epochs, const std::string& metric) {
  std::vector<std::pair<double, double>> points;
  for (const EpochRecord& e : epochs) {
    const auto v = e.metric(metric);
    if (v && std::isfinite(*v)) points.emplace_back(static_cast<double>(e.epoch + 1), *v);
  }
  return points;
}

std::string optional_cell(const std::optional<double>& value) { return value ? fmt::format("<td>{:.4g}</td>", *value) : "<td></td>"; }

std::string epoch_table(const std::vector<EpochRecord>& epochs) {
  std::string t = "<table><tr><th>epoch</th><th>loss</th><th>accuracy</th><th>val_loss</th><th>val_accuracy</th><th>rate</th><th>seconds</th><th>samples/s</th></tr>\n";
  for (const EpochRecord& e : epochs) {
    t += fmt::format("<tr{}><td>{}</td><td>{:.4g}</td>{}{}{}<td>{:.3g}</td><td>{:.1f}</td><td>{:.1f}</td></tr>\n", e.best ? " class=\"best\"" : "", e.epoch + 1, e.loss,
                     optional_cell(e.accuracy), optional_cell(e.val_loss), optional_cell(e.val_accuracy), e.rate, e.seconds, e.samples_per_second);
  }
  return t + "</table>\n";
}

std::string confusion_table(const HtmlReport& r) {
  const auto name = [&](size_t i) { return i < r.classes.size() ? escaped_xml(r.classes[i]) : std::to_string(i); };
  std::string t = "<h2>Confusion matrix (validation data)</h2>\n<p>Rows are labels, columns predictions.</p>\n<table class=\"confusion\"><tr><th></th>";
  for (size_t i = 0; i < r.confusion.size(); ++i) t += "<th>" + name(i) + "</th>";
  t += "<th>recall</th></tr>\n";
  for (size_t i = 0; i < r.confusion.size(); ++i) {
    int64_t total = 0;
    for (int64_t n : r.confusion[i]) total += n;
    t += "<tr><th>" + name(i) + "</th>";
    for (size_t k = 0; k < r.confusion[i].size(); ++k) {
      const double part = total ? static_cast<double>(r.confusion[i][k]) / static_cast<double>(total) : 0;
      t += fmt::format("<td style=\"background:rgba({},{:.2f})\">{}</td>", i == k ? "46,125,50" : "198,40,40", part, r.confusion[i][k]);
    }
    t += total ? fmt::format("<td>{:.3f}</td></tr>\n", static_cast<double>(r.confusion[i][i]) / static_cast<double>(total)) : "<td></td></tr>\n";
  }
  return t + "</table>\n";
}

}  // namespace

std::string to_html(const HtmlReport& r) {
  std::string t = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped_xml(r.title) + "</title>\n<style>"
      "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}"
      "table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:3px 10px;border-bottom:1px solid #ddd;text-align:right}"
      "table.facts td,table.facts th{text-align:left}tr.best{background:#eef7ee}figure{display:inline-block;width:560px;max-width:100%;margin:0}"
      "svg text{font:11px sans-serif;fill:#444}.grid{stroke:#e4e4e4}pre{background:#f6f6f6;padding:1em;overflow:auto}</style></head><body>\n<h1>" + escaped_xml(r.title) + "</h1>\n";
  t += "<table class=\"facts\">\n";
  for (const auto& [name, value] : r.facts) t += "<tr><th>" + escaped_xml(name) + "</th><td>" + escaped_xml(value) + "</td></tr>\n";
  t += "</table>\n<h2>Curves</h2>\n";
  t += chart("loss", {{"training", "#1565c0", points_of(r.epochs, "loss")}, {"validation", "#d84315", points_of(r.epochs, "val_loss")}});
  t += chart("accuracy", {{"training", "#1565c0", points_of(r.epochs, "accuracy")}, {"validation", "#d84315", points_of(r.epochs, "val_accuracy")}});
  t += "<h2>Epochs</h2>\n" + epoch_table(r.epochs);
  if (!r.confusion.empty()) t += confusion_table(r);
  if (!r.options.empty()) t += "<h2>Options</h2>\n<pre>" + escaped_xml(r.options) + "</pre>\n";
  return t + "</body></html>\n";
}

Result<std::vector<EpochRecord>> read_epochs(const std::string& path) {
  ENG_ASSIGN(const std::string text, read_text_file(path, int64_t{4} << 30));
  std::vector<EpochRecord> epochs;
  const auto number = [](const nlohmann::json& j, const char* name) -> std::optional<double> {
    const auto found = j.find(name);
    if (found == j.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto j = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!j.is_object() || j.value("kind", "") != "epoch") continue;
    EpochRecord e;
    e.epoch = static_cast<int64_t>(number(j, "epoch").value_or(1)) - 1;
    e.step = static_cast<int64_t>(number(j, "step").value_or(0));
    e.loss = number(j, "loss").value_or(NAN);
    e.accuracy = number(j, "accuracy");
    e.val_loss = number(j, "val_loss");
    e.val_accuracy = number(j, "val_accuracy");
    e.rate = number(j, "lr").value_or(0);
    e.seconds = number(j, "seconds").value_or(0);
    e.samples_per_second = number(j, "images_per_s").value_or(0);
    e.best = j.value("best", false);
    epochs.push_back(e);
  }
  return epochs;
}

}  // namespace eng
