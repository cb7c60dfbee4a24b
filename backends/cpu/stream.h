// Devices, in-order streams and events of the CPU backend. A stream is one thread that takes tasks from a ring; its OpenMP
// team is the device's. Tasks keep their storage, and an idle ring starts again at its first slot, so enqueuing allocates only
// until the ring has seen its longest step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/abi/backend_abi.h"

struct eb_device {
  int32_t index = 0;
  int32_t threads = 1;
  bool deterministic = false;
};

struct eb_event {
  std::mutex mutex;
  std::condition_variable passed;
  uint64_t recorded = 0, reached = 0;  // counts of record() and of records that the stream has passed
};

namespace eng::cpu {

enum class TaskKind : uint8_t { kKernel, kCopy, kZero, kRecord, kWait, kTrace, kStop };

struct Task {
  TaskKind kind = TaskKind::kStop;
  eb_kernel* kernel = nullptr;
  void* workspace = nullptr;
  uint32_t input_count = 0;
  std::vector<void*> pointers;  // inputs then outputs; for copies: to, from; for kTrace: the trace that begins, or null
  uint64_t number = 0;          // bytes, or the event's count
  eb_event* event = nullptr;
};

}  // namespace eng::cpu

struct eb_stream {
  explicit eb_stream(eb_device* device);
  ~eb_stream();
  // Fills the next free task under the lock, then wakes the thread.
  template <class F>
  void enqueue(F&& fill) {
    bool wake;
    {
      std::unique_lock lock(mutex_);
      if (head_ == tail_) head_ = tail_ = 0;
      if (tail_ - head_ == ring_.size()) grow();
      fill(ring_[tail_ % ring_.size()]);
      ++tail_;
      wake = sleeping_;
    }
    if (wake) work_.notify_one();
  }
  // False when the time is over first. Takes the first error of the work since the last call.
  bool synchronize(int64_t timeout_ms, int32_t* code, std::string* message);
  eb_device* device() const { return device_; }

 private:
  void grow();
  void loop();
  void execute(eng::cpu::Task& task);
  void note(const eng::cpu::Task& task, int64_t start_ns);

  eb_device* device_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::vector<eng::cpu::Task> ring_;
  uint64_t head_ = 0, tail_ = 0;  // head_: next to finish; tail_: next to fill
  bool sleeping_ = false;        // the thread waits for work
  int32_t error_code_ = 0;
  std::string error_message_;
  eb_trace* trace_ = nullptr;    // of the thread alone
  std::thread thread_;
};
