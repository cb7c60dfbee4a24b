// See counting_backend.h.
#include "tests/support/counting_backend.h"

#include <map>
#include <mutex>

#include "backends/cpu/entry.h"

namespace eng::test {
namespace {

std::mutex mutex;
std::map<void*, uint64_t> blocks;
DeviceAllocations totals;

int32_t allocate(eb_device* device, uint64_t bytes, void** pointer, eb_error* error) {
  const int32_t code = eb_cpu_backend()->memory->allocate(device, bytes, pointer, error);
  std::lock_guard lock(mutex);
  ++totals.calls;
  if (code == EB_OK) blocks[*pointer] = bytes, totals.bytes += bytes;
  return code;
}

void release(eb_device* device, void* pointer) {
  {
    std::lock_guard lock(mutex);
    totals.bytes -= blocks[pointer];
    blocks.erase(pointer);
  }
  eb_cpu_backend()->memory->release(device, pointer);
}

}  // namespace

const eb_backend_table* counting_backend() {
  static const eb_memory_table memory = [] {
    eb_memory_table m = *eb_cpu_backend()->memory;
    m.allocate = allocate;
    m.release = release;
    return m;
  }();
  static const eb_backend_table table = [] {
    eb_backend_table t = *eb_cpu_backend();
    t.memory = &memory;
    return t;
  }();
  return &table;
}

DeviceAllocations device_allocations() {
  std::lock_guard lock(mutex);
  return totals;
}

}  // namespace eng::test
