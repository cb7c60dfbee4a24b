// A dense row-major tensor in host memory: initializers, constants, what goes into and comes out of a step.
// Copying a Tensor shares its bytes; mutable_data() is for whoever made it, before it is shared. Not thread-safe for writing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "graph/base/dtype.h"
#include "graph/base/shape.h"
#include "graph/base/status.h"

namespace eng {

class Tensor {
 public:
  Tensor() = default;
  // Zeroed, 64-byte aligned. The shape must have been checked; an element type without a size gives an empty buffer.
  Tensor(DType type, Shape shape);
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values);  // values.size() must be the element count
  static Tensor scalar(DType type, double value);               // rank 0
  static Tensor ints(const std::vector<int64_t>& values);       // rank 1, int64

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t element_count() const { return eng::element_count(shape_); }
  size_t byte_count() const { return static_cast<size_t>(element_count()) * size_of(dtype_); }
  const std::byte* bytes() const { return bytes_.get(); }
  std::byte* mutable_bytes() { return bytes_.get(); }
  template <class T> const T* data() const { return reinterpret_cast<const T*>(bytes_.get()); }
  template <class T> T* mutable_data() { return reinterpret_cast<T*>(bytes_.get()); }
  // Same bytes under another shape of as many elements.
  Tensor reshaped(Shape shape) const;
  Tensor clone() const;
  // Element i as a number, whatever the element type (float16 and bfloat16 are widened).
  double at(int64_t i) const;
  void set(int64_t i, double value);
  // An integer tensor's elements; empty for any other type.
  std::vector<int64_t> to_ints() const;
  bool defined() const { return dtype_ != DType::kUndefined; }

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  std::shared_ptr<std::byte> bytes_;
};

// IEEE half and bfloat16 to and from float32; to: round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

template <class T>
Tensor Tensor::of(Shape shape, const std::vector<T>& values) {
  Tensor t(DTypeOf<T>::value, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.mutable_data<T>()[i] = values[i];
  return t;
}

}  // namespace eng
