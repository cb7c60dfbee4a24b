// Element types. The numbers are ONNX's TensorProto.DataType, so no table is needed at the border; the C ABI uses them too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace eng {

enum class DType : int32_t {
  kUndefined = 0, kFloat32 = 1, kUint8 = 2, kInt8 = 3, kUint16 = 4, kInt16 = 5, kInt32 = 6, kInt64 = 7, kString = 8,
  kBool = 9, kFloat16 = 10, kFloat64 = 11, kUint32 = 12, kUint64 = 13, kBFloat16 = 16,
};

// Bytes of one element; 0 for kUndefined and kString, which have no fixed size and are never computed with.
size_t size_of(DType type);
// "float32", "int64", ...; "type 17" for a number that is not listed above.
std::string name_of(DType type);
// float32, float64, float16, bfloat16: the types that gradients exist for.
bool is_floating(DType type);
bool is_integer(DType type);

template <class T> struct DTypeOf;
template <> struct DTypeOf<float> { static constexpr DType value = DType::kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = DType::kFloat64; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = DType::kInt64; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = DType::kInt32; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = DType::kInt16; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = DType::kInt8; };
template <> struct DTypeOf<uint64_t> { static constexpr DType value = DType::kUint64; };
template <> struct DTypeOf<uint32_t> { static constexpr DType value = DType::kUint32; };
template <> struct DTypeOf<uint16_t> { static constexpr DType value = DType::kUint16; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = DType::kUint8; };
template <> struct DTypeOf<bool> { static constexpr DType value = DType::kBool; };

}  // namespace eng
