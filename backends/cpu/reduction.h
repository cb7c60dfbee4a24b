// Sums that do not depend on the thread count: elements are cut into blocks of fixed size, each block is summed by one thread in
// double, and the blocks' sums are added in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/elementwise.h"

namespace eng::cpu {

inline constexpr int64_t kSumBlock = 8192;
inline int64_t sum_blocks(int64_t n) { return (n + kSumBlock - 1) / kSumBlock; }
inline size_t sum_workspace(int64_t n) { return static_cast<size_t>(sum_blocks(n)) * sizeof(double); }

// sum of f(i) for i in [0, n); partial holds sum_blocks(n) doubles.
template <class F>
double blocked_sum(int64_t n, double* partial, F&& f) {
  const int64_t blocks = sum_blocks(n);
  const auto one = [&](int64_t b) {
    const int64_t end = std::min(n, (b + 1) * kSumBlock);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = b * kSumBlock; i < end; ++i) sum += static_cast<double>(f(i));
    partial[b] = sum;
  };
  const int team = team_size(n);
  if (team > 1) {
#pragma omp parallel for schedule(static) num_threads(team)
    for (int64_t b = 0; b < blocks; ++b) one(b);
  } else {
    for (int64_t b = 0; b < blocks; ++b) one(b);
  }
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += partial[b];
  return sum;
}

// f(begin, end) on equal parts of [0, n), one for each thread worth waking.
template <class F>
void parallel_range(int64_t n, int64_t weight, F&& f) {
  const int team = team_size(n * weight);
  if (team <= 1) {
    f(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(team)
  {
    const int64_t t = omp_get_thread_num(), of = omp_get_num_threads(), blocks = (n + 15) / 16;
    const int64_t begin = std::min(n, blocks * t / of * 16), end = std::min(n, blocks * (t + 1) / of * 16);
    if (begin < end) f(begin, end);
  }
}
// The same where every item is dear.
template <class F>
void parallel_items(int64_t n, int64_t weight, F&& f) {
  const int team = static_cast<int>(std::min<int64_t>(team_size(n * weight), std::max<int64_t>(n, 1)));
  if (team <= 1) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(team)
  for (int64_t i = 0; i < n; ++i) f(i);
}

}  // namespace eng::cpu
