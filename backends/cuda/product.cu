// See product.h.
#include "backends/cuda/product.h"

#include <climits>

#include "backends/cuda/each.h"

namespace eng::cuda {
namespace {

constexpr size_t kBlasWorkspace = size_t{8} << 20;  // what cuBLAS may use; below its own default on large devices, above that on small ones

template <class T>
struct Entry {
  ProductShape s;
  const T *a, *b;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t column = i % s.n, row = i / s.n % s.m, one = i / s.n / s.m;
    const T *p = a + one * s.step_a + (s.trans_a ? row : row * s.k), *q = b + one * s.step_b + (s.trans_b ? column * s.k : column);
    const int64_t step_p = s.trans_a ? s.m : 1, step_q = s.trans_b ? 1 : s.n;
    T sum = T(0);
    for (int64_t k = 0; k < s.k; ++k) sum += p[k * step_p] * q[k * step_q];
    T& to = y[one * s.step_y + row * s.n + column];
    to = static_cast<T>(s.alpha) * sum + (s.beta == 0 ? T(0) : static_cast<T>(s.beta) * to);
  }
};

template <class T>
void run_plain(const RunContext& c, const ProductShape& s, const void* a, const void* b, void* y) {
  each(c.stream, s.batch * s.m * s.n, Entry<T>{s, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y)});
}

// cuBLAS counts columns first: Y' = op(B)' op(A)' of the same bytes.
template <class T, class F>
void run_blas(const RunContext& c, const ProductShape& s, F function, const void* a, const void* b, void* y) {
  const T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  const auto at = [](int64_t v) { return static_cast<int>(v); };
  const std::lock_guard lock(c.device->mutex);
  check(cublas().cublasSetStream_v2(c.device->blas, c.stream), "cuBLAS's stream");
  check(cublas().cublasSetWorkspace_v2(c.device->blas, c.workspace, kBlasWorkspace), "cuBLAS's workspace");
  check(function(c.device->blas, s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, at(s.n), at(s.m), at(s.k), &alpha,
                 static_cast<const T*>(b), at(s.trans_b ? s.k : s.n), s.step_b, static_cast<const T*>(a), at(s.trans_a ? s.m : s.k), s.step_a, &beta, static_cast<T*>(y),
                 at(s.n), s.step_y, at(s.batch)),
        "matrix product");
}

}  // namespace

Product::Product(const ProductShape& shape, eb_device* device, bool use_blas) : s_(shape) {
  const bool fits = std::max({s_.m, s_.n, s_.k, s_.batch}) <= INT_MAX && s_.k > 0;
  blas_ = use_blas && fits;
  if (blas_) need_blas(device);
}

size_t Product::workspace() const { return blas_ ? kBlasWorkspace : 0; }

void Product::run(const RunContext& c, const void* a, const void* b, void* y) const {
  if (s_.m <= 0 || s_.n <= 0 || s_.batch <= 0) return;
  const bool wide = s_.dtype == EB_FLOAT64;
  if (blas_ && wide) return run_blas<double>(c, s_, cublas().cublasDgemmStridedBatched, a, b, y);
  if (blas_) return run_blas<float>(c, s_, cublas().cublasSgemmStridedBatched, a, b, y);
  if (wide) run_plain<double>(c, s_, a, b, y);
  else run_plain<float>(c, s_, a, b, y);
}

}  // namespace eng::cuda
