// See profiler.h.
#include "backends/cuda/profiler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "backends/cuda/device.h"
#include "backends/cuda/error.h"

namespace eng::cuda {
namespace {

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t between_ns(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, from, to), "the time between two events");
  return static_cast<int64_t>(static_cast<double>(ms) * 1e6);
}

void make(cudaEvent_t& event) {
  if (!event) check(cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event");
}

int32_t start(eb_stream* stream, eb_trace* trace, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(stream->device);
    stream->trace.start(stream->stream, trace);
  });
}

int32_t stop(eb_stream* stream, eb_error* error) {
  return guard(error, [&] { stream->trace.stop(); });
}

}  // namespace

StreamTrace::~StreamTrace() {
  for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  for (cudaEvent_t event : {base_, clock_})
    if (event) (void)cudaEventDestroy(event);
  (void)cudaGetLastError();
}

void StreamTrace::start(cudaStream_t stream, eb_trace* trace) {
  open_ = false;
  trace_ = nullptr;
  make(base_);
  make(clock_);
  events_.reserve(2 * trace->capacity);
  while (events_.size() < 2 * trace->capacity) {
    cudaEvent_t event = nullptr;
    make(event);
    events_.push_back(event);
  }
  pieces_.clear();
  pieces_.reserve(trace->capacity);
  lost_ = 0;
  trace->count = trace->lost = 0;
  check(cudaEventRecord(base_, stream), "recording an event");
  trace_ = trace;
  open_ = true;
}

bool StreamTrace::begin(cudaStream_t stream) {
  if (pieces_.size() == trace_->capacity) {
    ++lost_;
    return false;
  }
  check(cudaEventRecord(before(pieces_.size()), stream), "recording an event");
  return true;
}

void StreamTrace::end(cudaStream_t stream, int32_t kind, const void* object, uint64_t bytes) {
  check(cudaEventRecord(after(pieces_.size()), stream), "recording an event");
  pieces_.push_back({kind, object, bytes});
}

// An event recorded now passed between two readings of the host's clock: the closest pair of a few is taken. The stream has nothing else to do.
int64_t StreamTrace::host_time_of_base(cudaStream_t stream) {
  int64_t closest = INT64_MAX, base = 0;
  for (int i = 0; i < 8; ++i) {
    const int64_t earlier = now_ns();
    check(cudaEventRecord(clock_, stream), "recording an event");
    check(cudaEventSynchronize(clock_), "an event");
    const int64_t later = now_ns();
    if (later - earlier >= closest) continue;
    closest = later - earlier;
    base = earlier + closest / 2 - between_ns(base_, clock_);
  }
  return base;
}

void StreamTrace::finish(cudaStream_t stream) {
  if (!trace_ || open_) return;
  eb_trace& trace = *std::exchange(trace_, nullptr);
  if (pieces_.empty()) return;
  const int64_t base = host_time_of_base(stream);
  int64_t last = INT64_MIN;  // a float of milliseconds is not exact: spans are kept in order
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& p = pieces_[i];
    eb_span span{p.kind, 0, p.object, p.bytes, std::max(last, base + between_ns(base_, before(i))), 0};
    span.end_ns = last = span.start_ns + std::max<int64_t>(0, between_ns(before(i), after(i)));
    std::memcpy(reinterpret_cast<char*>(trace.spans) + i * trace.span_size, &span, std::min<size_t>(trace.span_size, sizeof span));
  }
  trace.count = pieces_.size();
  trace.lost = lost_;
}

const eb_profiler_table kProfiler = {sizeof(eb_profiler_table), 1, eng::cuda::start, eng::cuda::stop};

}  // namespace eng::cuda
