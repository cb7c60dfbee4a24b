// See library.h.
#include "tests/support/cuda_emulation/library.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace eng_emulation {

namespace {

template <class T>
double get_as(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}
template <class T>
void put_as(void* to, double value) {
  T typed;
  if constexpr (std::is_integral_v<T>) typed = static_cast<T>(std::clamp(std::nearbyint(value), static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())));
  else typed = static_cast<T>(value);
  std::memcpy(to, &typed, sizeof typed);
}

}  // namespace

size_t size_of(Type type) {
  switch (type) {
    case Type::kDouble: case Type::kInt64: case Type::kUint64: return 8;
    case Type::kHalf: case Type::kBfloat16: return 2;
    case Type::kInt8: case Type::kUint8: return 1;
    default: return 4;
  }
}

const char* name_of(Type type) {
  constexpr const char* kNames[] = {"float", "double", "half", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64"};
  return kNames[static_cast<int>(type)];
}

double get(Type type, const void* from) {
  switch (type) {
    case Type::kFloat: return get_as<float>(from);
    case Type::kDouble: return get_as<double>(from);
    case Type::kHalf: { __half h; std::memcpy(&h, from, 2); return __half2float(h); }
    case Type::kBfloat16: { __nv_bfloat16 b; std::memcpy(&b, from, 2); return __bfloat162float(b); }
    case Type::kInt8: return get_as<int8_t>(from);
    case Type::kUint8: return get_as<uint8_t>(from);
    case Type::kInt32: return get_as<int32_t>(from);
    case Type::kUint32: return get_as<uint32_t>(from);
    case Type::kInt64: return get_as<int64_t>(from);
    case Type::kUint64: return get_as<uint64_t>(from);
  }
  return 0;
}

void put(Type type, void* to, double value) {
  switch (type) {
    case Type::kFloat: return put_as<float>(to, value);
    case Type::kDouble: return put_as<double>(to, value);
    case Type::kHalf: { const __half h = __double2half(value); std::memcpy(to, &h, 2); return; }
    case Type::kBfloat16: { const __nv_bfloat16 b = __double2bfloat16(value); std::memcpy(to, &b, 2); return; }
    case Type::kInt8: return put_as<int8_t>(to, value);
    case Type::kUint8: return put_as<uint8_t>(to, value);
    case Type::kInt32: return put_as<int32_t>(to, value);
    case Type::kUint32: return put_as<uint32_t>(to, value);
    case Type::kInt64: return put_as<int64_t>(to, value);
    case Type::kUint64: return put_as<uint64_t>(to, value);
  }
}

bool is_poison(Type type, const void* from) {
  const size_t bytes = size_of(type);
  return bytes >= 2 && std::memcmp(from, &kPoison64, bytes) == 0;
}

double round_to_tf32(double value) {
  float f = static_cast<float>(value);
  if (!std::isfinite(f)) return f;
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  bits = (bits + 0x1000) & ~uint32_t{0x1FFF};
  std::memcpy(&f, &bits, 4);
  return f;
}

size_t Layout::count() const {
  size_t n = 1;
  for (const int64_t d : dims) n *= static_cast<size_t>(d);
  return n;
}

size_t Layout::extent() const {
  if (count() == 0) return 0;
  int64_t last = 0;
  for (size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return static_cast<size_t>(last + 1) * size_of(type);
}

Layout dense(Type type, const std::vector<int64_t>& dims) {
  Layout l{type, dims, std::vector<int64_t>(dims.size(), 1)};
  for (size_t d = dims.size(); d-- > 1;) l.strides[d - 1] = l.strides[d] * dims[d];
  return l;
}

Call::Call(const char* name, LibraryHandle* handle) : what(name) {
  if (!handle) {
    good = false;
    return;
  }
  device = handle->device;
  require(device == current_device(), "the handle is device " + std::to_string(device) + "'s, the current device is " + std::to_string(current_device()));
  require(handle->stream_set, "the handle was given no stream: the call would run on the default stream");
  if (!good) return;
  stream_ = stream_locked(handle->stream, name);
  good = stream_ != nullptr;
  if (!good) return;
  require(stream_->device == device, "the stream is device " + std::to_string(stream_->device) + "'s, the handle is device " + std::to_string(device) + "'s");
  lost = world().devices[static_cast<size_t>(device)]->lost;
}

void Call::require(bool condition, const std::string& otherwise) {
  if (condition || !good) return;
  report_locked(what + ": " + otherwise);
  good = false;
}

void Call::reads(const void* pointer, const Layout& layout) {
  require(reinterpret_cast<uintptr_t>(pointer) % size_of(layout.type) == 0, "an operand is not aligned to its element");
  if (layout.extent() > 0) operation_.spans.push_back({pointer, layout.extent(), false});
}

void Call::writes(void* pointer, const Layout& layout) {
  reads(pointer, layout);
  if (layout.extent() > 0) operation_.spans.back().write = true;
}

void Call::scratch(void* pointer, size_t bytes) {
  if (bytes == 0) return;
  operation_.spans.push_back({pointer, bytes, true});
  scratch_.emplace_back(pointer, bytes);
}

void Call::apart(const void* a, const Layout& of_a, const void* b, const Layout& of_b, const char* operands) {
  const auto *from = static_cast<const char*>(a), *to = static_cast<const char*>(b);
  require(from + of_a.extent() <= to || to + of_b.extent() <= from, std::string(operands) + " share memory");
}

void Call::submit(std::function<void(const Call&)> run) {
  if (!good || lost != cudaSuccess) return;
  operation_.what = what;
  Call self = *this;
  operation_.run = [self, run = std::move(run)] {
    for (const auto& [pointer, bytes] : self.scratch_) {
      auto* to = static_cast<char*>(reach(self.device, pointer, bytes, (self.what + ", workspace").c_str()));
      for (size_t i = 0; i < bytes; ++i) to[i] = reinterpret_cast<const char*>(&kPoison64)[i % 8];
    }
    run(self);
  };
  enqueue_locked(stream_, std::move(operation_));
}

std::vector<double> Call::load(const void* pointer, const Layout& layout, const char* operand) const {
  const std::string name = what + ", " + operand;
  std::vector<double> out;
  out.reserve(layout.count());
  if (layout.count() == 0) return out;
  const auto* from = static_cast<const char*>(reach(device, pointer, layout.extent(), name.c_str()));
  const auto size = static_cast<int64_t>(size_of(layout.type));
  bool poisoned = false;
  each_offset(layout, [&](int64_t offset) {
    poisoned = poisoned || is_poison(layout.type, from + offset * size);
    out.push_back(get(layout.type, from + offset * size));
  });
  if (poisoned) poisoned_read(name);
  return out;
}

void Call::store(void* pointer, const Layout& layout, const std::vector<double>& values, double alpha, double beta, const char* operand) const {
  const std::string name = what + ", " + operand;
  if (layout.count() == 0) return;
  auto* to = static_cast<char*>(reach(device, pointer, layout.extent(), name.c_str()));
  const auto size = static_cast<int64_t>(size_of(layout.type));
  size_t n = 0;
  bool poisoned = false;
  each_offset(layout, [&](int64_t offset) {
    char* at = to + offset * size;
    double value = alpha * values[n++];
    if (beta != 0) {
      poisoned = poisoned || is_poison(layout.type, at);
      value += beta * get(layout.type, at);
    }
    put(layout.type, at, value);
  });
  if (poisoned) poisoned_read(name);
}

void Call::disturb(std::vector<double>& values, Type type) const {
  if (type != Type::kFloat) return;
  std::unique_lock<std::mutex> lock(world().mutex);
  std::mt19937_64 random(world().random() + world().operations);
  lock.unlock();
  for (double& v : values) v *= 1.0 + (static_cast<int>(random() % 3) - 1) * 0x1p-23;
}

}  // namespace eng_emulation
