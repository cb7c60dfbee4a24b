// The reduction under softmax and the cross-entropies: largest element and log of the sum of exponentials over it, along one axis.
#pragma once

#include <cmath>

#include "backends/cuda/loop.h"
#include "backends/cuda/reduce.h"

namespace eng::cuda {

struct LogSum {
  double most, log_sum, inverse;  // inverse: 1 / the sum
};

template <class T>
struct LogSumExp {
  struct A {
    T most;
    double sum;  // of exp(x - most)
  };
  const T* x;
  Loop<2> kept;  // its first operand is x without the axis
  int64_t step;  // along the axis
  LogSum* sums;  // by number of the kept position

  __device__ A start() const { return {-T(INFINITY), 0}; }
  __device__ void take(A& a, int64_t output, int64_t element) const {
    int64_t at[2];
    kept.at(output, at);
    join(a, {x[at[0] + element * step], 1});
  }
  __device__ void join(A& a, const A& b) const {
    if (b.sum == 0 || b.most == -T(INFINITY)) return;
    if (b.most > a.most) a = {b.most, b.sum + a.sum * static_cast<double>(std::exp(a.most - b.most))};
    else a.sum += b.sum * static_cast<double>(std::exp(b.most - a.most));
  }
  __device__ void finish(const A& a, int64_t output) const { sums[output] = {static_cast<double>(a.most), std::log(a.sum), 1 / a.sum}; }
};

}  // namespace eng::cuda
