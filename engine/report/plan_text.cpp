// See plan_text.h.
#include "engine/report/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/report/plan_view.h"
#include "engine/report/plan_words.h"

namespace eng {
namespace {

constexpr int kSparkWidth = 40;
constexpr size_t kMostRows = 22, kMostDevices = 8, kMostCandidates = 8, kMostTransfers = 4, kMostLinks = 4, kNameWidth = 34, kWhyWidth = 108;

std::string time_or_dash(double seconds) { return seconds > 0 ? seconds_text(seconds) : "-"; }

std::string measured_text(double predicted, const std::optional<double>& measured) {
  if (!measured) return "";
  return fmt::format(", measured {}{}", seconds_text(*measured), predicted > 0 ? fmt::format(" ({})", change_text(*measured / predicted - 1)) : "");
}

double last_end(const Plan& plan) {
  double end = 0;
  for (const PlanNode& n : plan.nodes) end = std::max(end, n.predicted.end);
  return end;
}

// The curve's highest value in each of kSparkWidth pieces of the step; full height is the limit, or the highest of all devices.
std::string spark(const PlanMemory& m, double end, uint64_t full) {
  static const char* const levels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<uint64_t> most(kSparkWidth, 0);
  for (size_t i = 0; i < m.curve.size(); ++i) {
    const double from = m.curve[i].time, to = i + 1 < m.curve.size() ? m.curve[i + 1].time : end;
    const auto place = [&](double t) { return std::clamp(static_cast<int>(end > 0 ? t / end * kSparkWidth : 0), 0, kSparkWidth - 1); };
    for (int x = place(from); x <= place(to); ++x) most[static_cast<size_t>(x)] = std::max(most[static_cast<size_t>(x)], m.curve[i].bytes);
  }
  std::string t;
  for (uint64_t bytes : most) t += levels[full > 0 ? std::clamp<uint64_t>((bytes * 8 + full - 1) / full, 0, 8) : 0];
  return t;
}

std::string more(size_t count, const char* what) { return count > 0 ? fmt::format("  and {} more {}\n", count, what) : ""; }

std::string head(const Plan& plan) {
  double kinds[3] = {};
  for (const PlanNode& n : plan.nodes) kinds[n.phase == Phase::kBackward ? 1 : n.phase == Phase::kUpdate ? 2 : 0] += n.predicted.seconds();
  std::string t = fmt::format("plan of '{}', {}\n", plan.graph_name, arrangement_text(plan));
  t += fmt::format("step         {} predicted{}; work of a shard: forward {}, backward {}; update {}", seconds_text(plan.seconds),
                   measured_text(plan.seconds, plan.measured_seconds), time_or_dash(kinds[0]), time_or_dash(kinds[1]), time_or_dash(kinds[2]));
  if (plan.replicas > 1) t += fmt::format("; all-reduce {}", seconds_text(plan.all_reduce_seconds));
  if (plan.batch > 0 && plan.seconds > 0) t += fmt::format("; {:.1f} examples/s", static_cast<double>(plan.batch) / plan.seconds);
  t += "\nlower bound  " + bound_text(plan) + "\n";
  if (plan.bound.best() > 0)
    t += fmt::format("             longest path {}, with transfers {}, work spread evenly {}\n", seconds_text(plan.bound.critical_path), seconds_text(plan.bound.crossings),
                     seconds_text(plan.bound.work));
  return t + "found by     " + plan.method + "\n";
}

// Devices that do equally well, or badly, alone: so many after the i-th candidate.
size_t alike_after(const std::vector<PlanCandidate>& all, size_t i) {
  const auto alone = [](const PlanCandidate& c) { return c.name.ends_with(" alone") && !c.chosen; };
  size_t end = i + 1;
  while (alone(all[i]) && end < all.size() && alone(all[end]) && all[end].fits == all[i].fits && all[end].seconds == all[i].seconds) ++end;
  return end - i - 1;
}

std::string candidates(const Plan& plan) {
  std::string t = "\nwhat could be chosen              step       against the chosen one\n";
  size_t shown = 0, left = 0;
  for (size_t i = 0; i < plan.candidates.size(); ++i) {
    const PlanCandidate& c = plan.candidates[i];
    if (!c.chosen && shown >= kMostCandidates) {
      ++left;
      continue;
    }
    ++shown;
    std::string name = c.name;
    if (const size_t alike = alike_after(plan.candidates, i); alike > 0) {
      name = name.substr(0, name.size() - 6) + " .. " + plan.candidates[i + alike].name;
      i += alike;
    }
    std::string verdict = c.chosen ? "chosen" : !c.fits ? "refused" : change_text(c.margin);
    const std::string note = c.note.substr(0, c.note.find('\n'));
    if (!note.empty()) verdict += ": " + note;
    t += fmt::format("{} {:<30} {:>9}   {}\n", c.chosen ? ">" : " ", shortened(name, 30), c.fits ? seconds_text(c.seconds) : "-", shortened(verdict, 76));
  }
  return t + more(left, "candidates");
}

std::string devices(const Plan& plan) {
  const double end = last_end(plan);
  uint64_t highest = 0;
  int width = 22;
  for (const PlanMemory& m : plan.memory) highest = std::max(highest, m.peak), width = m.measured_peak ? 40 : width;
  std::string t = fmt::format("\n{:<20} {:>6} {:>8}  {:<{}} memory during the step\n", plan.replicas > 1 ? "device (of replicas)" : "device", "nodes", "busy", "peak memory", width);
  const size_t count = static_cast<size_t>(plan.device_count());
  for (size_t d = 0; d < std::min(count, kMostDevices); ++d) {
    size_t nodes = 0;
    double busy = 0;
    for (const PlanNode& n : plan.nodes) {
      if (n.device != static_cast<int>(d)) continue;
      ++nodes;
      busy += n.predicted.seconds() * (n.phase == Phase::kUpdate ? 1 : plan.shards_per_replica);
    }
    std::string memory, curve;
    if (d < plan.memory.size()) {
      const PlanMemory& m = plan.memory[d];
      memory = bytes_text(m.peak) + (m.limit ? " of " + bytes_text(*m.limit) : "");
      if (m.measured_peak) memory += fmt::format(", measured {}", bytes_text(*m.measured_peak));
      curve = "|" + spark(m, end, m.limit ? *m.limit : highest) + "|" + (m.limit ? " full: its limit" : "");
    }
    t += fmt::format("{:<20} {:>6} {:>8}  {:<{}} {}\n", shortened(device_text(plan, static_cast<int>(d)), 20), nodes, plan.seconds > 0 ? percent_text(busy / plan.seconds) : "-", memory, width, curve);
  }
  return t + more(count - std::min(count, kMostDevices), "devices");
}

// What a row's groups do, by device: "cpu:0 62 %, cpu:1 38 %".
std::string places(const Plan& plan, const std::map<int, double>& by_device, double total) {
  std::string t;
  std::vector<std::pair<double, int>> order;
  for (auto [d, seconds] : by_device) order.emplace_back(-seconds, d);
  std::sort(order.begin(), order.end());
  for (auto [seconds, d] : order) {
    t += (t.empty() ? "" : ", ") + device_text(plan, d);
    if (order.size() > 1) t += fmt::format(" {:.0f} %", total > 0 ? -100 * seconds / total : 0);
  }
  return t;
}

std::string rows(const Plan& plan, const Graph& step) {
  const PlanView view = view_of(plan, step);
  std::string t = fmt::format("\n{:<{}} {:>3}  {:<26} {:>9} {:>9} {:>9} {:>8}\n", "part (times of one of the x)", kNameWidth, "x", "runs on", "forward", "backward", "update", "GFLOP");
  size_t shown = 0;
  std::map<std::string, int> said;  // reasons, so that the same one is not given again and again
  for (const ViewRow& row : view.rows) {
    if (++shown > kMostRows) continue;
    double kinds[3] = {}, flops = 0, most = -1;
    std::map<int, double> by_device;
    const ViewGroup* costliest = nullptr;
    for (int g : view.blocks[static_cast<size_t>(row.first)].groups) {
      const ViewGroup& group = view.groups[static_cast<size_t>(g)];
      for (int k = 0; k < 3; ++k) kinds[k] += group.seconds[k];
      flops += group.flops;
      by_device[group.device] += group.total();
      if (group.total() > most) most = group.total(), costliest = &group;
    }
    t += fmt::format("{:<{}} {:>3}  {:<26} {:>9} {:>9} {:>9} {:>8.3g}\n", shortened(row.name, kNameWidth), kNameWidth, row.count,
                     shortened(places(plan, by_device, kinds[0] + kinds[1] + kinds[2]), 26), time_or_dash(kinds[0]), time_or_dash(kinds[1]), time_or_dash(kinds[2]), flops * 1e-9);
    if (plan.device_count() > 1 && costliest && said[costliest->reason]++ == 0)
      t += shortened(fmt::format("    '{}' {}: {}", costliest->label, plan.device(costliest->device).name, costliest->reason), kWhyWidth + 12) + "\n";
  }
  return t + more(view.rows.size() - std::min(view.rows.size(), kMostRows), "parts");
}

std::string transfers(const Plan& plan) {
  if (plan.transfers.empty()) return plan.device_count() > 1 ? "\ntransfers    none\n" : "";
  struct Link {
    size_t count = 0;
    uint64_t bytes = 0;
    double seconds = 0;
  };
  std::map<std::pair<int, int>, Link> links;
  uint64_t total = 0;
  for (const PlanTransfer& x : plan.transfers) {
    Link& l = links[{x.from, x.to}];
    ++l.count, l.bytes += x.bytes, l.seconds += x.predicted.seconds();
    total += x.bytes;
  }
  std::string t = fmt::format("\ntransfers    {} with {} for a shard\n", plan.transfers.size(), bytes_text(total));
  std::vector<std::pair<std::pair<int, int>, Link>> busiest(links.begin(), links.end());
  std::stable_sort(busiest.begin(), busiest.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  for (size_t i = 0; i < std::min(busiest.size(), kMostLinks); ++i) {
    const auto& [ends, l] = busiest[i];
    t += fmt::format("  {} -> {}  {} with {}, {} on the way\n", plan.device(ends.first).name, plan.device(ends.second).name, l.count, bytes_text(l.bytes), seconds_text(l.seconds));
  }
  t += more(busiest.size() - std::min(busiest.size(), kMostLinks), "links");
  std::vector<const PlanTransfer*> biggest;
  for (const PlanTransfer& x : plan.transfers) biggest.push_back(&x);
  std::stable_sort(biggest.begin(), biggest.end(), [](auto* a, auto* b) { return a->bytes > b->bytes; });
  t += "the biggest\n";
  for (size_t i = 0; i < std::min(biggest.size(), kMostTransfers); ++i) {
    const PlanTransfer& x = *biggest[i];
    t += fmt::format("  {:>8}  {} -> {}  {:>9}  {:<8} {}\n", bytes_text(x.bytes), plan.device(x.from).name, plan.device(x.to).name, seconds_text(x.predicted.seconds()), name_of(x.phase),
                     shortened(x.value, 70));
  }
  return t;
}

// The nodes whose measured time lies farthest from the predicted one.
std::string surprises(const Plan& plan) {
  std::vector<const PlanNode*> measured;
  for (const PlanNode& n : plan.nodes)
    if (n.measured) measured.push_back(&n);
  if (measured.empty()) return "";
  const auto off = [](const PlanNode* n) { return n->measured->seconds() - n->predicted.seconds(); };
  std::stable_sort(measured.begin(), measured.end(), [&](auto* a, auto* b) { return std::abs(off(a)) > std::abs(off(b)); });
  std::string t = fmt::format("\nmeasured     {} of {} nodes; farthest from the prediction:\n", measured.size(), plan.nodes.size());
  for (size_t i = 0; i < std::min<size_t>(measured.size(), 3); ++i) {
    const PlanNode& n = *measured[i];
    t += fmt::format("  {:<48} {:<8} predicted {:>8}, measured {:>8}\n", shortened(n.name.empty() ? n.output : n.name, 48), name_of(n.phase), seconds_text(n.predicted.seconds()),
                     seconds_text(n.measured->seconds()));
  }
  return t;
}

}  // namespace

std::string to_text(const Plan& plan, const Graph& step) {
  return head(plan) + candidates(plan) + devices(plan) + rows(plan, step) + transfers(plan) + surprises(plan);
}

}  // namespace eng
