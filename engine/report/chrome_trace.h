// What happened when in a step, as a file for chrome://tracing or Perfetto: a row a device stream with its kernels (by node), copies and
// waits, and rows for what threads of the host do (sums over shards, messages between ranks), so that it can be seen what overlaps.
//
//   StepTrace trace(trace_rows(fleet), fleet.ranks->rank());  trace.start();  ... one step ...  trace.stop();  trace.write(path);
//   In a thread of the host:  { TraceScope scope(sink, "sums cpu:0", "sum of 3 MB"); ... }
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exec/fleet.h"
#include "engine/plugin/device.h"

namespace eng {

// Where threads of the host write down what they do. May be used by any number of threads at once. Off, an entry costs a look at a flag.
class TraceSink {
 public:
  void set_on(bool on) { on_ = on; }
  bool on() const { return on_; }
  // `row` and `name` are copied. Times: nanoseconds of std::chrono::steady_clock.
  void add(std::string_view row, std::string_view name, int64_t start_ns, int64_t end_ns);

  struct Entry {
    std::string row, name;
    int64_t start_ns = 0, end_ns = 0;
  };
  std::vector<Entry> take();

 private:
  std::mutex mutex_;
  std::atomic<bool> on_{false};
  std::vector<Entry> entries_;
};

// From here to the end of the block. `sink` may be null: nothing is written down.
class TraceScope {
 public:
  TraceScope(TraceSink* sink, std::string_view row, std::string_view name);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  TraceSink* sink_;
  std::string_view row_, name_;
  int64_t start_ns_ = 0;
};

struct TraceRow {
  std::string name;  // "cpu:0", "cpu:0 lane 1", "cpu:0 sums"
  std::shared_ptr<Device> device;
};

// Every stream of a fleet: "cpu:0", or "cpu:0 lane 1" where there are several, and "cpu:0 sums".
std::vector<TraceRow> trace_rows(const Fleet& fleet);

class StepTrace {
 public:
  // `process`: the rank, or 0. Devices whose backend keeps no times have no row; they are named in notes().
  explicit StepTrace(std::vector<TraceRow> rows, int process = 0);
  ~StepTrace();
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  TraceSink* sink() { return &sink_; }
  Status start();
  Status stop();  // waits for the devices
  const std::vector<std::string>& notes() const { return notes_; }
  // Of the last start() and stop(). Rows with their pieces in order of time.
  struct Row {
    std::string name;
    std::vector<TraceSpan> spans;
  };
  const std::vector<Row>& rows() const { return rows_; }
  // {"traceEvents": [...]}: complete events in microseconds from start() on. Files of several ranks can be put together by
  // joining their lists.
  std::string json() const;
  Status write(const std::string& path) const;

 private:
  int process_;
  std::vector<TraceRow> devices_;
  std::vector<Row> rows_;
  std::vector<TraceSink::Entry> entries_;
  std::vector<std::string> notes_;
  TraceSink sink_;
  int64_t start_ns_ = 0;
  bool running_ = false;
};

}  // namespace eng
