// cuBLAS: the matrix products and what stands around them. Matrices are column-major, sums in double.
#include <cublas_v2.h>

#include <cstdlib>
#include <optional>

#include "tests/support/cuda_emulation/library.h"

struct cublasContext : eng_emulation::LibraryHandle {
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  void* workspace = nullptr;  // the user's; null: the library's own pool
  size_t workspace_bytes = 0;
};

namespace eng_emulation {

namespace {

std::optional<Type> type_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F: return Type::kFloat;
    case CUDA_R_64F: return Type::kDouble;
    case CUDA_R_16F: return Type::kHalf;
    case CUDA_R_16BF: return Type::kBfloat16;
    case CUDA_R_8I: return Type::kInt8;
    case CUDA_R_32I: return Type::kInt32;
    default: return std::nullopt;
  }
}

// The type of alpha and beta for a way of computing; null where the combination with the operands' types is not in cuBLAS's table.
std::optional<Type> scale_type(cublasComputeType_t compute, Type a, Type b, Type c) {
  const bool halves = a == b && (a == Type::kHalf || a == Type::kBfloat16) && (c == a || c == Type::kFloat);
  switch (compute) {
    case CUBLAS_COMPUTE_32F: case CUBLAS_COMPUTE_32F_PEDANTIC:
      if (halves || (a == Type::kFloat && b == a && c == a) || (a == Type::kInt8 && b == a && c == Type::kFloat)) return Type::kFloat;
      break;
    case CUBLAS_COMPUTE_32F_FAST_16F: case CUBLAS_COMPUTE_32F_FAST_16BF: case CUBLAS_COMPUTE_32F_FAST_TF32: case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
      if (a == Type::kFloat && b == a && c == a) return Type::kFloat;
      break;
    case CUBLAS_COMPUTE_64F: case CUBLAS_COMPUTE_64F_PEDANTIC:
      if (a == Type::kDouble && b == a && c == a) return Type::kDouble;
      break;
    case CUBLAS_COMPUTE_16F: case CUBLAS_COMPUTE_16F_PEDANTIC:
      if (a == Type::kHalf && b == a && c == a) return Type::kHalf;
      break;
    case CUBLAS_COMPUTE_32I: case CUBLAS_COMPUTE_32I_PEDANTIC:
      if (a == Type::kInt8 && b == a && c == Type::kInt32) return Type::kInt32;
      break;
    default: break;
  }
  return std::nullopt;
}

struct Product {
  const char* name;
  cublasOperation_t trans_a, trans_b;
  int64_t m, n, k;
  const void *alpha, *beta;
  const void *a, *b;
  void* c;
  cudaDataType type_a, type_b, type_c;
  int64_t lda, ldb, ldc;
  int64_t stride_a, stride_b, stride_c, batch;
  cublasComputeType_t compute;
};

// Column-major rows x columns with a leading dimension, one after another by `stride`, as a tensor (batch, rows, columns).
Layout matrix(Type type, int64_t rows, int64_t columns, int64_t leading, int64_t batch, int64_t stride) { return {type, {batch, rows, columns}, {stride, 1, leading}}; }

