// Cast between all element types in any layout: an element is read as a double or a 64-bit integer and written from there. Floating to
// integer cuts towards zero and stops at the ends of the range (NaN gives 0); to bool is x != 0.
#include "backends/cuda/each.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/loop.h"

namespace eng::cuda {
namespace {

// What an element holds: exactly one of the two counts.
struct Number {
  double real;
  int64_t whole;
  bool floating, is_unsigned;
};

template <class T> __device__ Number real(const void* p, int64_t i) { return {static_cast<double>(static_cast<const T*>(p)[i]), 0, true, false}; }
template <class T> __device__ Number whole(const void* p, int64_t i) {
  return {0, static_cast<int64_t>(static_cast<const T*>(p)[i]), false, std::is_same_v<T, uint64_t>};
}

__device__ Number read(const void* p, int32_t type, int64_t i) {
  switch (type) {
    case EB_FLOAT32: return real<float>(p, i);
    case EB_FLOAT64: return real<double>(p, i);
    case EB_FLOAT16: return {static_cast<double>(__half2float(static_cast<const __half*>(p)[i])), 0, true, false};
    case EB_BFLOAT16: return {static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i])), 0, true, false};
    case EB_INT8: return whole<int8_t>(p, i);
    case EB_INT16: return whole<int16_t>(p, i);
    case EB_INT32: return whole<int32_t>(p, i);
    case EB_INT64: return whole<int64_t>(p, i);
    case EB_UINT16: return whole<uint16_t>(p, i);
    case EB_UINT32: return whole<uint32_t>(p, i);
    case EB_UINT64: return whole<uint64_t>(p, i);
    default: return whole<uint8_t>(p, i);  // and bool
  }
}

__device__ double as_real(const Number& v) {
  if (v.floating) return v.real;
  return v.is_unsigned ? static_cast<double>(static_cast<uint64_t>(v.whole)) : static_cast<double>(v.whole);
}
// float32 straight from the integer: going through double would round twice.
__device__ float as_float(const Number& v) {
  if (v.floating) return static_cast<float>(v.real);
  return v.is_unsigned ? static_cast<float>(static_cast<uint64_t>(v.whole)) : static_cast<float>(v.whole);
}

template <class T>
__device__ void write_whole(void* p, int64_t i, const Number& v, T lowest, T highest) {
  T result = static_cast<T>(v.whole);
  if (v.floating) {
    if (v.real != v.real) result = T(0);
    else if (v.real >= static_cast<double>(highest)) result = highest;
    else if (v.real <= static_cast<double>(lowest)) result = lowest;
    else result = static_cast<T>(v.real);
  }
  static_cast<T*>(p)[i] = result;
}

__device__ void write(void* p, int32_t type, int64_t i, const Number& v) {
  switch (type) {
    case EB_FLOAT32: static_cast<float*>(p)[i] = as_float(v); break;
    case EB_FLOAT64: static_cast<double*>(p)[i] = as_real(v); break;
    case EB_FLOAT16: static_cast<__half*>(p)[i] = __double2half(as_real(v)); break;
    case EB_BFLOAT16: static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(as_float(v)); break;
    case EB_INT8: write_whole<int8_t>(p, i, v, INT8_MIN, INT8_MAX); break;
    case EB_INT16: write_whole<int16_t>(p, i, v, INT16_MIN, INT16_MAX); break;
    case EB_INT32: write_whole<int32_t>(p, i, v, INT32_MIN, INT32_MAX); break;
    case EB_INT64: write_whole<int64_t>(p, i, v, INT64_MIN, INT64_MAX); break;
    case EB_UINT8: write_whole<uint8_t>(p, i, v, 0, UINT8_MAX); break;
    case EB_UINT16: write_whole<uint16_t>(p, i, v, 0, UINT16_MAX); break;
    case EB_UINT32: write_whole<uint32_t>(p, i, v, 0, UINT32_MAX); break;
    case EB_UINT64: write_whole<uint64_t>(p, i, v, 0, UINT64_MAX); break;
    default: static_cast<bool*>(p)[i] = v.floating ? v.real != 0 : v.whole != 0; break;
  }
}

struct CastElements {
  Loop<2> loop;
  void* y;
  const void* x;
  int32_t to, from;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    loop.at(i, at);
    write(y, to, at[0], read(x, from, at[1]));
  }
};

class Cast : public Kernel {
 public:
  explicit Cast(const NodeView& n) : loop_(loop_over<2>({&n.out(0), &n.in(0)})), to_(n.out(0).dtype), from_(n.in(0).dtype) {}
  void run(const RunContext& c) override { each(c.stream, loop_.count, CastElements{loop_, c.out(0), c.in(0), to_, from_}); }

 private:
  Loop<2> loop_;
  int32_t to_, from_;
};

std::unique_ptr<Kernel> create(const NodeView& n, eb_device*) { return std::make_unique<Cast>(n); }
std::string known_target(const NodeView& n) { return kAllTypes >> n.out(0).dtype & 1 ? "" : "the target type is not handled"; }

}  // namespace

std::span<const KernelDef> cast_kernels() {
  static const KernelDef defs[] = {
      {.op = "Cast", .types = kAllTypes, .can_run = known_target, .create = create},
      {.op = "CastLike", .types = kAllTypes, .can_run = known_target, .create = create},
  };
  return defs;
}

}  // namespace eng::cuda
