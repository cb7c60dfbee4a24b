// See strided_copy.h.
#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace eng::cpu {
namespace {

constexpr int64_t kParallelBytes = 128 * 1024;  // fewer are not worth waking the team for
constexpr int64_t kTile = 16;

}  // namespace

StridedCopy::StridedCopy(size_t element_size, std::vector<int64_t> dims, std::vector<int64_t> from, std::vector<int64_t> to, int64_t from_offset,
                         int64_t to_offset)
    : size_(element_size), from_offset_(from_offset), to_offset_(to_offset), count_(1) {
  std::vector<size_t> order;
  for (size_t d = 0; d < dims.size(); ++d) {
    count_ *= dims[d];
    if (dims[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::llabs(to[a]) > std::llabs(to[b]); });
  for (size_t d : order) {
    if (!dims_.empty() && from_.back() == from[d] * dims[d] && to_.back() == to[d] * dims[d]) {
      dims_.back() *= dims[d];
      from_.back() = from[d];
      to_.back() = to[d];
    } else {
      dims_.push_back(dims[d]);
      from_.push_back(from[d]);
      to_.push_back(to[d]);
    }
  }
  if (dims_.empty()) {
    dims_ = {1};
    from_ = to_ = {1};
  }
  // The axis along which the source is dense goes beside the last, for tiles.
  const size_t last = dims_.size() - 1;
  if (to_[last] == 1 && from_[last] != 1 && from_[last] != 0)
    for (size_t d = 0; d < last && !tiled_; ++d)
      if (from_[d] == 1 && dims_[d] >= 4 && dims_[last] >= 4) {
        for (auto* v : {&dims_, &from_, &to_}) std::rotate(v->begin() + static_cast<int64_t>(d), v->begin() + static_cast<int64_t>(d) + 1, v->begin() + static_cast<int64_t>(last));
        tiled_ = true;
      }
  for (size_t d = 0; d + (tiled_ ? 2 : 1) < dims_.size(); ++d) outer_ *= dims_[d];
}

template <class T>
void StridedCopy::row(const T* from, T* to) const {
  const int64_t n = dims_.back(), a = from_.back(), b = to_.back();
  if (a == 1 && b == 1) std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  else if (b == 1 && a == 0) std::fill(to, to + n, *from);
  else if (b == 1)
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * a];
  else
    for (int64_t i = 0; i < n; ++i) to[i * b] = from[i * a];
}

template <class T>
void StridedCopy::tile(const T* from, T* to) const {
  const size_t r = dims_.size();
  const int64_t rows = dims_[r - 2], columns = dims_[r - 1], a = from_[r - 1], b = to_[r - 2];
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < columns; j0 += kTile)
      for (int64_t i = i0, i1 = std::min(rows, i0 + kTile), j1 = std::min(columns, j0 + kTile); i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) to[i * b + j] = from[i + j * a];
}

template <class T>
void StridedCopy::run_as(const T* from, T* to) const {
  from += from_offset_;
  to += to_offset_;
  const int inner_axes = tiled_ ? 2 : 1;
  const int64_t bytes = count_ * static_cast<int64_t>(sizeof(T));
  if (outer_ == 1 && !tiled_ && bytes > kParallelBytes && from_.back() == 1 && to_.back() == 1) {  // one long row
    constexpr int64_t kChunk = 64 * 1024;
    const int64_t chunks = (count_ + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunks; ++i) std::memcpy(to + i * kChunk, from + i * kChunk, static_cast<size_t>(std::min(kChunk, count_ - i * kChunk)) * sizeof(T));
    return;
  }
#pragma omp parallel for schedule(static) if (bytes > kParallelBytes && outer_ > 1)
  for (int64_t i = 0; i < outer_; ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (int64_t d = static_cast<int64_t>(dims_.size()) - inner_axes; d-- > 0;) {
      const int64_t at = rest % dims_[static_cast<size_t>(d)];
      rest /= dims_[static_cast<size_t>(d)];
      a += at * from_[static_cast<size_t>(d)];
      b += at * to_[static_cast<size_t>(d)];
    }
    if (tiled_) tile(from + a, to + b);
    else row(from + a, to + b);
  }
}

void StridedCopy::run(const void* from, void* to) const {
  if (!count_) return;
  with_element(size_, [&](auto t) {
    using T = decltype(t);
    run_as(static_cast<const T*>(from), static_cast<T*>(to));
  });
}

void fill_elements(size_t element_size, const void* value, void* to, int64_t count) {
  with_element(element_size, [&](auto t) {
    using T = decltype(t);
    T v;
    std::memcpy(&v, value, sizeof v);
    std::fill(static_cast<T*>(to), static_cast<T*>(to) + count, v);
  });
}

}  // namespace eng::cpu
