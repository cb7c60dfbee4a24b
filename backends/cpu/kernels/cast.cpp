// Cast, CastLike between all element types in any layout: stretches of a row are read into double (floating types) or a 64-bit
// integer and written from there, so 13 readers and 13 writers are enough. float32 to and from the common types goes directly.
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/half_adapter.h"

namespace eng::cpu {
namespace {

constexpr int64_t kStretch = 256;

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v != v) return To(0);
    // The upper end may round up in From; >= keeps the conversion defined.
    if (v >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (v <= static_cast<From>(std::numeric_limits<To>::lowest())) return std::numeric_limits<To>::lowest();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// Reads n elements with a step. Mid is double for floating types, int64_t or uint64_t for the others.
template <class Mid>
void read(Mid* to, const void* from, int32_t type, int64_t at, int64_t step, int64_t n) {
  if (is_half(type)) {
    const auto* p = static_cast<const uint16_t*>(from) + at;
    uint16_t bits[kStretch];
    float wide[kStretch];
    for (int64_t i = 0; i < n; ++i) bits[i] = p[i * step];
    widen(wide, bits, n, type);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Mid>(wide[i]);
    return;
  }
  auto plain = [&](auto t) {
    const auto* p = static_cast<const decltype(t)*>(from) + at;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Mid>(p[i * step]);
  };
  if (!dispatch_numbers(type, plain)) dispatch<bool>(type, plain);
}

template <class Mid>
void write(void* to, const Mid* from, int32_t type, int64_t at, int64_t step, int64_t n) {
  if (type == EB_FLOAT16) {  // rounded once, from double
    auto* p = static_cast<uint16_t*>(to) + at;
    for (int64_t i = 0; i < n; ++i) p[i * step] = std::bit_cast<uint16_t>(static_cast<_Float16>(from[i]));
    return;
  }
  if (type == EB_BFLOAT16) {
    auto* p = static_cast<uint16_t*>(to) + at;
    float rounded[kStretch];
    uint16_t bits[kStretch];
    for (int64_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(from[i]);
    narrow(bits, rounded, n, type);
    for (int64_t i = 0; i < n; ++i) p[i * step] = bits[i];
    return;
  }
  auto plain = [&](auto t) {
    auto* p = static_cast<decltype(t)*>(to) + at;
    for (int64_t i = 0; i < n; ++i) p[i * step] = convert<decltype(t)>(from[i]);
  };
  if (!dispatch_numbers(type, plain)) dispatch<bool>(type, plain);
}

template <class Mid>
class Cast : public Kernel {
 public:
  explicit Cast(const NodeView& n) : loop_(make_loop({&n.out(0), &n.in(0)})), from_(n.in(0).dtype), to_(n.out(0).dtype) {}
  void run(const RunContext& c) override {
    for_rows<2>(loop_, 4, [&](const Offsets& at, int64_t n) {
      Mid middle[kStretch];
      for (int64_t i = 0; i < n; i += kStretch) {
        const int64_t count = std::min(kStretch, n - i);
        read(middle, c.inputs[0], from_, at[1] + i * loop_.step(1), loop_.step(1), count);
        write(c.outputs[0], middle, to_, at[0] + i * loop_.step(0), loop_.step(0), count);
      }
    });
  }

 private:
  Loop loop_;
  int32_t from_, to_;
};

template <class From, class To>
struct Convert {
  To operator()(From v) const { return convert<To>(v); }
};

std::unique_ptr<Kernel> create(const NodeView& n, int) {
  const int32_t from = n.in(0).dtype, to = n.out(0).dtype;
  std::unique_ptr<Kernel> k;
  auto direct = [&](auto t) {
    using T = decltype(t);
    if (from == EB_FLOAT32) k = std::make_unique<UnaryKernel<Convert<float, T>, float, T>>(n, Convert<float, T>{}, 1);
    else k = std::make_unique<UnaryKernel<Convert<T, float>, T, float>>(n, Convert<T, float>{}, 1);
  };
  if (from == EB_FLOAT32 || to == EB_FLOAT32) dispatch<float, double, int64_t, int32_t, uint8_t, bool>(from == EB_FLOAT32 ? to : from, direct);
  if (k) return k;
  if (from == EB_FLOAT32 || from == EB_FLOAT64 || is_half(from)) return std::make_unique<Cast<double>>(n);
  if (from == EB_UINT64) return std::make_unique<Cast<uint64_t>>(n);
  return std::make_unique<Cast<int64_t>>(n);
}

}  // namespace

std::span<const KernelDef> cast_kernels() {
  static const KernelDef defs[] = {
      {.op = "Cast", .types = kAllTypes, .can_run = any_layout, .create = create},
      {.op = "CastLike", .types = kAllTypes, .can_run = any_layout, .create = create},
  };
  return defs;
}

}  // namespace eng::cpu
