// Matrix products Y = alpha op(A) op(B) + beta Y of row-major matrices, a batch of them at equal distances: cuBLAS where it can be loaded, in float32
// and float64 as they are (no TF32), else a plain kernel. What Gemm and MatMul are made of.
#pragma once

#include <cstdint>

#include "backends/cuda/kernel.h"

namespace eng::cuda {

struct ProductShape {
  int32_t dtype = EB_FLOAT32;
  int64_t m = 0, n = 0, k = 0;             // Y is m x n, op(A) m x k, op(B) k x n
  bool trans_a = false, trans_b = false;   // A is k x m, B is n x k in memory
  int64_t batch = 1, step_a = 0, step_b = 0, step_y = 0;  // elements from one matrix to the next
  double alpha = 1, beta = 0;
};

class Product {
 public:
  // The device must be current; makes the cuBLAS handle where there is none.
  Product(const ProductShape& shape, eb_device* device, bool use_blas);
  size_t workspace() const;
  void run(const RunContext& c, const void* a, const void* b, void* y) const;

 private:
  ProductShape s_;
  bool blas_;
};

}  // namespace eng::cuda
