// See stream.h.
#include "backends/cpu/stream.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/abi/backend.hpp"
#include "backends/cpu/kernel.h"
#include "backends/cpu/kernel_object.h"

using eng::cpu::Task;
using eng::cpu::TaskKind;

static int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

eb_stream::eb_stream(eb_device* device) : device_(device), ring_(1024) {
  thread_ = std::thread([this] { loop(); });
}

eb_stream::~eb_stream() {
  enqueue([](Task& t) { t.kind = TaskKind::kStop; });
  thread_.join();
}

void eb_stream::grow() {
  std::vector<Task> larger(ring_.size() * 2);
  for (uint64_t i = head_; i < tail_; ++i) larger[i % larger.size()] = std::move(ring_[i % ring_.size()]);
  ring_ = std::move(larger);
}

void eb_stream::loop() {
  omp_set_dynamic(0);
  omp_set_num_threads(device_->threads);
  Task current;  // swapped with the ring's slot, so that both keep their storage while the lock is free
  std::unique_lock lock(mutex_);
  for (;;) {
    if (head_ == tail_) {
      sleeping_ = true;
      work_.wait(lock, [this] { return head_ != tail_; });
      sleeping_ = false;
    }
    std::swap(current, ring_[head_ % ring_.size()]);
    lock.unlock();
    if (current.kind != TaskKind::kStop) execute(current);
    lock.lock();
    std::swap(current, ring_[head_ % ring_.size()]);
    const bool stop = ring_[head_ % ring_.size()].kind == TaskKind::kStop;
    ++head_;
    if (head_ == tail_ || stop) idle_.notify_all();
    if (stop) return;
  }
}

void eb_stream::execute(Task& t) {
  eb_error error{sizeof(eb_error), 0, {0}};
  int32_t code = EB_OK;
  const int64_t start_ns = trace_ ? now_ns() : 0;
  switch (t.kind) {
    case TaskKind::kKernel:
      code = eb::guard(&error, [&] {
        t.kernel->impl->run({t.pointers.data(), t.pointers.data() + t.input_count, t.workspace});
        return int32_t{EB_OK};
      });
      break;
    case TaskKind::kCopy: std::memmove(t.pointers[0], t.pointers[1], t.number); break;
    case TaskKind::kZero: std::memset(t.pointers[0], 0, t.number); break;
    case TaskKind::kRecord: {
      std::lock_guard lock(t.event->mutex);
      if (t.event->reached < t.number) t.event->reached = t.number;
      t.event->passed.notify_all();
      break;
    }
    case TaskKind::kWait: {
      std::unique_lock lock(t.event->mutex);
      t.event->passed.wait(lock, [&] { return t.event->reached >= t.number; });
      break;
    }
    case TaskKind::kTrace: trace_ = static_cast<eb_trace*>(t.pointers[0]); return;
    case TaskKind::kStop: break;
  }
  if (trace_) note(t, start_ns);
  if (code != EB_OK) {
    std::lock_guard lock(mutex_);
    if (error_code_ == EB_OK) {
      error_code_ = code;
      error_message_ = t.kernel->name + ": " + error.message;
    }
  }
}

void eb_stream::note(const Task& t, int64_t start_ns) {
  eb_span span{0, 0, nullptr, 0, start_ns, now_ns()};
  switch (t.kind) {
    case TaskKind::kKernel: span.kind = EB_SPAN_KERNEL, span.object = t.kernel; break;
    case TaskKind::kCopy: span.kind = EB_SPAN_COPY, span.bytes = t.number; break;
    case TaskKind::kZero: span.kind = EB_SPAN_FILL, span.bytes = t.number; break;
    case TaskKind::kWait: span.kind = EB_SPAN_WAIT, span.object = t.event; break;
    default: return;
  }
  if (trace_->count == trace_->capacity) {
    ++trace_->lost;
    return;
  }
  std::memcpy(reinterpret_cast<char*>(trace_->spans) + trace_->count * trace_->span_size, &span, std::min<size_t>(trace_->span_size, sizeof span));
  ++trace_->count;
}

bool eb_stream::synchronize(int64_t timeout_ms, int32_t* code, std::string* message) {
  std::unique_lock lock(mutex_);
  auto done = [this] { return head_ == tail_; };
  if (timeout_ms < 0) idle_.wait(lock, done);
  else if (!idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) return false;
  *code = error_code_;
  *message = error_message_;
  error_code_ = EB_OK;
  error_message_.clear();
  return true;
}
