// See allocation_counter.h.
#include "tests/support/allocation_counter.h"

#include <link.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)  // of the sanitizer's allocator interface, whose header GCC does not bring along
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t), void (*on_free)(const volatile void*));
#endif

namespace {

std::atomic<uint64_t> count{0}, count_onednn{0};

struct Range {
  uintptr_t begin = 0, end = 0;
};

// Where oneDNN's code lies. Called before any thread allocates (static storage, no allocation here).
Range find_onednn() {
  Range found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (!std::strstr(info->dlpi_name, "libdnnl")) return 0;
        Range& r = *static_cast<Range*>(out);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          r.begin = info->dlpi_addr + segment.p_vaddr;
          r.end = r.begin + segment.p_memsz;
        }
        return 1;
      },
      &found);
  return found;
}

[[maybe_unused]] void tally(void* caller) {
  static const Range onednn = find_onednn();
  const auto at = reinterpret_cast<uintptr_t>(caller);
  (at >= onednn.begin && at < onednn.end ? count_onednn : count).fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] void* counted(std::size_t bytes, void* caller) {
  tally(caller);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[maybe_unused]] void* counted_aligned(std::size_t bytes, std::size_t alignment, void* caller) {
  tally(caller);
  if (void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)) return p;
  throw std::bad_alloc();
}

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)
void* operator new(std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, std::align_val_t a) { return counted_aligned(bytes, static_cast<std::size_t>(a), __builtin_return_address(0)); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return counted_aligned(bytes, static_cast<std::size_t>(a), __builtin_return_address(0)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  tally(__builtin_return_address(0));
  return std::malloc(bytes ? bytes : 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  tally(__builtin_return_address(0));
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace eng::test {

bool onednn_is_counted_apart() {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return true;
#endif
}

uint64_t allocations_so_far() {
#if defined(__SANITIZE_ADDRESS__)
  static const int installed = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, size_t) { count.fetch_add(1, std::memory_order_relaxed); }, [](const volatile void*) {});
  (void)installed;
#endif
  return count.load();
}
uint64_t onednn_allocations_so_far() { return count_onednn.load(); }

}  // namespace eng::test
