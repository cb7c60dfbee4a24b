// See liveness.h.
#include "engine/distributed/liveness.h"

#include <fcntl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace eng {
namespace {

constexpr std::chrono::milliseconds kHostCheck{250};
constexpr std::chrono::milliseconds kHeldUp{2000};
constexpr Clock::time_point kNever{};

// The first bytes of a file in /proc; "" if there is none. Plain calls: it runs several times a second.
std::string read_small(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[1024];
  const ssize_t got = read(file, text, sizeof text);
  close(file);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : std::string();
}

// State letter and start time of /proc/PID/stat; false if there is no such process. The name before them may hold anything, so the last ')' counts.
bool read_stat(int32_t pid, char* state, uint64_t* start_time) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
  const std::string text = read_small(path);
  const size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size()) return false;
  const char* at = text.c_str() + end + 2;
  *state = *at;
  for (int field = 3; field < 22 && at; ++field) at = std::strchr(at + 1, ' ');
  if (!at) return false;
  *start_time = std::strtoull(at, nullptr, 10);
  return true;
}

}  // namespace

RankIdentity own_identity() {
  RankIdentity me;
  if (gethostname(me.host, sizeof me.host - 1) != 0) std::strcpy(me.host, "unknown");
  me.pid = static_cast<int32_t>(getpid());
  char state = 0, space[64] = {};
  if (!read_stat(me.pid, &state, &me.start_time)) return me;  // no /proc: no space, so nobody looks this process up
  const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  std::string boot = read_small("/proc/sys/kernel/random/boot_id");
  if (!boot.empty() && boot.back() == '\n') boot.pop_back();
  if (length > 0 && !boot.empty()) std::snprintf(me.space, sizeof me.space, "%.36s %.58s", boot.c_str(), space);
  return me;
}

uint64_t process_start_time(int32_t pid) {
  char state = 0;
  uint64_t start_time = 0;
  return read_stat(pid, &state, &start_time) ? start_time : 0;
}

ProcessState look_up_process(int32_t pid, uint64_t start_time) {
  char state = 0;
  uint64_t started = 0;
  if (!read_stat(pid, &state, &started) || started != start_time) return {true, false};
  return {state == 'Z' || state == 'X', state == 'T'};
}

void Liveness::start(int self, std::vector<RankIdentity> ranks, std::vector<bool> heard_directly, const RankOptions& options, Clock::time_point now) {
  self_ = self;
  options_ = options;
  ranks_ = std::move(ranks);
  heard_directly_ = std::move(heard_directly);
  const size_t count = ranks_.size();
  heard_directly_[static_cast<size_t>(self)] = false;
  on_host_.assign(count, false);
  const RankIdentity& me = identity(self);
  for (size_t r = 0; r < count; ++r)
    on_host_[r] = static_cast<int>(r) != self && me.space[0] && same_host(self, static_cast<int>(r)) && !std::strcmp(me.space, ranks_[r].space);
  last_heard_.assign(count, now);
  stopped_since_.assign(count, kNever);
  last_check_ = last_host_check_ = now;
}

Liveness::Loss Liveness::check_host(Clock::time_point now) {
  last_host_check_ = now;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (!on_host_[r]) continue;
    const ProcessState state = look_up_process(ranks_[r].pid, ranks_[r].start_time);
    if (state.gone) return {static_cast<int>(r), "was killed or has crashed", true};
    if (!state.stopped) {
      stopped_since_[r] = kNever;
    } else if (stopped_since_[r] == kNever) {
      stopped_since_[r] = now;
    } else if (now - stopped_since_[r] >= options_.stopped) {
      return {static_cast<int>(r), cat("has been stopped for ", options_.stopped.count() / 1000, " seconds and does not answer"), true};
    }
  }
  return {};
}

Liveness::Loss Liveness::check(Clock::time_point now) {
  if (now - last_check_ > kHeldUp) {
    last_heard_.assign(ranks_.size(), now);
    stopped_since_.assign(ranks_.size(), kNever);
  }
  last_check_ = now;
  if (now - last_host_check_ >= kHostCheck) {
    Loss loss = check_host(now);
    if (loss.rank >= 0) return loss;
  }
  for (size_t r = 0; r < ranks_.size(); ++r)
    if (heard_directly_[r] && now - last_heard_[r] > options_.silence)
      return {static_cast<int>(r), cat("has not answered for ", options_.silence.count() / 1000, " seconds: it is frozen, or its host is down or cannot be reached"), false};
  return {};
}

Liveness::Loss Liveness::unheard_since(Clock::time_point then) const {
  for (size_t r = 0; r < ranks_.size(); ++r)
    if (heard_directly_[r] && last_heard_[r] < then) return {static_cast<int>(r), "was killed or has crashed, or its host is down", false};
  return {};
}

int Liveness::speaker(const Loss& loss) const {
  for (int r = 0; loss.on_host && r < static_cast<int>(ranks_.size()); ++r)
    if (r != loss.rank && same_host(r, loss.rank)) return r;
  return loss.rank == 0 ? 1 : 0;
}

}  // namespace eng
