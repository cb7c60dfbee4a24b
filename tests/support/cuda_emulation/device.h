// The device language for a host compiler: what backends/cuda/launch.h promises to kernels. Blocks run one after another, the threads of a block
// as fibres that change over at barriers and warp operations (fibres.cpp). All of it runs on one thread of the process, so an atomic is a plain
// operation. Order of blocks and of threads comes from the seed: a kernel that needs a barrier it does not have gives wrong values for some seed.
#pragma once

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static_assert(false, "shared memory is declared by ENG_SHARED or ENG_DYNAMIC_SHARED");

namespace eng_emulation {

struct Thread {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
// The emulated thread that runs now.
extern thread_local Thread* this_thread __attribute__((tls_model("initial-exec")));

struct LaunchShape {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
  const char* file;
  int line;
};

// A span of the argument block in which pointers are looked for.
struct ArgumentBytes {
  void* data;
  size_t bytes;
  bool pointer, constant;  // the argument itself is a pointer; to const
};
// The arguments are copied when the launch is enqueued; the runner makes device pointers in `spans` usable on the host, then calls `body` once a thread.
struct Launch {
  std::shared_ptr<void> arguments;
  std::vector<ArgumentBytes> spans;
  std::function<void()> body;
  const char* types;  // of the arguments, for messages
};
cudaError_t enqueue_launch(const LaunchShape& shape, const void* kernel, Launch launch);

// "[with P = {float*, int}; ...]"
template <class... P>
const char* type_text() {
  const char* all = __PRETTY_FUNCTION__;
  const char* from = std::strchr(all, '[');
  return from ? from : all;
}

// Gaps between a struct's members hold what was there before, old pointers too: they are no arguments.
template <class T>
ArgumentBytes argument_bytes(T& argument) {
  if constexpr (std::is_class_v<T>) __builtin_clear_padding(&argument);
  return {&argument, sizeof(T), std::is_pointer_v<T>, std::is_const_v<std::remove_pointer_t<T>>};
}

template <class... P>
cudaError_t launch(const LaunchShape& shape, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  static_assert((std::is_trivially_copyable_v<P> && ...), "kernel arguments are copied bytes");
  auto held = std::make_shared<std::tuple<P...>>(arguments...);
  Launch made{held, {}, [held, kernel] { std::apply(kernel, *held); }, type_text<P...>()};
  std::apply([&](auto&... each) { (made.spans.push_back(argument_bytes(each)), ...); }, *held);
  return enqueue_launch(shape, reinterpret_cast<const void*>(kernel), std::move(made));
}

// Shared memory of the running block, by the address of a static object at the place of declaration.
void* shared_memory(const void* key, size_t bytes);
void* dynamic_shared_memory();

void sync_threads(const char* file, int line);
enum class WarpOperation { kShuffle, kBallot };
// Waits for the mask's lanes. kShuffle: the value of lane `source`; kBallot: the lanes whose value is not zero.
uint64_t warp_operation(WarpOperation operation, unsigned mask, uint64_t value, int source, const char* file, int line);
unsigned active_mask();
int lane();

template <class T>
T shuffle(unsigned mask, T value, int source, const char* file, int line) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_operation(WarpOperation::kShuffle, mask, bits, source, file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T, class F>
T fetch_and(T* address, F f) {
  const T old = *address;
  *address = f(old);
  return old;
}

}  // namespace eng_emulation

#define ENG_SHARED(type, name, extents)              \
  using name##_shared_type = type extents;           \
  static const char name##_shared_key = 0;           \
  name##_shared_type& name = *static_cast<name##_shared_type*>(::eng_emulation::shared_memory(&name##_shared_key, sizeof(name##_shared_type)))
#define ENG_DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(::eng_emulation::dynamic_shared_memory())

#define threadIdx (::eng_emulation::this_thread->thread)
#define blockIdx (::eng_emulation::this_thread->block)
#define blockDim (::eng_emulation::this_thread->block_size)
#define gridDim (::eng_emulation::this_thread->grid_size)
inline constexpr int warpSize = 32;

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { eng_emulation::sync_threads(file, line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  eng_emulation::warp_operation(eng_emulation::WarpOperation::kBallot, mask, 0, 0, file, line);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned __activemask() { return eng_emulation::active_mask(); }

// Sources outside of the caller's segment of `width` lanes give the caller's own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int segment = eng_emulation::lane() & ~(width - 1);
  return eng_emulation::shuffle(mask, value, segment + (source & (width - 1)), file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int at = eng_emulation::lane(), source = at - static_cast<int>(delta);
  return eng_emulation::shuffle(mask, value, source < (at & ~(width - 1)) ? at : source, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int at = eng_emulation::lane(), source = at + static_cast<int>(delta);
  return eng_emulation::shuffle(mask, value, source > (at | (width - 1)) ? at : source, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const int at = eng_emulation::lane(), source = at ^ lanes;
  return eng_emulation::shuffle(mask, value, source > (at | (width - 1)) ? at : source, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return static_cast<unsigned>(eng_emulation::warp_operation(eng_emulation::WarpOperation::kBallot, mask, predicate != 0, 0, file, line));
}
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}

template <class T> T atomicAdd(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return static_cast<T>(old + v); }); }
template <class T> T atomicSub(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return static_cast<T>(old - v); }); }
template <class T> T atomicMax(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return std::max(old, v); }); }
template <class T> T atomicMin(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return std::min(old, v); }); }
template <class T> T atomicExch(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T) { return v; }); }
template <class T> T atomicOr(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return static_cast<T>(old | v); }); }
template <class T> T atomicAnd(T* to, std::type_identity_t<T> v) { return eng_emulation::fetch_and(to, [=](T old) { return static_cast<T>(old & v); }); }
template <class T> T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return eng_emulation::fetch_and(to, [=](T old) { return old == expected ? v : old; });
}

template <class T> T __ldg(const T* from) { return *from; }
inline float __int_as_float(int v) { float f; std::memcpy(&f, &v, 4); return f; }
inline int __float_as_int(float v) { int i; std::memcpy(&i, &v, 4); return i; }
inline float __uint_as_float(unsigned v) { float f; std::memcpy(&f, &v, 4); return f; }
inline unsigned __float_as_uint(float v) { unsigned i; std::memcpy(&i, &v, 4); return i; }
inline long long __double_as_longlong(double v) { long long i; std::memcpy(&i, &v, 8); return i; }
inline double __longlong_as_double(long long v) { double d; std::memcpy(&d, &v, 8); return d; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }

template <class T> constexpr T min(T a, std::type_identity_t<T> b) { return b < a ? b : a; }
template <class T> constexpr T max(T a, std::type_identity_t<T> b) { return a < b ? b : a; }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline double rsqrt(double v) { return 1.0 / std::sqrt(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __logf(float v) { return std::log(v); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __sinf(float v) { return std::sin(v); }
inline float __cosf(float v) { return std::cos(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fsqrt_rn(float v) { return std::sqrt(v); }
inline float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
