// See chrome_trace.h.
#include "engine/report/chrome_trace.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/file.h"

namespace eng {
namespace {

using nlohmann::ordered_json;

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const char* name_of(Phase phase) {
  static constexpr const char* kNames[] = {"forward", "loss", "backward", "update"};
  return kNames[static_cast<size_t>(phase)];
}

ordered_json named(const char* what, int process, int row, const std::string& name) {
  ordered_json e;
  e["ph"] = "M";
  e["name"] = what;
  e["pid"] = process;
  if (row >= 0) e["tid"] = row;
  e["args"]["name"] = name;
  return e;
}

ordered_json event(const std::string& name, const char* category, int process, int row, int64_t start_ns, int64_t end_ns, int64_t zero_ns) {
  ordered_json e;
  e["ph"] = "X";
  e["name"] = name;
  e["cat"] = category;
  e["pid"] = process;
  e["tid"] = row;
  e["ts"] = static_cast<double>(start_ns - zero_ns) / 1e3;
  e["dur"] = static_cast<double>(end_ns - start_ns) / 1e3;
  return e;
}

ordered_json event(const TraceSpan& s, int process, int row, int64_t zero_ns) {
  switch (s.kind) {
    case TraceSpan::Kind::kKernel: {
      ordered_json e = event(s.kernel.node.empty() ? "kernel" : s.kernel.node, name_of(s.kernel.phase), process, row, s.start_ns, s.end_ns, zero_ns);
      e["args"] = {{"op", s.kernel.op}, {"phase", name_of(s.kernel.phase)}, {"kernel", s.kernel.implementation}};
      return e;
    }
    case TraceSpan::Kind::kWait: return event("wait", "wait", process, row, s.start_ns, s.end_ns, zero_ns);
    case TraceSpan::Kind::kCopy:
    case TraceSpan::Kind::kFill: break;
  }
  const bool copy = s.kind == TraceSpan::Kind::kCopy;
  ordered_json e = event(copy ? "copy" : "fill", "memory", process, row, s.start_ns, s.end_ns, zero_ns);
  e["args"]["bytes"] = s.bytes;
  return e;
}

}  // namespace

void TraceSink::add(std::string_view row, std::string_view name, int64_t start_ns, int64_t end_ns) {
  std::lock_guard lock(mutex_);
  if (on_) entries_.push_back({std::string(row), std::string(name), start_ns, end_ns});
}
std::vector<TraceSink::Entry> TraceSink::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

TraceScope::TraceScope(TraceSink* sink, std::string_view row, std::string_view name) : sink_(sink && sink->on() ? sink : nullptr), row_(row), name_(name) {
  if (sink_) start_ns_ = now_ns();
}
TraceScope::~TraceScope() {
  if (sink_) sink_->add(row_, name_, start_ns_, now_ns());
}

std::vector<TraceRow> trace_rows(const Fleet& fleet) {
  std::vector<TraceRow> rows;
  for (const Replica& replica : fleet.replicas) {
    for (size_t lane = 0; lane < replica.lanes.size(); ++lane)
      for (const auto& device : replica.lanes[lane]) rows.push_back({replica.lanes.size() == 1 ? device->name() : cat(device->name(), " lane ", lane), device});
    for (const auto& device : replica.sums) rows.push_back({device->name() + " sums", device});
  }
  return rows;
}

StepTrace::StepTrace(std::vector<TraceRow> rows, int process) : process_(process) {
  for (TraceRow& row : rows) {
    if (row.device->can_trace()) devices_.push_back(std::move(row));
    else notes_.push_back(cat(row.name, " is not in the trace: the backend of ", row.device->name(), " keeps no times"));
  }
}

StepTrace::~StepTrace() {
  if (running_) (void)stop();
}

Status StepTrace::start() {
  rows_.clear();
  entries_.clear();
  (void)sink_.take();
  for (const TraceRow& row : devices_) ENG_TRY(row.device->start_trace());
  start_ns_ = now_ns();
  sink_.set_on(true);
  running_ = true;
  return {};
}

Status StepTrace::stop() {
  if (!running_) return internal_error("a trace is stopped that was not started");
  running_ = false;
  sink_.set_on(false);
  for (const TraceRow& row : devices_) {
    ENG_ASSIGN(std::vector<TraceSpan> spans, row.device->stop_trace());
    rows_.push_back({row.name, std::move(spans)});
  }
  entries_ = sink_.take();
  std::stable_sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return {};
}

std::string StepTrace::json() const {
  ordered_json events = ordered_json::array();
  events.push_back(named("process_name", process_, -1, cat("rank ", process_)));
  int row = 0;
  for (const Row& r : rows_) {
    events.push_back(named("thread_name", process_, row, r.name));
    for (const TraceSpan& s : r.spans) events.push_back(event(s, process_, row, start_ns_));
    ++row;
  }
  std::map<std::string, int> host_rows;
  for (const TraceSink::Entry& e : entries_) {
    const auto [at, is_new] = host_rows.try_emplace(e.row, row);
    if (is_new) events.push_back(named("thread_name", process_, row++, e.row));
    events.push_back(event(e.name, "host", process_, at->second, e.start_ns, e.end_ns, start_ns_));
  }
  ordered_json file;
  file["traceEvents"] = std::move(events);
  file["displayTimeUnit"] = "ms";
  return file.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Status StepTrace::write(const std::string& path) const { return write_file_atomic(path, json() + "\n"); }

}  // namespace eng
