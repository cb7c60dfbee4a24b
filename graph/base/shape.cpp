// See shape.h.
#include "graph/base/shape.h"

#include <algorithm>

namespace eng {

std::optional<int64_t> checked_multiply(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

Result<int64_t> checked_element_count(const Shape& shape) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : shape) {
    if (d < 0) return invalid("shape ", to_string(shape), " has a negative dimension");
    if (d == 0) { empty = true; continue; }  // keep multiplying: [0, 2^62, 2^62] is refused too
    auto product = checked_multiply(n, d);
    if (!product) return invalid("shape ", to_string(shape), " has more elements than 64 bits can count");
    n = *product;
  }
  return empty ? 0 : n;
}

int64_t element_count(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1, db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1)
      return invalid("shapes ", to_string(a), " and ", to_string(b), " cannot be broadcast together");
    out[out.size() - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t n = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = n;
    n *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

std::vector<int64_t> channels_last_strides(const Shape& shape) {
  if (shape.size() < 3) return row_major_strides(shape);
  std::vector<int64_t> strides(shape.size());
  int64_t n = std::max<int64_t>(shape[1], 1);
  strides[1] = 1;
  for (size_t i = shape.size(); i-- > 2;) {
    strides[i] = n;
    n *= std::max<int64_t>(shape[i], 1);
  }
  strides[0] = n;
  return strides;
}

Result<int64_t> normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) return invalid("axis ", axis, " is outside the ", rank, " axes of the tensor");
  return axis < 0 ? axis + rank : axis;
}

std::string to_string(const Shape& shape) { return cat(shape); }

}  // namespace eng
