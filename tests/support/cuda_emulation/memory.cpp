// Device and pinned memory. A block lies between guard pages: its end, rounded up to 256 bytes, is the end of a page, so that a kernel that runs over faults;
// the bytes before it and up to the rounding are red zones of a known pattern. Freed addresses are not given out again. Fresh memory is poisoned.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "tests/support/cuda_emulation/world.h"

namespace eng_emulation {

namespace {

constexpr size_t kPage = 4096, kAlignment = 256;
constexpr unsigned char kRedZone = 0xA7;

uintptr_t round_up(uintptr_t value, size_t to) { return (value + to - 1) / to * to; }
void* twin(uintptr_t address) { return reinterpret_cast<void*>(address + kTwin); }

void poison(void* to, size_t bytes) { std::fill_n(static_cast<uint32_t*>(to), bytes / 4, kPoison32); }

std::string hex(uintptr_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

Block* block_near_locked(uintptr_t address) {
  const int device = device_of_address_locked(address);
  if (device < 0) return nullptr;
  auto& blocks = world().devices[static_cast<size_t>(device)]->blocks;
  auto after = blocks.upper_bound(address);
  Block* next = after == blocks.end() ? nullptr : &after->second;
  Block* before = after == blocks.begin() ? nullptr : &std::prev(after)->second;
  if (!before) return next;
  if (address < before->end || !next) return before;
  return address - before->end <= next->begin - address ? before : next;
}

}  // namespace

void map_devices(World& w) {
  const int count = std::clamp(w.settings.devices, 0, kMostDevices);
  constexpr size_t kAll = kDeviceSpace * kMostDevices;
  static_assert(kAll <= kTwin);
  if (w.base) {
    munmap(reinterpret_cast<void*>(w.base), kAll);
    munmap(twin(w.base), kAll);
  }
  // More than one emulation may live in a process (a plugin and the test that loads it): the first free place.
  w.base = 0;
  for (uintptr_t base = uintptr_t{0x20} << 40; base < uintptr_t{0x60} << 40 && !w.base; base += 2 * kTwin) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* seen = mmap(reinterpret_cast<void*>(base), kAll, PROT_NONE, kFlags, -1, 0);
    if (seen == MAP_FAILED) continue;
    void* used = mmap(twin(base), kAll, PROT_NONE, kFlags, -1, 0);
    if (used != MAP_FAILED) w.base = base;
    else munmap(seen, kAll);
  }
  for (auto& [begin, bytes] : w.pinned) munmap(reinterpret_cast<void*>(begin / kPage * kPage), round_up(bytes, kPage));
  w.pinned.clear();
  w.devices.clear();
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<Device>();
    device->base = w.base + static_cast<uintptr_t>(i) * kDeviceSpace;
    device->next = device->base + (1 << 20);
    device->limit = w.base ? device->base + kDeviceSpace : device->next;
    w.devices.push_back(std::move(device));
  }
}

int device_of_address_locked(uintptr_t address) {
  const World& w = world();
  if (!w.base || address < w.base || address >= w.base + w.devices.size() * kDeviceSpace) return -1;
  return static_cast<int>((address - w.base) / kDeviceSpace);
}

std::string describe_address_locked(uintptr_t address) {
  const World& w = world();
  if (w.base && address >= w.base + kTwin && address < w.base + kTwin + w.devices.size() * kDeviceSpace) address -= kTwin;
  const Block* block = block_near_locked(address);
  if (device_of_address_locked(address) < 0) return hex(address) + " is no device memory";
  if (!block) return hex(address) + " is in no block of device " + std::to_string(device_of_address_locked(address));
  std::string out = hex(address) + " is ";
  if (address < block->begin) out += std::to_string(block->begin - address) + " bytes before";
  else if (address >= block->end) out += std::to_string(address - block->end) + " bytes past the end of";
  else out += std::to_string(address - block->begin) + " bytes into";
  return out + (block->freed ? " a freed block of " : " a block of ") + std::to_string(block->end - block->begin) + " bytes on device " + std::to_string(block->device);
}

