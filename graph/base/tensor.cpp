// See tensor.h.
#include "graph/base/tensor.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

namespace eng {

Tensor::Tensor(DType type, Shape shape) : dtype_(type), shape_(std::move(shape)) {
  size_t n = (byte_count() + 63) / 64 * 64 + 64;
  void* p = std::aligned_alloc(64, n);
  if (!p) throw std::bad_alloc();
  std::memset(p, 0, n);
  bytes_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(p), [](std::byte* b) { std::free(b); });
}

Tensor Tensor::scalar(DType type, double value) {
  Tensor t(type, {});
  t.set(0, value);
  return t;
}

Tensor Tensor::ints(const std::vector<int64_t>& values) { return of<int64_t>({static_cast<int64_t>(values.size())}, values); }

Tensor Tensor::reshaped(Shape shape) const {
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor t(dtype_, shape_);
  std::memcpy(t.mutable_bytes(), bytes(), byte_count());
  return t;
}

double Tensor::at(int64_t i) const {
  switch (dtype_) {
    case DType::kFloat32: return data<float>()[i];
    case DType::kFloat64: return data<double>()[i];
    case DType::kFloat16: return half_to_float(data<uint16_t>()[i]);
    case DType::kBFloat16: return bfloat16_to_float(data<uint16_t>()[i]);
    case DType::kInt8: return data<int8_t>()[i];
    case DType::kUint8:
    case DType::kBool: return data<uint8_t>()[i];
    case DType::kInt16: return data<int16_t>()[i];
    case DType::kUint16: return data<uint16_t>()[i];
    case DType::kInt32: return data<int32_t>()[i];
    case DType::kUint32: return data<uint32_t>()[i];
    case DType::kInt64: return static_cast<double>(data<int64_t>()[i]);
    case DType::kUint64: return static_cast<double>(data<uint64_t>()[i]);
    default: return 0;
  }
}

void Tensor::set(int64_t i, double v) {
  switch (dtype_) {
    case DType::kFloat32: mutable_data<float>()[i] = static_cast<float>(v); break;
    case DType::kFloat64: mutable_data<double>()[i] = v; break;
    case DType::kFloat16: mutable_data<uint16_t>()[i] = float_to_half(static_cast<float>(v)); break;
    case DType::kBFloat16: mutable_data<uint16_t>()[i] = float_to_bfloat16(static_cast<float>(v)); break;
    case DType::kInt8: mutable_data<int8_t>()[i] = static_cast<int8_t>(v); break;
    case DType::kUint8: mutable_data<uint8_t>()[i] = static_cast<uint8_t>(v); break;
    case DType::kBool: mutable_data<uint8_t>()[i] = v != 0; break;
    case DType::kInt16: mutable_data<int16_t>()[i] = static_cast<int16_t>(v); break;
    case DType::kUint16: mutable_data<uint16_t>()[i] = static_cast<uint16_t>(v); break;
    case DType::kInt32: mutable_data<int32_t>()[i] = static_cast<int32_t>(v); break;
    case DType::kUint32: mutable_data<uint32_t>()[i] = static_cast<uint32_t>(v); break;
    case DType::kInt64: mutable_data<int64_t>()[i] = static_cast<int64_t>(v); break;
    case DType::kUint64: mutable_data<uint64_t>()[i] = static_cast<uint64_t>(v); break;
    default: break;
  }
}

std::vector<int64_t> Tensor::to_ints() const {
  std::vector<int64_t> out;
  if (!is_integer(dtype_)) return out;
  out.resize(static_cast<size_t>(element_count()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = dtype_ == DType::kInt64 ? data<int64_t>()[i] : static_cast<int64_t>(at(static_cast<int64_t>(i)));
  return out;
}

float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and up
  if (magnitude < 0x38800000u) {                                               // subnormal half: round in units of 2^-24
    float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace eng
