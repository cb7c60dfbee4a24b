// The worker that runs operations, and who waits for them. An operation may run when it is the first of its stream and what it comes after is done. Which of
// those runs next is the settings' order; under kLazy only what a waiting thread needs. Races are found when operations are enqueued, by logical clocks: two
// operations touch the same memory, one writes, and no stream order, event or wait of the host stands between them.
#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/support/cuda_emulation/world.h"

namespace eng_emulation {

namespace {

bool after_done(const Operation& op) {
  return std::all_of(op.after.begin(), op.after.end(), [](const auto& mark) { return mark->done; });
}

bool runnable(CUstream_st* stream) {
  if (stream->queue.empty() || !after_done(stream->queue.front())) return false;
  Operation& head = stream->queue.front();
  return world().devices[static_cast<size_t>(stream->device)]->lost != cudaSuccess || !head.ready || head.ready();
}

// Streams whose first operation must run before the mark is done.
void needed_for(const std::shared_ptr<Mark>& mark, std::set<const Mark*>& seen, std::vector<CUstream_st*>& out) {
  if (mark->done || !mark->stream || mark->stream->queue.empty() || !seen.insert(mark.get()).second) return;
  Operation& head = mark->stream->queue.front();
  for (const auto& earlier : head.after) needed_for(earlier, seen, out);
  if (std::find(out.begin(), out.end(), mark->stream) == out.end()) out.push_back(mark->stream);
}

CUstream_st* pick(std::vector<CUstream_st*> from) {
  std::erase_if(from, [](CUstream_st* s) { return !runnable(s); });
  if (from.empty()) return nullptr;
  if (world().settings.order == Order::kEager)
    return *std::min_element(from.begin(), from.end(), [](auto* a, auto* b) { return a->queue.front().number < b->queue.front().number; });
  return from[world().random() % from.size()];
}

// The stream whose first operation runs next, or null where nothing should.
CUstream_st* choose() {
  World& w = world();
  if (w.stopping) return nullptr;
  std::vector<std::shared_ptr<Mark>> wanted = w.demands;
  if (w.nudges > w.nudges_done && w.nudged) wanted.push_back(w.nudged);
  const bool due = w.settings.order == Order::kEager || now_ms() - w.last_enqueue_ms > w.settings.grace_ms;
  if (wanted.empty() && !due) return nullptr;
  if (w.settings.order == Order::kLazy && !wanted.empty()) {
    std::set<const Mark*> seen;
    std::vector<CUstream_st*> needed;
    for (const auto& mark : wanted) needed_for(mark, seen, needed);
    if (CUstream_st* next = pick(needed)) return next;
  }
  return pick(w.streams);
}

void run_head(std::unique_lock<std::mutex>& lock, CUstream_st* stream) {
  World& w = world();
  Operation& op = stream->queue.front();
  Device& device = *w.devices[static_cast<size_t>(stream->device)];
  const bool real = static_cast<bool>(op.run) && device.lost == cudaSuccess;
  if (real && ++w.started == static_cast<uint64_t>(w.settings.hang_operation)) {
    op.ready = [] { return false; };
    return;
  }
  if (real && w.started == static_cast<uint64_t>(w.settings.fail_operation)) {
    lose_device_locked(stream->device, cudaErrorLaunchFailure);
  } else if (real) {
    w.running = true;
    lock.unlock();
    bool failed = false;
    try {
      op.run();
    } catch (const OperationFailed&) {
      failed = true;
    }
    lock.lock();
    w.running = false;
    if (failed) lose_device_locked(stream->device, cudaErrorIllegalAddress);
    check_red_zones_locked(stream->device, op.what);
    ++w.operations;
  }
  op.done->done = true;
  op.done->time_ms = now_ms();
  stream->queue.pop_front();
  ++w.progress;
  if (!stream->alive && stream->queue.empty()) std::erase(w.streams, stream);
}

void work() {
  World& w = world();
  std::unique_lock<std::mutex> lock(w.mutex);
  for (;;) {
    const uint64_t nudges = w.nudges;
    CUstream_st* next = choose();
    if (next) run_head(lock, next);
    w.nudges_done = std::max(w.nudges_done, nudges);
    w.passed.notify_all();
    if (next) continue;
    const bool pending = std::any_of(w.streams.begin(), w.streams.end(), [](auto* s) { return !s->queue.empty(); });
    if (!pending) w.wake.wait(lock);
    else w.wake.wait_for(lock, w.demands.empty() ? std::chrono::microseconds(5000) : std::chrono::microseconds(100));
  }
}

// Reports what the span races with, then remembers it.
void check_races(const CUstream_st& stream, uint64_t at, const Span& span, const std::string& what) {
  World& w = world();
  const auto begin = reinterpret_cast<uintptr_t>(span.pointer), end = begin + span.bytes;
  const int owner = device_of_address_locked(begin);
  if (owner < 0 || span.bytes == 0) return;
  auto& blocks = w.devices[static_cast<size_t>(owner)]->blocks;
  auto after = blocks.upper_bound(begin);
  if (after == blocks.begin() || std::prev(after)->second.freed || std::prev(after)->second.end < end) return;
  auto& accesses = std::prev(after)->second.accesses;
  const auto reached = [](const Clock& clock, const Block::Access& a) {
    const auto found = clock.find(a.stream);
    return found != clock.end() && found->second >= a.at;
  };
  std::erase_if(accesses, [&](const Block::Access& a) {
    if (reached(w.host, a)) return true;
    const bool overlaps = a.begin < end && begin < a.end;
    if (!overlaps || reached(stream.clock, a)) {
      const bool covered = begin <= a.begin && a.end <= end;
      return overlaps && covered && (span.write || (!a.write && a.stream == stream.id));
    }
    if (!a.write && !span.write) return false;
    report_locked("race: " + what + (span.write ? " writes" : " reads") + " device memory that " + a.what + (a.write ? " writes" : " reads") +
                  ", and nothing orders stream " + std::to_string(stream.id) + " behind stream " + std::to_string(a.stream) + ": an event is missing");
    return true;
  });
  accesses.push_back({begin, end, span.write, stream.id, at, what});
}

}  // namespace

void merge(Clock& into, const Clock& from) {
  for (const auto& [stream, at] : from) into[stream] = std::max(into[stream], at);
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void lose_device_locked(int device, cudaError_t error) {
  cudaError_t& lost = world().devices[static_cast<size_t>(device)]->lost;
  if (lost == cudaSuccess) lost = error;
}

void enqueue_locked(CUstream_st* stream, Operation op) {
  World& w = world();
  // The legacy stream and blocking streams of a device wait for each other.
  if (!(stream->flags & cudaStreamNonBlocking))
    for (CUstream_st* other : w.streams)
      if (other != stream && other->device == stream->device && (stream->legacy || other->legacy) && !(other->flags & cudaStreamNonBlocking) && other->last)
        op.after.push_back(other->last);
  merge(stream->clock, w.host);
  for (const auto& mark : op.after) merge(stream->clock, mark->clock);
  const uint64_t at = ++stream->enqueued;
  stream->clock[stream->id] = at;
  op.done->clock = stream->clock;
  op.done->stream = stream;
  for (const Span& span : op.spans) check_races(*stream, at, span, op.what);
  static uint64_t numbers = 0;
  op.number = ++numbers;
  stream->last = op.done;
  stream->queue.push_back(std::move(op));
  w.last_enqueue_ms = now_ms();
  if (!w.worker_started) {
    w.worker_started = true;
    std::thread(work).detach();
  }
  w.wake.notify_one();
}

cudaError_t wait_for(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Mark>& mark) {
  World& w = world();
  if (!mark->done) {
    w.demands.push_back(mark);
    w.wake.notify_one();
    uint64_t progress = w.progress;
    double since = now_ms();
    while (!mark->done) {
      w.passed.wait_for(lock, std::chrono::milliseconds(100));
      if (w.progress != progress || w.running) progress = w.progress, since = now_ms();
      if (!mark->done && now_ms() - since > 1000.0 * w.settings.hang_seconds) break;
    }
    w.demands.erase(std::find(w.demands.begin(), w.demands.end(), mark));
    if (!mark->done) {
      report_locked("a wait made no progress for " + std::to_string(w.settings.hang_seconds) + " s; first of its stream: " +
                    (mark->stream->queue.empty() ? "nothing" : mark->stream->queue.front().what));
      return cudaErrorLaunchTimeout;
    }
  }
  merge(w.host, mark->clock);
  return mark->stream ? w.devices[static_cast<size_t>(mark->stream->device)]->lost : cudaSuccess;
}

void nudge(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Mark>& mark) {
  World& w = world();
  if (mark->done) return;
  const uint64_t mine = ++w.nudges;
  w.nudged = mark;
  w.wake.notify_one();
  w.passed.wait(lock, [&] { return w.nudges_done >= mine; });
}

cudaError_t wait_for_device(std::unique_lock<std::mutex>& lock, int device) {
  World& w = world();
  for (const std::vector<CUstream_st*> streams = w.streams; CUstream_st* stream : streams)
    if (stream->device == device && stream->last)
      if (const cudaError_t error = wait_for(lock, stream->last); error != cudaSuccess) return error;
  return w.devices[static_cast<size_t>(device)]->lost;
}

bool host_range_pending_locked(const void* pointer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  for (const CUstream_st* stream : world().streams)
    for (const Operation& op : stream->queue)
      for (const auto& [at, size] : op.host)
        if (at < begin + bytes && begin < at + size) return true;
  return false;
}

}  // namespace eng_emulation