Block* check_range_locked(int device, const void* pointer, size_t bytes, const std::string& what) {
  World& w = world();
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const int owner = device_of_address_locked(begin);
  if (owner < 0) {
    report_locked(what + ": " + (pointer ? hex(begin) : "a null pointer") + " is no device memory");
    return nullptr;
  }
  auto& blocks = w.devices[static_cast<size_t>(owner)]->blocks;
  auto after = blocks.upper_bound(begin);
  Block* block = after == blocks.begin() ? nullptr : &std::prev(after)->second;
  if (!block || begin > block->end || block->freed || bytes > block->end - begin) {
    const std::string where = describe_address_locked(block && !block->freed && begin <= block->end ? begin + bytes : begin);
    report_locked(what + (block && block->freed && begin < block->end ? ": freed memory: " : ": out of bounds: ") + std::to_string(bytes) + " bytes at " + hex(begin) + ": " + where);
    return nullptr;
  }
  if (device >= 0 && owner != device && !w.devices[static_cast<size_t>(device)]->peers.count(owner)) {
    report_locked(what + ": runs on device " + std::to_string(device) + " and was given memory of device " + std::to_string(owner) + " without peer access");
    return nullptr;
  }
  return block;
}

void check_red_zones_locked(int device, const std::string& what) {
  for (auto& [key, block] : world().devices[static_cast<size_t>(device)]->blocks) {
    if (block.freed) continue;
    const auto check = [&](uintptr_t from, uintptr_t to) {
      auto* bytes = static_cast<unsigned char*>(twin(from));
      if (from == to || (bytes[0] == kRedZone && std::memcmp(bytes, bytes + 1, to - from - 1) == 0)) return;
      for (uintptr_t at = from; at < to; ++at)
        if (bytes[at - from] != kRedZone) {
          report_locked(what + ": wrote out of bounds: " + describe_address_locked(at));
          std::memset(bytes, kRedZone, to - from);
          return;
        }
    };
    check(block.map_begin, block.begin);
    check(block.end, block.map_end);
  }
}

void* reach(int device, const void* pointer, size_t bytes, const char* what) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (!check_range_locked(device, pointer, bytes, what)) throw OperationFailed{};
  return twin(reinterpret_cast<uintptr_t>(pointer));
}

void poisoned_read(const std::string& what) { report(what + ": reads memory that was never written"); }

}  // namespace eng_emulation

