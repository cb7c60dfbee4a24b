// query("profiler", 1): when a stream's kernels, copies, fills and waits began and ended, by CUDA events. An event is recorded before and after each piece of
// work; when the stream is waited for after stop, their times become the trace's spans. Events are made by start and kept with the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "backends/abi/backend_abi.h"

namespace eng::cuda {

class StreamTrace {
 public:
  StreamTrace() = default;
  ~StreamTrace();
  StreamTrace(const StreamTrace&) = delete;
  StreamTrace& operator=(const StreamTrace&) = delete;

  // The stream's device must be current in all of these.
  void start(cudaStream_t stream, eb_trace* trace);
  void stop() { open_ = false; }
  // Runs `enqueue`, which enqueues one piece of work, between two events. Work that fails to be enqueued leaves no span.
  template <class F>
  void around(cudaStream_t stream, int32_t kind, const void* object, uint64_t bytes, F&& enqueue) {
    const bool noted = open_ && begin(stream);
    enqueue();
    if (noted) end(stream, kind, object, bytes);
  }
  // Once the stream has passed everything: after stop, fills the trace.
  void finish(cudaStream_t stream);

 private:
  struct Piece {
    int32_t kind;
    const void* object;
    uint64_t bytes;
  };
  bool begin(cudaStream_t stream);  // false, and one more is lost, where there is no room
  void end(cudaStream_t stream, int32_t kind, const void* object, uint64_t bytes);
  int64_t host_time_of_base(cudaStream_t stream);
  cudaEvent_t before(size_t piece) const { return events_[2 * piece]; }
  cudaEvent_t after(size_t piece) const { return events_[2 * piece + 1]; }

  eb_trace* trace_ = nullptr;  // null: none, or it is filled
  bool open_ = false;          // between start and stop
  uint64_t lost_ = 0;
  std::vector<Piece> pieces_;
  std::vector<cudaEvent_t> events_;  // two a piece
  cudaEvent_t base_ = nullptr, clock_ = nullptr;  // recorded by start; for reading the device's clock against the host's
};

extern const eb_profiler_table kProfiler;

}  // namespace eng::cuda
