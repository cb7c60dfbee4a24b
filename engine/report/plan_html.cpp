// See plan_html.h. A cell carries the number it is sorted by in data-v.
#include "engine/report/plan_html.h"

#include <fmt/format.h>

#include "engine/report/plan_svg.h"
#include "engine/report/plan_view.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1260px;margin:1.5em auto;padding:0 1em;color:#222}h1{font-size:1.4em;margin-bottom:.2em}h2{font-size:1.1em;margin-top:1.8em}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}td,th{padding:3px 9px;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}"
    "th{cursor:pointer;background:#f5f6f8;white-space:nowrap;position:sticky;top:0}td.t,th.t{text-align:left}td.n{white-space:nowrap;text-align:left}tr.chosen{background:#eaf5ea;font-weight:600}"
    "tr.refused{color:#8a2020}figure{margin:0;overflow-x:auto}.dot{display:inline-block;width:.8em;height:.8em;margin-right:.4em}.scroll{max-height:560px;overflow:auto;border:1px solid #ddd}"
    "input{padding:4px 8px;width:28em;margin:.4em 0}rect:hover{fill-opacity:.75}.facts th{background:none;cursor:default;position:static}";

// Sorting by a column, both ways; a filter over the rows of the table of nodes.
constexpr const char* kScript =
    "document.querySelectorAll('table.sort').forEach(t => t.querySelectorAll('th').forEach((h, c) => h.addEventListener('click', () => {\n"
    "  const up = h.dataset.up !== '1'; h.dataset.up = up ? '1' : '0';\n"
    "  const value = r => { const d = r.cells[c]; return d.dataset.v === undefined ? d.textContent : Number(d.dataset.v); };\n"
    "  const body = t.tBodies[0];\n"
    "  [...body.rows].sort((a, b) => { const x = value(a), y = value(b); const s = x > y ? 1 : y > x ? -1 : 0; return up ? s : -s; }).forEach(r => body.appendChild(r));\n"
    "})));\n"
    "document.querySelectorAll('input.filter').forEach(f => f.addEventListener('input', () => {\n"
    "  const want = f.value.toLowerCase();\n"
    "  document.querySelectorAll('#' + f.dataset.of + ' tbody tr').forEach(r => { r.style.display = r.textContent.toLowerCase().includes(want) ? '' : 'none'; });\n"
    "}));\n";

std::string text_cell(const std::string& text, const char* kind = "t") { return fmt::format("<td class=\"{}\">{}</td>", kind, escaped_xml(text)); }
std::string number_cell(double value, const std::string& text) { return fmt::format("<td data-v=\"{}\">{}</td>", value, text); }
std::string seconds_cell(double seconds) { return number_cell(seconds, seconds > 0 ? seconds_text(seconds) : "0"); }
std::string seconds_cell(const std::optional<Span>& span) { return span ? seconds_cell(span->seconds()) : "<td data-v=\"-1\"></td>"; }
std::string bytes_cell(double bytes) { return number_cell(bytes, bytes_text(static_cast<uint64_t>(bytes))); }
std::string count_cell(size_t count) { return number_cell(static_cast<double>(count), std::to_string(count)); }
std::string device_cell(const Plan& plan, int device) {
  return fmt::format("<td class=\"n\"><span class=\"dot\" style=\"background:{}\"></span>{}</td>", device_colour(device), escaped_xml(device_text(plan, device)));
}

// Headings that begin with '<' are for text, to the left.
std::string table(std::initializer_list<const char*> headings, const std::string& rows, const char* id = "") {
  std::string t = fmt::format("<table class=\"sort\"{}><thead><tr>", *id ? fmt::format(" id=\"{}\"", id) : "");
  for (const char* h : headings) t += *h == '<' ? fmt::format("<th class=\"t\">{}</th>", h + 1) : fmt::format("<th>{}</th>", h);
  return t + "</tr></thead><tbody>\n" + rows + "</tbody></table>\n";
}

std::string facts(const Plan& plan) {
  const std::pair<const char*, std::string> all[] = {
      {"arrangement", arrangement_text(plan)},
      {"step, predicted", seconds_text(plan.seconds) + (plan.batch > 0 && plan.seconds > 0 ? fmt::format(", {:.1f} examples/s", static_cast<double>(plan.batch) / plan.seconds) : "")},
      {"step, measured", plan.measured_seconds ? fmt::format("{} ({})", seconds_text(*plan.measured_seconds), plan.seconds > 0 ? change_text(*plan.measured_seconds / plan.seconds - 1) : "") : ""},
      {"all-reduce", plan.replicas > 1 ? seconds_text(plan.all_reduce_seconds) : ""},
      {"lower bound", bound_text(plan)},
      {"bounds", plan.bound.best() > 0 ? fmt::format("longest path {}, with transfers {}, work spread evenly {}", seconds_text(plan.bound.critical_path), seconds_text(plan.bound.crossings), seconds_text(plan.bound.work)) : ""},
      {"found by", plan.method}};
  std::string t = "<table class=\"facts\"><tbody>\n";
  for (const auto& [name, value] : all)
    if (!value.empty()) t += fmt::format("<tr><th class=\"t\">{}</th>{}</tr>\n", name, text_cell(value));
  return t + "</tbody></table>\n";
}

std::string candidate_table(const Plan& plan) {
  std::string rows;
  for (const PlanCandidate& c : plan.candidates) {
    rows += fmt::format("<tr{}>", c.chosen ? " class=\"chosen\"" : c.fits ? "" : " class=\"refused\"") + text_cell(c.name, "n");
    rows += c.fits ? seconds_cell(c.seconds) + number_cell(c.margin, c.chosen ? "chosen" : change_text(c.margin)) : number_cell(1e30, "") + number_cell(1e30, "refused");
    rows += text_cell(c.note) + "</tr>\n";
  }
  return table({"<candidate", "step", "against the chosen", "<why"}, rows);
}

