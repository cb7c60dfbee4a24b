// Shapes and checked arithmetic on them. A Shape is always concrete (every dimension >= 0): symbolic batch dimensions are
// bound before shapes are inferred (graph/passes/bind_shapes.h), so a wrong size is found before anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace eng {

using Shape = std::vector<int64_t>;

// Product of the dimensions (1 for a scalar); an error where it overflows int64 or a dimension is negative.
Result<int64_t> checked_element_count(const Shape& shape);
// The same for shapes that were checked when they were made.
int64_t element_count(const Shape& shape);
std::optional<int64_t> checked_multiply(int64_t a, int64_t b);
std::optional<int64_t> checked_add(int64_t a, int64_t b);

// NumPy broadcasting of two shapes; an error that prints both where they do not fit.
Result<Shape> broadcast(const Shape& a, const Shape& b);
// Strides in elements of a dense row-major tensor.
std::vector<int64_t> row_major_strides(const Shape& shape);
// Strides in elements of a dense tensor stored with axis 1 innermost (NHWC for rank 4). Equal to row-major below rank 3.
std::vector<int64_t> channels_last_strides(const Shape& shape);
// -1 -> rank-1. An error where axis is outside [-rank, rank).
Result<int64_t> normalize_axis(int64_t axis, int64_t rank);
std::string to_string(const Shape& shape);

}  // namespace eng
