// Matrix products for kernels: C = alpha * op(A) op(B) + beta * C + bias, batched, decided once and run many times without
// allocating. float32: oneDNN's matmul; other types: plain loops.
// The transposes are strides: element (i, k) of A lies at i * a.row + k * a.column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace eng::cpu {

struct MatrixStrides {
  int64_t row = 0, column = 1;
  std::vector<int64_t> batch;  // one per batch dimension, 0 where broadcast; empty: all zero
};

struct GemmSpec {
  int64_t m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;       // one of row and column is 1 in each; c.column is 1
  std::vector<int64_t> batch;  // batch dimensions, may be empty
  float alpha = 1;
  bool accumulate = false;     // C += instead of C =
  bool bias = false;           // adds bias[n] to every row; only with alpha 1
};

template <class T>
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual size_t workspace() const { return 0; }
  virtual void run(const T* a, const T* b, const T* bias, T* c, void* workspace) = 0;
  // threads: of the device; small products use one.
  static std::unique_ptr<Gemm<T>> create(const GemmSpec& spec, int threads);
};

// Row-major operand strides of a matrix stored as [rows, columns], or as its transpose.
inline MatrixStrides matrix(int64_t stored_columns, bool transposed = false) {
  return transposed ? MatrixStrides{1, stored_columns, {}} : MatrixStrides{stored_columns, 1, {}};
}

}  // namespace eng::cpu
