// Settings, report, objects and reset of the emulation.
#include "tests/support/cuda_emulation/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace eng_emulation {

namespace {

long number(const char* name, long fallback) {
  const char* value = std::getenv((std::string("CUDA_EMULATION_") + name).c_str());
  return value && *value ? std::atol(value) : fallback;
}

std::vector<std::string> leaks_locked() {
  std::vector<std::string> out;
  World& w = world();
  for (const auto& device : w.devices)
    for (const auto& [begin, block] : device->blocks)
      if (!block.freed) out.push_back("device memory of " + std::to_string(block.end - block.begin) + " bytes on device " + std::to_string(block.device));
  for (const auto& [begin, bytes] : w.pinned) out.push_back("pinned host memory of " + std::to_string(bytes) + " bytes");
  std::vector<const Object*> alive;
  for (const auto& [handle, object] : w.objects) {
    const auto* stream = dynamic_cast<const CUstream_st*>(object.get());
    if (object->alive && !(stream && stream->legacy)) alive.push_back(object.get());
  }
  std::sort(alive.begin(), alive.end(), [](const Object* a, const Object* b) { return a->number < b->number; });
  for (const Object* object : alive) out.push_back(std::string(object->kind) + ", object " + std::to_string(object->number) + ", of device " + std::to_string(object->device));
  return out;
}

void append_to_report(const std::string& line) {
  std::fprintf(stderr, "cuda emulation: %s\n", line.c_str());
  if (const char* path = std::getenv("CUDA_EMULATION_REPORT"); path && *path)
    if (std::FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", line.c_str());
      std::fclose(file);
    }
}

// At exit. The worker stops first: it must not run into what is being destroyed.
void report_leaks() {
  World& w = world();
  std::unique_lock<std::mutex> lock(w.mutex);
  w.stopping = true;
  while (w.running) w.passed.wait(lock);
  for (const std::string& leak : leaks_locked()) append_to_report("leaked: " + leak);
}

}  // namespace

Settings settings_of_environment() {
  Settings s;
  s.devices = static_cast<int>(number("DEVICES", s.devices));
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {  // as the driver does: up to the first number that is none of a device
    int32_t at = 0, read = 0;
    for (const char* p = visible; std::sscanf(p, "%d%n", &at, &read) == 1 && at >= 0 && at < s.devices; p += read + (p[read] == ',')) s.visible.push_back(at);
    s.devices = static_cast<int>(s.visible.size());
  }
  s.memory = static_cast<size_t>(number("MEMORY", static_cast<long>(s.memory)));
  const long capability = number("CAPABILITY", s.major * 10 + s.minor);
  s.major = static_cast<int>(capability / 10), s.minor = static_cast<int>(capability % 10);
  s.driver = static_cast<int>(number("DRIVER", s.driver));
  if (const char* missing = std::getenv("CUDA_EMULATION_MISSING")) s.missing = missing;
  if (const char* unsupported = std::getenv("CUDA_EMULATION_UNSUPPORTED")) s.unsupported = unsupported;
  s.peers = number("PEERS", s.peers) != 0;
  if (const char* order = std::getenv("CUDA_EMULATION_ORDER"))
    s.order = std::string(order) == "random" ? Order::kRandom : std::string(order) == "eager" ? Order::kEager : Order::kLazy;
  s.seed = static_cast<uint64_t>(number("SEED", static_cast<long>(s.seed)));
  s.grace_ms = static_cast<int>(number("GRACE_MS", s.grace_ms));
  s.hang_seconds = static_cast<int>(number("HANG_SECONDS", s.hang_seconds));
  s.fail_allocation = number("FAIL_ALLOCATION", 0);
  s.fail_operation = number("FAIL_OPERATION", 0);
  s.hang_operation = number("HANG_OPERATION", 0);
  return s;
}

World& world() {
  static World* the = [] {
    auto* made = new World;  // never deleted: the worker outlives main
    made->settings = settings_of_environment();
    made->random.seed(made->settings.seed);
    map_devices(*made);
    std::atexit(report_leaks);
    return made;
  }();
  return *the;
}

bool is_among(const std::string& word, const std::string& list) { return ("," + list + ",").find("," + word + ",") != std::string::npos; }

bool is_missing(const std::string& library) {
  std::lock_guard<std::mutex> lock(world().mutex);
  return is_among(library, world().settings.missing);
}

void report_locked(const std::string& text) {
  world().violations.push_back(text);
  append_to_report(text);
  if (number("ABORT", 0) != 0) std::abort();
}

void report(const std::string& text) {
  std::lock_guard<std::mutex> lock(world().mutex);
  report_locked(text);
}

std::vector<std::string> violations() {
  std::lock_guard<std::mutex> lock(world().mutex);
  return world().violations;
}

void clear_violations() {
  std::lock_guard<std::mutex> lock(world().mutex);
  world().violations.clear();
}

std::vector<std::string> leaks() {
  std::lock_guard<std::mutex> lock(world().mutex);
  return leaks_locked();
}

Counts counts() {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  Counts c{};
  for (const auto& device : w.devices)
    for (const auto& [begin, block] : device->blocks)
      if (!block.freed) ++c.device_blocks, c.device_bytes += block.end - block.begin;
  c.pinned_blocks = w.pinned.size();
  for (const auto& [handle, object] : w.objects) {
    if (!object->alive) continue;
    const std::string kind = object->kind;
    const auto* stream = dynamic_cast<const CUstream_st*>(object.get());
    if (stream) c.streams += !stream->legacy;
    else if (kind == "event") ++c.events;
    else if (kind == "communicator") ++c.communicators;
    else if (kind.find("handle") != std::string::npos) ++c.handles;
    else ++c.descriptors;
  }
  for (const CUstream_st* stream : w.streams) c.pending += stream->queue.size();
  c.operations = w.operations;
  c.kernels = w.kernels;
  return c;
}

void reset(const Settings& settings) {
  World& w = world();
  std::unique_lock<std::mutex> lock(w.mutex);
  for (size_t i = 0; i < w.devices.size(); ++i) wait_for_device(lock, static_cast<int>(i));
  while (w.running) w.passed.wait(lock);
  w.settings = settings;
  w.random.seed(settings.seed);
  w.streams.clear();
  w.objects.clear();
  w.violations.clear();
  w.registered.clear();
  w.host.clear();
  w.operations = w.kernels = w.allocations = w.started = 0;
  map_devices(w);
}

Object* find_object_locked(const void* handle, const char* call) {
  World& w = world();
  const auto found = w.objects.find(handle);
  if (handle == nullptr || found == w.objects.end()) {
    report_locked(std::string(call) + ": the handle given was never made" + (handle ? "" : " (null)"));
    return nullptr;
  }
  if (!found->second->alive) {
    report_locked(std::string(call) + ": the " + found->second->kind + " given was destroyed");
    return nullptr;
  }
  return found->second.get();
}

}  // namespace eng_emulation
