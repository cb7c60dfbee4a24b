// The stream table: non-blocking streams, events without timing. A stream that was waited for fills its trace (profiler.h).
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "backends/cuda/device.h"
#include "backends/cuda/error.h"

namespace eng::cuda {
namespace {

int32_t create(eb_device* device, eb_stream** stream, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    auto s = std::make_unique<eb_stream>();
    s->device = device;
    check(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "making a stream");
    *stream = s.release();
  });
}

void destroy(eb_stream* stream) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(stream->device);
    (void)cudaStreamSynchronize(stream->stream);
    (void)cudaStreamDestroy(stream->stream);
    (void)cudaGetLastError();
  });
  delete stream;
}

// Asks until `query` says that it is over or the time is: CUDA has no wait with a limit. It rests an eighth of what it has waited so far, so it is
// late by that much at most, and the longer the wait the less it asks.
template <class F>
void wait_until(F&& query, int64_t timeout_ms, const char* what) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  for (;;) {
    const cudaError_t result = query();
    if (result != cudaErrorNotReady) return check(result, what);
    const auto waited = Clock::now() - begun;
    if (waited >= std::chrono::milliseconds(timeout_ms)) throw Failure(EB_TIMEOUT, std::string(what) + " did not finish in time");
    std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 8, std::chrono::microseconds(10), std::chrono::milliseconds(1)));
  }
}

int32_t synchronize(eb_stream* stream, int64_t timeout_ms, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(stream->device);
    if (timeout_ms < 0) check(cudaStreamSynchronize(stream->stream), "the stream");
    else wait_until([&] { return cudaStreamQuery(stream->stream); }, timeout_ms, "the stream");
    stream->trace.finish(stream->stream);
  });
}

int32_t create_event(eb_device* device, eb_event** event, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    auto e = std::make_unique<eb_event>();
    e->device = device;
    check(cudaEventCreateWithFlags(&e->event, cudaEventDisableTiming), "making an event");
    *event = e.release();
  });
}

void destroy_event(eb_event* event) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(event->device);
    (void)cudaEventDestroy(event->event);
    (void)cudaGetLastError();
  });
  delete event;
}

int32_t record(eb_stream* stream, eb_event* event, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(stream->device);
    check(cudaEventRecord(event->event, stream->stream), "recording an event");
  });
}

int32_t wait(eb_stream* stream, eb_event* event, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(stream->device);
    stream->trace.around(stream->stream, EB_SPAN_WAIT, event, 0, [&] { check(cudaStreamWaitEvent(stream->stream, event->event, 0), "waiting for an event"); });
  });
}

int32_t event_query(eb_event* event, eb_error* error) {
  const int32_t code = guard(error, [&] {
    const DeviceScope scope(event->device);
    const cudaError_t result = cudaEventQuery(event->event);
    if (result == cudaErrorNotReady) throw Failure(EB_NOT_READY, "the event has not passed");
    check(result, "the event");
  });
  return code;
}

int32_t event_synchronize(eb_event* event, int64_t timeout_ms, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(event->device);
    if (timeout_ms < 0) check(cudaEventSynchronize(event->event), "the event");
    else wait_until([&] { return cudaEventQuery(event->event); }, timeout_ms, "the event");
  });
}

}  // namespace

const eb_stream_table kStreams = {sizeof(eb_stream_table), 0, create, destroy, synchronize, create_event, destroy_event, record, wait, event_query, event_synchronize};

}  // namespace eng::cuda
