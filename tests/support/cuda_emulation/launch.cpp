// Kernel launches: the checks of the runtime, translation of the arguments' device pointers to their twins, and the run of all blocks by fibres.cpp with a
// handler for faults, so that a kernel that runs out of bounds is a violation and a lost device, as on hardware.
#include <setjmp.h>
#include <signal.h>

#include "tests/support/cuda_emulation/device.h"
#include "tests/support/cuda_emulation/fibres.h"
#include "tests/support/cuda_emulation/world.h"

namespace eng_emulation {

namespace {

std::map<const void*, size_t>& shared_limits() {  // by kernel, set by cudaFuncSetAttribute; guarded by the world's mutex
  static auto* limits = new std::map<const void*, size_t>;
  return *limits;
}

constexpr size_t kSharedDefault = 48 << 10, kSharedMost = 227 << 10;

// Calls f(address, typed, constant) for every 8 aligned bytes of the arguments whose value is device memory, and for every pointer argument.
template <class F>
void each_pointer(const Launch& launch, F f) {
  for (const ArgumentBytes& span : launch.spans)
    for (size_t i = 0; i + sizeof(uintptr_t) <= span.bytes; i += sizeof(uintptr_t)) f(*reinterpret_cast<uintptr_t*>(static_cast<char*>(span.data) + i), span.pointer, span.constant);
}

std::string size_text(dim3 d) { return std::to_string(d.x) + "x" + std::to_string(d.y) + "x" + std::to_string(d.z); }

bool configuration_fits(const LaunchShape& s, const void* kernel, const std::string& what) {
  const auto limit = shared_limits().find(kernel);
  const size_t shared = limit == shared_limits().end() ? kSharedDefault : limit->second;
  const bool block = s.block.x >= 1 && s.block.y >= 1 && s.block.z >= 1 && s.block.z <= 64 && uint64_t{s.block.x} * s.block.y * s.block.z <= 1024;
  const bool grid = s.grid.x >= 1 && s.grid.y >= 1 && s.grid.z >= 1 && s.grid.x <= 0x7fffffffu && s.grid.y <= 65535 && s.grid.z <= 65535;
  if (block && grid && s.shared <= shared) return true;
  report_locked(what + ": grid " + size_text(s.grid) + ", block " + size_text(s.block) + ", " + std::to_string(s.shared) + " bytes of dynamic shared memory (at most " +
                std::to_string(shared) + " for this kernel): the device does not take that");
  return false;
}

// ---- faults ----

thread_local sigjmp_buf* escape = nullptr;  // where a fault of this thread's kernel goes
thread_local uintptr_t fault_address = 0;
struct sigaction segv_before, bus_before;

void on_fault(int signal, siginfo_t* info, void*) {
  if (escape) {
    fault_address = reinterpret_cast<uintptr_t>(info->si_addr);
    siglongjmp(*escape, 1);
  }
  sigaction(signal, signal == SIGSEGV ? &segv_before : &bus_before, nullptr);  // not ours: it comes again and goes where it went before
}

void run_guarded(const LaunchShape& shape, const std::function<void()>& body, uint64_t seed, const std::string& what) {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &segv_before);
  sigaction(SIGBUS, &action, &bus_before);
  sigjmp_buf here;
  bool failed = false;
  if (sigsetjmp(here, 1) == 0) {
    escape = &here;
    failed = !run_blocks(shape, body, seed, what);
  } else {
    back_after_fault(__builtin_frame_address(0));
    const uint3 block = this_thread->block, thread = this_thread->thread;
    std::lock_guard<std::mutex> lock(world().mutex);
    report_locked(what + ": block " + size_text({block.x, block.y, block.z}) + ", thread " + size_text({thread.x, thread.y, thread.z}) + " touches " +
                  describe_address_locked(fault_address));
    failed = true;
  }
  escape = nullptr;
  sigaction(SIGSEGV, &segv_before, nullptr);
  sigaction(SIGBUS, &bus_before, nullptr);
  if (failed) throw OperationFailed{};
}

// Whether the address lies in memory that is there: eight bytes of a struct that only look like an address (padding, numbers) do not.
bool in_live_block_locked(int device, uintptr_t address) {
  const auto& blocks = world().devices[static_cast<size_t>(device)]->blocks;
  const auto after = blocks.upper_bound(address);
  return after != blocks.begin() && !std::prev(after)->second.freed && address <= std::prev(after)->second.end;
}

}  // namespace

cudaError_t enqueue_launch(const LaunchShape& shape, const void* kernel, Launch launch) {
  World& w = world();
  std::lock_guard<std::mutex> lock(w.mutex);
  const std::string what = "kernel " + std::string(launch.types) + " launched at " + std::string(shape.file) + ":" + std::to_string(shape.line);
  CUstream_st* stream = stream_of_current_device_locked(shape.stream, what.c_str());
  if (!stream) return set_error(cudaErrorInvalidResourceHandle);
  const int device = stream->device;
  if (const cudaError_t lost = w.devices[static_cast<size_t>(device)]->lost; lost != cudaSuccess) return set_error(lost);
  if (!configuration_fits(shape, kernel, what)) return set_error(cudaErrorInvalidConfiguration);
  Operation op;
  op.what = what;
  each_pointer(launch, [&](uintptr_t address, bool typed, bool constant) {
    // How far the kernel reaches is not known, nor what it does with a struct's pointers: the race check looks at the first byte, for those as a read.
    if (device_of_address_locked(address) >= 0) op.spans.push_back({reinterpret_cast<const void*>(address), 1, typed && !constant});
  });
  op.run = [shape, launch, device, what, seed = w.random()] {
    {
      std::lock_guard<std::mutex> held(world().mutex);
      bool good = true;
      each_pointer(launch, [&](uintptr_t& address, bool typed, bool) {
        if (const int owner = device_of_address_locked(address); owner >= 0) {
          if (!typed && !in_live_block_locked(owner, address)) return;  // used as a pointer after all, it faults
          if (check_range_locked(device, reinterpret_cast<const void*>(address), 0, what)) address += kTwin;
          else good = false;
        } else if (typed && address != 0 && !is_pinned_locked(reinterpret_cast<const void*>(address), 1)) {
          report_locked(what + ": a pointer argument is host memory");
          good = false;
        }
      });
      if (!good) throw OperationFailed{};
      ++world().kernels;
    }
    run_guarded(shape, launch.body, seed, what);
  };
  enqueue_locked(stream, std::move(op));
  return cudaSuccess;
}

}  // namespace eng_emulation

using namespace eng_emulation;

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || static_cast<size_t>(value) > kSharedMost) return set_error(cudaErrorInvalidValue);
  shared_limits()[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  std::lock_guard<std::mutex> lock(world().mutex);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  const auto limit = shared_limits().find(kernel);
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(limit == shared_limits().end() ? kSharedDefault : limit->second);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size, size_t shared) {
  if (block_size < 1 || block_size > 1024) return set_error(cudaErrorInvalidValue);
  *blocks = std::min(32, 2048 / ((block_size + 31) / 32 * 32));
  if (shared > 0) *blocks = static_cast<int>(std::min<size_t>(static_cast<size_t>(*blocks), (size_t{228} << 10) / shared));
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  report("cudaLaunchKernel: the emulation knows kernels launched through backends/cuda/launch.h only");
  return set_error(cudaErrorNotSupported);
}
