// See plan_json.h. Reading is in plan_json_read.cpp.
#include "engine/report/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/report/plan_words.h"

namespace eng {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }
// The shortest text that reads back to the same number.
std::string number(double value) { return nlohmann::json(value).dump(); }

std::string span(const Span& s) { return "[" + number(s.start) + ", " + number(s.end) + "]"; }

// "name": [ one entry a line ]
void add_list(std::string& out, const char* name, const std::vector<std::string>& entries, const char* indent = "  ") {
  out += fmt::format("{}\"{}\": [", indent, name);
  for (size_t i = 0; i < entries.size(); ++i) out += fmt::format("{}\n{}  {}", i ? "," : "", indent, entries[i]);
  out += entries.empty() ? "]" : fmt::format("\n{}]", indent);
}

std::string device_entry(const DeviceSpec& d) {
  std::string t = "{\"name\": " + quoted(d.name);
  if (d.memory_limit) t += fmt::format(", \"memory_limit\": {}", *d.memory_limit);
  return t + ", \"flops_per_second\": " + number(d.flops_per_second) + ", \"bytes_per_second\": " + number(d.bytes_per_second) + "}";
}

std::string node_entry(const Plan& plan, const PlanNode& n) {
  std::string t = fmt::format("{{\"output\": {}, \"device\": {}, \"phase\": \"{}\", \"op\": {}, \"name\": {}, \"group\": {}, \"predicted\": {}", quoted(n.output),
                              quoted(plan.device(n.device).name), name_of(n.phase), quoted(n.op_type), quoted(n.name), n.group, span(n.predicted));
  if (n.measured) t += ", \"measured\": " + span(*n.measured);
  return t + ", \"flops\": " + number(n.flops) + ", \"bytes\": " + number(n.bytes) + ", \"reason\": " + quoted(n.reason) + "}";
}

std::string transfer_entry(const Plan& plan, const PlanTransfer& x) {
  std::string t = fmt::format("{{\"value\": {}, \"phase\": \"{}\", \"bytes\": {}, \"from\": {}, \"to\": {}, \"predicted\": {}", quoted(x.value), name_of(x.phase), x.bytes,
                              quoted(plan.device(x.from).name), quoted(plan.device(x.to).name), span(x.predicted));
  return t + (x.measured ? ", \"measured\": " + span(*x.measured) : "") + "}";
}

std::string memory_entry(const Plan& plan, size_t device) {
  const PlanMemory& m = plan.memory[device];
  std::string t = fmt::format("{{\"device\": {}, \"resident\": {}, \"peak\": {}", quoted(plan.device(static_cast<int>(device)).name), m.resident, m.peak);
  if (m.limit) t += fmt::format(", \"limit\": {}", *m.limit);
  if (m.measured_peak) t += fmt::format(", \"measured_peak\": {}", *m.measured_peak);
  t += ", \"curve\": [";
  for (size_t i = 0; i < m.curve.size(); ++i) t += fmt::format("{}[{}, {}]", i ? ", " : "", number(m.curve[i].time), m.curve[i].bytes);
  return t + "]}";
}

std::string candidate_entry(const PlanCandidate& c) {
  return fmt::format("{{\"name\": {}, \"fits\": {}, \"chosen\": {}, \"seconds\": {}, \"margin\": {}, \"note\": {}}}", quoted(c.name), c.fits, c.chosen, number(c.seconds),
                     number(c.margin), quoted(c.note));
}

}  // namespace

std::string to_json(const Plan& plan) {
  std::string t = fmt::format("{{\n  \"plan_version\": {},\n  \"graph\": {},\n  \"batch\": {},\n  \"replicas\": {},\n  \"shards_per_replica\": {},\n", plan.version,
                              quoted(plan.graph_name), plan.batch, plan.replicas, plan.shards_per_replica);
  t += fmt::format("  \"method\": {},\n  \"seconds\": {},\n", quoted(plan.method), number(plan.seconds));
  if (plan.measured_seconds) t += "  \"measured_seconds\": " + number(*plan.measured_seconds) + ",\n";
  t += "  \"all_reduce_seconds\": " + number(plan.all_reduce_seconds) + ",\n";
  t += fmt::format("  \"bound\": {{\"critical_path\": {}, \"work\": {}, \"crossings\": {}}},\n", number(plan.bound.critical_path), number(plan.bound.work), number(plan.bound.crossings));
  std::vector<std::string> devices, links, replicas, candidates, memory, transfers, nodes;
  for (const DeviceSpec& d : plan.machine.devices) devices.push_back(device_entry(d));
  for (int from = 0; from < plan.machine.device_count(); ++from) {
    for (int to = 0; to < plan.machine.device_count(); ++to) {
      if (from == to) continue;
      const LinkSpec& l = plan.machine.link(from, to);
      links.push_back(fmt::format("{{\"from\": {}, \"to\": {}, \"latency\": {}, \"bytes_per_second\": {}}}", quoted(plan.machine.devices[static_cast<size_t>(from)].name),
                                  quoted(plan.machine.devices[static_cast<size_t>(to)].name), number(l.latency), number(l.bytes_per_second)));
    }
  }
  for (const auto& replica : plan.replica_devices) {
    std::string names;
    for (int d : replica) names += (names.empty() ? "" : ", ") + quoted(plan.machine.devices[static_cast<size_t>(d)].name);
    replicas.push_back("[" + names + "]");
  }
  for (const PlanCandidate& c : plan.candidates) candidates.push_back(candidate_entry(c));
  for (size_t d = 0; d < plan.memory.size(); ++d) memory.push_back(memory_entry(plan, d));
  for (const PlanTransfer& x : plan.transfers) transfers.push_back(transfer_entry(plan, x));
  for (const PlanNode& n : plan.nodes) nodes.push_back(node_entry(plan, n));
  t += "  \"machine\": {\n";
  add_list(t, "devices", devices, "    ");
  t += ",\n";
  add_list(t, "links", links, "    ");
  t += "\n  },\n";
  const std::pair<const char*, std::vector<std::string>*> lists[] = {{"replica_devices", &replicas}, {"candidates", &candidates}, {"memory", &memory},
                                                                     {"transfers", &transfers}, {"nodes", &nodes}};
  for (const auto& [name, entries] : lists) {
    add_list(t, name, *entries);
    t += entries == &nodes ? "\n}\n" : ",\n";
  }
  return t;
}

}  // namespace eng