using namespace eng_emulation;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  if (w.devices.empty()) return set_error(cudaErrorNoDevice);
  Device& device = *w.devices[static_cast<size_t>(current_device())];
  if (device.lost != cudaSuccess) return set_error(device.lost);
  if (!pointer) return set_error(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const bool refused = ++w.allocations == static_cast<uint64_t>(w.settings.fail_allocation);
  const size_t mapped = round_up(bytes > kDeviceSpace ? 0 : kAlignment + round_up(bytes, kAlignment), kPage);
  if (refused || bytes > w.settings.memory || round_up(bytes, kAlignment) > w.settings.memory - device.used || mapped + kPage > device.limit - device.next)
    return set_error(cudaErrorMemoryAllocation);
  Block block{};
  block.map_begin = device.next;
  block.map_end = block.map_begin + mapped;
  block.begin = block.map_end - round_up(bytes, kAlignment);
  block.end = block.begin + bytes;
  block.device = current_device();
  if (mprotect(twin(block.map_begin), mapped, PROT_READ | PROT_WRITE) != 0) return set_error(cudaErrorMemoryAllocation);
  std::memset(twin(block.map_begin), kRedZone, block.begin - block.map_begin);
  poison(twin(block.begin), round_up(bytes, kAlignment));
  std::memset(twin(block.end), kRedZone, block.map_end - block.end);
  device.next = block.map_end + kPage;
  device.used += round_up(bytes, kAlignment);
  *pointer = reinterpret_cast<void*>(block.begin);
  device.blocks.emplace(block.begin, std::move(block));
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  World& w = world();
  std::unique_lock<std::mutex> lock(w.mutex);
  if (!pointer) return cudaSuccess;
  const int owner = device_of_address_locked(reinterpret_cast<uintptr_t>(pointer));
  Device* device = owner < 0 ? nullptr : w.devices[static_cast<size_t>(owner)].get();
  if (!device || !device->blocks.count(reinterpret_cast<uintptr_t>(pointer)) || device->blocks.at(reinterpret_cast<uintptr_t>(pointer)).freed) {
    report_locked("cudaFree: not the begin of a live block: " + describe_address_locked(reinterpret_cast<uintptr_t>(pointer)));
    return set_error(cudaErrorInvalidValue);
  }
  const cudaError_t before = wait_for_device(lock, owner);  // as the driver does
  check_red_zones_locked(owner, "cudaFree");
  Block& block = device->blocks.at(reinterpret_cast<uintptr_t>(pointer));
  block.freed = true;
  block.accesses.clear();
  device->used -= round_up(block.end - block.begin, kAlignment);
  madvise(twin(block.map_begin), block.map_end - block.map_begin, MADV_DONTNEED);
  mprotect(twin(block.map_begin), block.map_end - block.map_begin, PROT_NONE);
  return set_error(before);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  if (w.devices.empty()) return set_error(cudaErrorNoDevice);
  const Device& device = *w.devices[static_cast<size_t>(current_device())];
  *total = w.settings.memory;
  *free_bytes = w.settings.memory - device.used;
  return set_error(device.lost);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  if (w.devices.empty()) return set_error(cudaErrorNoDevice);
  if (!pointer) return set_error(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* made = mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return set_error(cudaErrorMemoryAllocation);
  poison(made, round_up(bytes, kPage));
  w.pinned[reinterpret_cast<uintptr_t>(made)] = bytes;
  *pointer = made;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  World& w = world();
  std::unique_lock<std::mutex> lock(w.mutex);
  if (!pointer) return cudaSuccess;
  const auto found = w.pinned.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == w.pinned.end()) {
    report_locked("cudaFreeHost: not the begin of live pinned memory: " + hex(reinterpret_cast<uintptr_t>(pointer)));
    return set_error(cudaErrorInvalidValue);
  }
  const size_t bytes = found->second;
  if (host_range_pending_locked(pointer, bytes)) report_locked("cudaFreeHost: a copy that has not run yet still uses the memory");
  for (size_t i = 0; i < w.devices.size(); ++i) wait_for_device(lock, static_cast<int>(i));
  w.pinned.erase(reinterpret_cast<uintptr_t>(pointer));
  munmap(pointer, round_up(bytes, kPage));
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  if (!pointer || bytes == 0) return set_error(cudaErrorInvalidValue);
  if (!w.registered.emplace(reinterpret_cast<uintptr_t>(pointer), bytes).second) return set_error(cudaErrorHostMemoryAlreadyRegistered);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* pointer) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  const auto found = w.registered.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == w.registered.end()) return set_error(cudaErrorHostMemoryNotRegistered);
  if (host_range_pending_locked(pointer, found->second)) report_locked("cudaHostUnregister: a copy that has not run yet still uses the memory");
  w.registered.erase(found);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  *attributes = {};
  attributes->device = device_of_address_locked(reinterpret_cast<uintptr_t>(pointer));
  if (attributes->device >= 0) attributes->type = cudaMemoryTypeDevice, attributes->devicePointer = const_cast<void*>(pointer);
  else attributes->type = is_pinned_locked(pointer, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered, attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

bool eng_emulation::is_pinned_locked(const void* pointer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  for (const auto* ranges : {&world().pinned, &world().registered}) {
    auto after = ranges->upper_bound(begin);
    if (after != ranges->begin() && begin + bytes <= std::prev(after)->first + std::prev(after)->second) return true;
  }
  return false;
}
