// Copies a box of elements between two tensors with any strides: what Transpose, Concat, Split, Slice, Expand, Tile, Pad and
// their gradients are made of. Works on the element's size, not its type. Axes are ordered by the destination's strides
// and merged where both sides allow it when the copy is made; running it moves whole rows where both sides are dense, 16x16 tiles where
// the source runs along another axis, and single elements else. A source stride of 0 repeats, a negative one reverses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace eng::cpu {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides and offsets in elements.
  StridedCopy(size_t element_size, std::vector<int64_t> dims, std::vector<int64_t> from_strides, std::vector<int64_t> to_strides,
              int64_t from_offset = 0, int64_t to_offset = 0);
  void run(const void* from, void* to) const;

 private:
  template <class T> void run_as(const T* from, T* to) const;
  template <class T> void row(const T* from, T* to) const;
  template <class T> void tile(const T* from, T* to) const;

  size_t size_ = 0;
  std::vector<int64_t> dims_, from_, to_;  // outermost first
  int64_t from_offset_ = 0, to_offset_ = 0, count_ = 0, outer_ = 1;
  bool tiled_ = false;  // the last two axes: destination dense along the last, source dense along the one before
};

// Sets every element of a box to one value of 1, 2, 4 or 8 bytes.
void fill_elements(size_t element_size, const void* value, void* to, int64_t count);

// Calls f.template operator()<T>() with an unsigned integer of that size.
template <class F>
void with_element(size_t size, F&& f) {
  switch (size) {
    case 1: f(uint8_t{}); break;
    case 2: f(uint16_t{}); break;
    case 4: f(uint32_t{}); break;
    default: f(uint64_t{}); break;
  }
}

}  // namespace eng::cpu