std::string device_table(const Plan& plan) {
  std::string rows;
  for (int d = 0; d < plan.device_count(); ++d) {
    double kinds[3] = {};
    size_t nodes = 0;
    for (const PlanNode& n : plan.nodes)
      if (n.device == d) ++nodes, kinds[n.phase == Phase::kBackward ? 1 : n.phase == Phase::kUpdate ? 2 : 0] += n.predicted.seconds();
    const double busy = plan.shards_per_replica * (kinds[0] + kinds[1]) + kinds[2];
    rows += "<tr>" + device_cell(plan, d) + count_cell(nodes) + seconds_cell(kinds[0]) + seconds_cell(kinds[1]) + seconds_cell(kinds[2]);
    rows += number_cell(busy, plan.seconds > 0 ? percent_text(busy / plan.seconds) : "");
    if (static_cast<size_t>(d) < plan.memory.size()) {
      const PlanMemory& m = plan.memory[static_cast<size_t>(d)];
      rows += bytes_cell(static_cast<double>(m.resident)) + bytes_cell(static_cast<double>(m.peak)) + (m.limit ? bytes_cell(static_cast<double>(*m.limit)) : number_cell(1e30, "none"));
      rows += m.measured_peak ? bytes_cell(static_cast<double>(*m.measured_peak)) : "<td data-v=\"-1\"></td>";
    } else {
      rows += "<td></td><td></td><td></td><td></td>";
    }
    rows += "</tr>\n";
  }
  return table({"<device", "nodes", "forward", "backward", "update", "busy", "resident", "peak memory", "limit", "measured peak"}, rows);
}

std::string part_table(const Plan& plan, const PlanView& view) {
  std::string rows;
  for (const ViewRow& row : view.rows) {
    for (int g : view.blocks[static_cast<size_t>(row.first)].groups) {
      const ViewGroup& group = view.groups[static_cast<size_t>(g)];
      rows += "<tr>" + text_cell(row.name) + count_cell(static_cast<size_t>(row.count)) + text_cell(group.label) + text_cell(group.operators) + device_cell(plan, group.device);
      rows += seconds_cell(group.seconds[0]) + seconds_cell(group.seconds[1]) + seconds_cell(group.seconds[2]) + number_cell(group.flops, fmt::format("{:.3g}", group.flops * 1e-9));
      rows += text_cell(group.reason) + "</tr>\n";
    }
  }
  return table({"<part", "x", "<group", "<operators", "<device", "forward", "backward", "update", "GFLOP", "<why there"}, rows, "parts");
}

std::string transfer_table(const Plan& plan) {
  std::string rows;
  for (const PlanTransfer& x : plan.transfers) {
    rows += "<tr>" + text_cell(x.value) + text_cell(name_of(x.phase)) + device_cell(plan, x.from) + device_cell(plan, x.to) + bytes_cell(static_cast<double>(x.bytes)) + seconds_cell(x.predicted.start);
    rows += seconds_cell(x.predicted.seconds()) + seconds_cell(x.measured) + "</tr>\n";
  }
  return table({"<value", "<phase", "<from", "<to", "bytes", "starts", "takes", "measured"}, rows, "transfers");
}

std::string node_table(const Plan& plan) {
  std::string rows;
  for (const PlanNode& n : plan.nodes) {
    rows += "<tr>" + text_cell(n.name.empty() ? n.output : n.name) + text_cell(n.op_type) + text_cell(name_of(n.phase)) + device_cell(plan, n.device) + seconds_cell(n.predicted.start);
    rows += seconds_cell(n.predicted.seconds()) + seconds_cell(n.measured) + number_cell(n.flops, fmt::format("{:.3g}", n.flops * 1e-6)) + bytes_cell(n.bytes) + text_cell(n.reason) + "</tr>\n";
  }
  return table({"<node", "<operator", "<phase", "<device", "starts", "takes", "measured", "MFLOP", "moves", "<why there"}, rows, "nodes");
}

std::string scrolled(const char* id, const std::string& what, const std::string& content) {
  return fmt::format("<input class=\"filter\" data-of=\"{}\" placeholder=\"show only {} with this text\"/>\n<div class=\"scroll\">{}</div>\n", id, what, content);
}

}  // namespace

std::string to_html(const Plan& plan, const Graph& step) {
  const std::string title = "plan of '" + plan.graph_name + "'";
  std::string t = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" + escaped_xml(title) + "</title>\n<style>" + kStyle + "</style></head><body>\n<h1>" +
                  escaped_xml(title) + "</h1>\n" + facts(plan);
  t += "<h2>What could be chosen</h2>\n" + candidate_table(plan);
  t += "<h2>Devices</h2>\n" + device_table(plan);
  for (const std::string& picture : {timeline_picture(plan), memory_picture(plan), graph_picture(plan, step)}) t += "<figure style=\"margin-top:2em\">\n" + picture + "</figure>\n";
  t += "<h2>Groups</h2>\n" + scrolled("parts", "groups", part_table(plan, view_of(plan, step)));
  if (!plan.transfers.empty()) t += fmt::format("<h2>Transfers ({})</h2>\n", plan.transfers.size()) + scrolled("transfers", "transfers", transfer_table(plan));
  t += fmt::format("<h2>Nodes ({})</h2>\n", plan.nodes.size()) + scrolled("nodes", "nodes", node_table(plan));
  return t + "<script>\n" + kScript + "</script>\n</body></html>\n";
}

}  // namespace eng