cublasStatus_t multiply(cublasHandle_t handle_given, const Product& p) {
  std::lock_guard<std::mutex> lock(world().mutex);
  auto* handle = find_locked<cublasContext>(handle_given, p.name);
  Call call(p.name, handle);
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!call.good) return CUBLAS_STATUS_EXECUTION_FAILED;
  const auto a = type_of(p.type_a), b = type_of(p.type_b), c = type_of(p.type_c);
  const auto scale = a && b && c ? scale_type(p.compute, *a, *b, *c) : std::nullopt;
  if (!scale) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool ta = p.trans_a != CUBLAS_OP_N, tb = p.trans_b != CUBLAS_OP_N;
  const int64_t rows_a = ta ? p.k : p.m, columns_a = ta ? p.m : p.k, rows_b = tb ? p.n : p.k, columns_b = tb ? p.k : p.n;
  call.require(p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0, "a negative size");
  call.require(p.lda >= std::max<int64_t>(1, rows_a), "lda " + std::to_string(p.lda) + " is less than A's " + std::to_string(rows_a) + " rows");
  call.require(p.ldb >= std::max<int64_t>(1, rows_b), "ldb " + std::to_string(p.ldb) + " is less than B's " + std::to_string(rows_b) + " rows");
  call.require(p.ldc >= std::max<int64_t>(1, p.m), "ldc " + std::to_string(p.ldc) + " is less than C's " + std::to_string(p.m) + " rows");
  call.require(p.batch <= 1 || std::abs(p.stride_c) >= (p.ldc > std::abs(p.stride_c) ? p.m : p.ldc * (p.n - 1) + p.m), "the matrices of C overlap");
  call.require(handle->pointers == CUBLAS_POINTER_MODE_HOST, "the emulation reads alpha and beta from host memory only");
  call.require(p.alpha && p.beta, "alpha or beta is null");
  if (!call.good) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.lost != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return CUBLAS_STATUS_SUCCESS;
  const double alpha = get(*scale, p.alpha), beta = get(*scale, p.beta);
  const Layout la = matrix(*a, rows_a, columns_a, p.lda, p.batch, p.stride_a), lb = matrix(*b, rows_b, columns_b, p.ldb, p.batch, p.stride_b);
  const Layout lc = matrix(*c, p.m, p.n, p.ldc, p.batch, p.stride_c);
  if (p.k > 0 && alpha != 0) call.reads(p.a, la), call.reads(p.b, lb);
  call.writes(p.c, lc);
  call.scratch(handle->workspace, handle->workspace_bytes);
  const bool tf32 = *a == Type::kFloat && (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 || (p.compute == CUBLAS_COMPUTE_32F && handle->math == CUBLAS_TF32_TENSOR_OP_MATH));
  call.submit([=](const Call& self) {
    std::vector<double> out(lc.count(), 0.0);
    if (p.k > 0 && alpha != 0) {
      std::vector<double> va = self.load(p.a, la, "A"), vb = self.load(p.b, lb, "B");
      if (tf32)
        for (auto* values : {&va, &vb})
          for (double& v : *values) v = round_to_tf32(v);
      // Rows of op(A) and columns of op(B) as consecutive numbers.
      const auto at = [](const std::vector<double>& v, int64_t batch, int64_t rows, int64_t columns, int64_t r, int64_t s) { return v[static_cast<size_t>((batch * rows + r) * columns + s)]; };
      std::vector<double> column(static_cast<size_t>(p.k));
      for (int64_t g = 0; g < p.batch; ++g)
        for (int64_t j = 0; j < p.n; ++j) {
          for (int64_t l = 0; l < p.k; ++l) column[static_cast<size_t>(l)] = tb ? at(vb, g, rows_b, columns_b, j, l) : at(vb, g, rows_b, columns_b, l, j);
          for (int64_t i = 0; i < p.m; ++i) {
            double sum = 0;
            for (int64_t l = 0; l < p.k; ++l) sum += (ta ? at(va, g, rows_a, columns_a, l, i) : at(va, g, rows_a, columns_a, i, l)) * column[static_cast<size_t>(l)];
            out[static_cast<size_t>((g * p.m + i) * p.n + j)] = sum;
          }
        }
    }
    self.store(p.c, lc, out, alpha, beta, "C");
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class F>
cublasStatus_t with_handle(cublasHandle_t handle, const char* name, F f) {
  std::lock_guard<std::mutex> lock(world().mutex);
  auto* found = find_locked<cublasContext>(handle, name);
  return found ? f(*found) : CUBLAS_STATUS_NOT_INITIALIZED;
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (world().devices.empty()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = make_object_locked<cublasContext>("cuBLAS handle", current_device());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return with_handle(handle, "cublasDestroy", [](cublasContext& h) { return h.alive = false, CUBLAS_STATUS_SUCCESS; });
}

// Also puts the library's own workspace back in place, as the real one does: the user's is set after the stream.
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return with_handle(handle, "cublasSetStream", [&](cublasContext& h) {
    h.stream = stream;
    h.stream_set = true;
    h.workspace = nullptr;
    h.workspace_bytes = 0;
    return stream_locked(stream, "cublasSetStream") ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  });
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return with_handle(handle, "cublasGetStream", [&](cublasContext& h) { return *stream = h.stream, CUBLAS_STATUS_SUCCESS; });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  return with_handle(handle, "cublasSetWorkspace", [&](cublasContext& h) {
    if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) {
      report_locked("cublasSetWorkspace: the workspace is not aligned to 256 bytes");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (bytes > 0 && !check_range_locked(h.device, workspace, bytes, "cublasSetWorkspace")) return CUBLAS_STATUS_INVALID_VALUE;
    h.workspace = bytes ? workspace : nullptr;
    h.workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return with_handle(handle, "cublasSetMathMode", [&](cublasContext& h) { return h.math = mode, CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return with_handle(handle, "cublasGetMathMode", [&](cublasContext& h) { return *mode = h.math, CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return with_handle(handle, "cublasSetPointerMode", [&](cublasContext& h) { return h.pointers = mode, CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return with_handle(handle, "cublasGetPointerMode", [&](cublasContext& h) { return *mode = h.pointers, CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return with_handle(handle, "cublasSetAtomicsMode", [&](cublasContext& h) { return h.atomics = mode, CUBLAS_STATUS_SUCCESS; });
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) { return *version = CUBLAS_VERSION, CUBLAS_STATUS_SUCCESS; }

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b,
                              int ldb, const float* beta, float* c, int ldc) {
  return multiply(h, {"cublasSgemm", ta, tb, m, n, k, alpha, beta, a, b, c, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, lda, ldb, ldc, 0, 0, 0, 1, CUBLAS_COMPUTE_32F});
}
cublasStatus_t cublasDgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                              const double* b, int ldb, const double* beta, double* c, int ldc) {
  return multiply(h, {"cublasDgemm", ta, tb, m, n, k, alpha, beta, a, b, c, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, lda, ldb, ldc, 0, 0, 0, 1, CUBLAS_COMPUTE_64F});
}
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                                         long long sa, const float* b, int ldb, long long sb, const float* beta, float* c, int ldc, long long sc, int batch) {
  return multiply(h, {"cublasSgemmStridedBatched", ta, tb, m, n, k, alpha, beta, a, b, c, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, lda, ldb, ldc, sa, sb, sc, batch, CUBLAS_COMPUTE_32F});
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const double* alpha, const double* a, int lda,
                                         long long sa, const double* b, int ldb, long long sb, const double* beta, double* c, int ldc, long long sc, int batch) {
  return multiply(h, {"cublasDgemmStridedBatched", ta, tb, m, n, k, alpha, beta, a, b, c, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, lda, ldb, ldc, sa, sb, sc, batch, CUBLAS_COMPUTE_64F});
}
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a, cudaDataType type_a, int lda,
                            const void* b, cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply(h, {"cublasGemmEx", ta, tb, m, n, k, alpha, beta, a, b, c, type_a, type_b, type_c, lda, ldb, ldc, 0, 0, 0, 1, compute});
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a, cudaDataType type_a,
                                          int lda, long long sa, const void* b, cudaDataType type_b, int ldb, long long sb, const void* beta, void* c, cudaDataType type_c, int ldc,
                                          long long sc, int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply(h, {"cublasGemmStridedBatchedEx", ta, tb, m, n, k, alpha, beta, a, b, c, type_a, type_b, type_c, lda, ldb, ldc, sa, sb, sc, batch, compute});
}
// y = alpha * op(A) * x + beta * y as a product with a matrix of one column.
cublasStatus_t cublasSgemv_v2(cublasHandle_t h, cublasOperation_t trans, int m, int n, const float* alpha, const float* a, int lda, const float* x, int incx, const float* beta,
                              float* y, int incy) {
  // x as a 1 x length matrix with leading dimension incx, used transposed; y likewise as columns of C^T = x^T op(A)^T.
  const int out = trans == CUBLAS_OP_N ? m : n, in = trans == CUBLAS_OP_N ? n : m;
  return multiply(h, {"cublasSgemv", CUBLAS_OP_N, trans == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, 1, out, in, alpha, beta, x, a, y, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, incx, lda,
                      incy, 0, 0, 0, 1, CUBLAS_COMPUTE_32F});
}
