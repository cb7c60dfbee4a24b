// The emulated cuBLAS and cuDNN (NCCL: emulation_collectives_test.cpp): values against loops written out here, and the mistakes of a caller that each must catch.
#include <cublas_v2.h>
#include <cudnn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/on_device.h"

namespace {

using Values = std::vector<float>;

// Small numbers without pattern, exact in TF32.
Values numbers(size_t count, int seed) {
  Values out(count);
  unsigned state = static_cast<unsigned>(seed) * 2654435761u + 1;
  for (float& v : out) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(state >> 24) - 128) / 64.0f;
  }
  return out;
}

void check_close(const Values& got, const std::vector<double>& wanted, double tolerance = 1e-5) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - wanted[i]) <= tolerance * (1 + std::fabs(wanted[i])));
}

struct Dnn {
  Stream stream;
  cudnnHandle_t handle = nullptr;
  Dnn() {
    REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnSetStream(handle, stream.at) == CUDNN_STATUS_SUCCESS);
  }
  ~Dnn() { cudnnDestroy(handle); }
};

struct Tensor {
  cudnnTensorDescriptor_t at = nullptr;
  explicit Tensor(std::vector<int> dims, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) {
    cudnnCreateTensorDescriptor(&at);
    REQUIRE(cudnnSetTensorNdDescriptorEx(at, format, CUDNN_DATA_FLOAT, static_cast<int>(dims.size()), dims.data()) == CUDNN_STATUS_SUCCESS);
  }
  ~Tensor() { cudnnDestroyTensorDescriptor(at); }
};

struct Filter {
  cudnnFilterDescriptor_t at = nullptr;
  explicit Filter(std::vector<int> dims, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) {
    cudnnCreateFilterDescriptor(&at);
    REQUIRE(cudnnSetFilterNdDescriptor(at, CUDNN_DATA_FLOAT, format, static_cast<int>(dims.size()), dims.data()) == CUDNN_STATUS_SUCCESS);
  }
  ~Filter() { cudnnDestroyFilterDescriptor(at); }
};

struct Conv {
  cudnnConvolutionDescriptor_t at = nullptr;
  Conv(int pad, int stride, int dilation, int groups) {
    cudnnCreateConvolutionDescriptor(&at);
    const int p[2] = {pad, pad}, s[2] = {stride, stride}, d[2] = {dilation, dilation};
    REQUIRE(cudnnSetConvolutionNdDescriptor(at, 2, p, s, d, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) == CUDNN_STATUS_SUCCESS);
    cudnnSetConvolutionGroupCount(at, groups);
    cudnnSetConvolutionMathType(at, CUDNN_FMA_MATH);
  }
  ~Conv() { cudnnDestroyConvolutionDescriptor(at); }
};

constexpr float kOne = 1, kZero = 0;

// Row-major NCHW to NHWC and back.
Values to_channels_last(const Values& v, int n, int c, int hw) {
  Values out(v.size());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < c; ++j)
      for (int k = 0; k < hw; ++k) out[static_cast<size_t>((i * hw + k) * c + j)] = v[static_cast<size_t>((i * c + j) * hw + k)];
  return out;
}
Values to_row_major(const Values& v, int n, int c, int hw) {
  Values out(v.size());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < c; ++j)
      for (int k = 0; k < hw; ++k) out[static_cast<size_t>((i * c + j) * hw + k)] = v[static_cast<size_t>((i * hw + k) * c + j)];
  return out;
}

// The convolution of the tests: x 2x4x5x6, w 6x2x3x2, two groups, pad 1, stride 2, dilation 1 -> y 2x6x3x4.
constexpr int kN = 2, kC = 4, kH = 5, kW = 6, kK = 6, kG = 2, kR = 3, kS = 2, kP = 3, kQ = 4;
void each_tap(const std::function<void(size_t x, size_t w, size_t y)>& f) {
  for (int n = 0; n < kN; ++n)
    for (int k = 0; k < kK; ++k)
      for (int p = 0; p < kP; ++p)
        for (int q = 0; q < kQ; ++q)
          for (int c = 0; c < kC / kG; ++c)
            for (int r = 0; r < kR; ++r)
              for (int s = 0; s < kS; ++s) {
                const int h = 2 * p - 1 + r, w = 2 * q - 1 + s, channel = k / (kK / kG) * (kC / kG) + c;
                if (h < 0 || h >= kH || w < 0 || w >= kW) continue;
                f(static_cast<size_t>(((n * kC + channel) * kH + h) * kW + w), static_cast<size_t>(((k * kC / kG + c) * kR + r) * kS + s),
                  static_cast<size_t>(((n * kK + k) * kP + p) * kQ + q));
              }
}

}  // namespace

TEST_CASE("cuBLAS multiplies column-major matrices, transposed, in batches, with beta") {
  eng_emulation::reset();
  {
    cublasHandle_t handle;
    Stream stream;
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetStream(handle, stream.at) == CUBLAS_STATUS_SUCCESS);
    const int m = 3, n = 4, k = 5, batch = 2;
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const int lda = (ta ? k : m) + 1, ldb = (tb ? n : k) + 2, ldc = m + 3;
        const int sa = lda * (ta ? m : k), sb = ldb * (tb ? k : n), sc = ldc * n;
        const Values a = numbers(static_cast<size_t>(sa * batch), 1), b = numbers(static_cast<size_t>(sb * batch), 2), c = numbers(static_cast<size_t>(sc * batch), 3);
        OnDevice<float> da(a), db(b), dc(c);
        const float alpha = 0.5f, beta = 2;
        CHECK(cublasGemmStridedBatchedEx(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha, da.at, CUDA_R_32F, lda, sa, db.at, CUDA_R_32F, ldb, sb,
                                         &beta, dc.at, CUDA_R_32F, ldc, sc, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
        CHECK(cudaStreamSynchronize(stream.at) == cudaSuccess);
        std::vector<double> wanted(c.begin(), c.end());
        for (int g = 0; g < batch; ++g)
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int l = 0; l < k; ++l) sum += a[static_cast<size_t>(g * sa + (ta ? l + i * lda : i + l * lda))] * b[static_cast<size_t>(g * sb + (tb ? j + l * ldb : l + j * ldb))];
              double& at = wanted[static_cast<size_t>(g * sc + i + j * ldc)];
              at = 0.5 * sum + 2 * at;
            }
        check_close(dc.host(), wanted);
      }
    OnDevice<float> x(Values{1, 2, 3, 4, 5, 6}), v(Values{1, 10}), y(3);
    CHECK(cublasSgemv(handle, CUBLAS_OP_N, 3, 2, &kOne, x.at, 3, v.at, 1, &kZero, y.at, 1) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(stream.at) == cudaSuccess);
    CHECK(y.host() == Values{41, 52, 63});
    CHECK(eng_emulation::violations().empty());

    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 2, &kOne, x.at, 2, v.at, 2, &kZero, y.at, 3) == CUBLAS_STATUS_INVALID_VALUE);
    CHECK(caught("lda 2 is less than A's 3 rows"));
    cudaSetDevice(1);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 2, &kOne, x.at, 3, v.at, 2, &kZero, y.at, 3) == CUBLAS_STATUS_EXECUTION_FAILED);
    CHECK(caught("the handle is device 0's, the current device is 1"));
    cudaSetDevice(0);
    OnDevice<float> fresh(6);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 2, &kOne, fresh.at, 3, v.at, 2, &kZero, y.at, 3) == CUBLAS_STATUS_SUCCESS);
    cudaStreamSynchronize(stream.at);
    CHECK(caught("cublasSgemm, A: reads memory that was never written"));
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 20, &kOne, fresh.at, 3, v.at, 20, &kZero, y.at, 3) == CUBLAS_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(stream.at) == cudaErrorIllegalAddress);
    CHECK(caught("cublasSgemm, A: out of bounds"));
    CHECK(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  }
}

TEST_CASE("a library call on a handle without a stream is caught") {
  eng_emulation::reset();
  cublasHandle_t handle;
  cublasCreate(&handle);
  OnDevice<float> x(Values{1});
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &kOne, x.at, 1, x.at, 1, &kZero, x.at, 1) != CUBLAS_STATUS_SUCCESS);
  CHECK(caught("was given no stream"));
  CHECK(eng_emulation::counts().handles == 1);
  cublasDestroy(handle);
  CHECK(cublasDestroy(handle) != CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("TF32 is used where it is not switched off") {
  eng_emulation::reset();
  cublasHandle_t handle;
  Stream stream;
  cublasCreate(&handle);
  cublasSetStream(handle, stream.at);
  OnDevice<float> a(Values{1.0001f}), b(Values{1}), c(1);
  cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &kOne, a.at, CUDA_R_32F, 1, b.at, CUDA_R_32F, 1, &kZero, c.at, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  cudaStreamSynchronize(stream.at);
  CHECK(c.host()[0] == 1.0001f);
  cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &kOne, a.at, CUDA_R_32F, 1, b.at, CUDA_R_32F, 1, &kZero, c.at, CUDA_R_32F, 1, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT);
  cudaStreamSynchronize(stream.at);
  CHECK(c.host()[0] == 1.0f);
  cublasDestroy(handle);
}

TEST_CASE("cuDNN convolves in all three directions, row-major and channels-last") {
  eng_emulation::reset();
  const Values x = numbers(kN * kC * kH * kW, 1), w = numbers(kK * kC / kG * kR * kS, 2), dy = numbers(kN * kK * kP * kQ, 3);
  std::vector<double> y(dy.size(), 0.0), dx(x.size(), 0.0), dw(w.size(), 0.0), db(kK, 0.0);
  each_tap([&](size_t xi, size_t wi, size_t yi) {
    y[yi] += x[xi] * w[wi];
    dx[xi] += w[wi] * dy[yi];
    dw[wi] += x[xi] * dy[yi];
  });
  for (size_t i = 0; i < dy.size(); ++i) db[i / (kP * kQ) % kK] += dy[i];
  for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
    const bool last = format == CUDNN_TENSOR_NHWC;
    const auto in = [&](const Values& v, int c, int hw, int n) { return last ? to_channels_last(v, n, c, hw) : v; };
    const auto out = [&](const Values& v, int c, int hw, int n) { return last ? to_row_major(v, n, c, hw) : v; };
    Dnn dnn;
    const Tensor tx({kN, kC, kH, kW}, format), ty({kN, kK, kP, kQ}, format), tb({1, kK, 1, 1});
    const Filter tw({kK, kC / kG, kR, kS}, format);
    const Conv conv(1, 2, 1, kG);
    int dims[4];
    CHECK(cudnnGetConvolutionNdForwardOutputDim(conv.at, tx.at, tw.at, 4, dims) == CUDNN_STATUS_SUCCESS);
    CHECK((dims[0] == kN && dims[1] == kK && dims[2] == kP && dims[3] == kQ));
    OnDevice<float> ax(in(x, kC, kH * kW, kN)), aw(in(w, kC / kG, kR * kS, kK)), ady(in(dy, kK, kP * kQ, kN)), ay(y.size()), adx(x.size()), adw(w.size()), adb(kK);

    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t forward[8];
    REQUIRE(cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, tx.at, tw.at, conv.at, ty.at, 8, &count, forward) == CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < count; ++i) {
      if (forward[i].status != CUDNN_STATUS_SUCCESS) continue;
      size_t bytes = 0;
      CHECK(cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, tx.at, tw.at, conv.at, ty.at, forward[i].algo, &bytes) == CUDNN_STATUS_SUCCESS);
      CHECK(bytes == forward[i].memory);
      OnDevice<char> workspace(bytes);
      CHECK(cudnnConvolutionForward(dnn.handle, &kOne, tx.at, ax.at, tw.at, aw.at, conv.at, forward[i].algo, workspace.at, bytes, &kZero, ty.at, ay.at) == CUDNN_STATUS_SUCCESS);
      CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
      check_close(out(ay.host(), kK, kP * kQ, kN), y);
    }
    cudnnConvolutionBwdDataAlgoPerf_t data[8];
    REQUIRE(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn.handle, tw.at, ty.at, conv.at, tx.at, 8, &count, data) == CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < count; ++i) {
      OnDevice<char> workspace(data[i].memory);
      CHECK(cudnnConvolutionBackwardData(dnn.handle, &kOne, tw.at, aw.at, ty.at, ady.at, conv.at, data[i].algo, workspace.at, data[i].memory, &kZero, tx.at, adx.at) == CUDNN_STATUS_SUCCESS);
      CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
      check_close(out(adx.host(), kC, kH * kW, kN), dx);
    }
    cudnnConvolutionBwdFilterAlgoPerf_t filter[8];
    REQUIRE(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn.handle, tx.at, ty.at, conv.at, tw.at, 8, &count, filter) == CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < count; ++i) {
      if (filter[i].status != CUDNN_STATUS_SUCCESS) continue;
      OnDevice<char> workspace(filter[i].memory);
      CHECK(cudnnConvolutionBackwardFilter(dnn.handle, &kOne, tx.at, ax.at, ty.at, ady.at, conv.at, filter[i].algo, workspace.at, filter[i].memory, &kZero, tw.at, adw.at) ==
            CUDNN_STATUS_SUCCESS);
      CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
      check_close(out(adw.host(), kC / kG, kR * kS, kK), dw);
    }
    CHECK(cudnnConvolutionBackwardBias(dnn.handle, &kOne, ty.at, ady.at, &kZero, tb.at, adb.at) == CUDNN_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
    check_close(adb.host(), db);
  }
  CHECK(eng_emulation::violations().empty());
  CHECK(eng_emulation::leaks().empty());
}

TEST_CASE("a workspace that is too small and an algorithm that no query gave are caught") {
  eng_emulation::reset();
  Dnn dnn;
  const Tensor tx({1, 1, 4, 4}), ty({1, 1, 2, 2});
  const Filter tw({1, 1, 3, 3});
  const Conv conv(0, 1, 1, 1);
  OnDevice<float> x(Values(16, 1)), w(Values(9, 1)), y(4);
  OnDevice<char> workspace(64);
  CHECK(cudnnConvolutionForward(dnn.handle, &kOne, tx.at, x.at, tw.at, w.at, conv.at, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &kZero, ty.at, y.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("did not come from a query"));
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t forward[1];
  cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, tx.at, tw.at, conv.at, ty.at, 1, &count, forward);
  REQUIRE(count == 1);
  REQUIRE(forward[0].memory > 64);
  CHECK(cudnnConvolutionForward(dnn.handle, &kOne, tx.at, x.at, tw.at, w.at, conv.at, forward[0].algo, workspace.at, 64, &kZero, ty.at, y.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("the workspace has 64 bytes"));
  // As large as the query said, by its own word, but not in memory.
  CHECK(cudnnConvolutionForward(dnn.handle, &kOne, tx.at, x.at, tw.at, w.at, conv.at, forward[0].algo, workspace.at, forward[0].memory, &kZero, ty.at, y.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaErrorIllegalAddress);
  CHECK(caught("cudnnConvolutionForward, workspace: out of bounds"));
}

TEST_CASE("wrong descriptors are caught") {
  eng_emulation::reset();
  Dnn dnn;
  const Tensor tx({1, 2, 4, 4}), ty({1, 1, 3, 2});
  const Filter tw({1, 2, 3, 3});
  const Conv conv(0, 1, 1, 1);
  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t forward[1];
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, tx.at, tw.at, conv.at, ty.at, 1, &count, forward) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("axis 2 of the output is 3, the convolution gives 2"));
  cudnnTensorDescriptor_t empty;
  cudnnCreateTensorDescriptor(&empty);
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, tx.at, tw.at, conv.at, empty, 1, &count, forward) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("was made but not set"));
  const int dims[3] = {1, 2, 3}, strides[3] = {6, 3, 1};
  CHECK(cudnnSetTensorNdDescriptor(empty, CUDNN_DATA_FLOAT, 3, dims, strides) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(caught("3 dimensions"));
  cudnnDestroyTensorDescriptor(empty);
}

TEST_CASE("cuDNN pools: maximum and both averages, forward and backward") {
  eng_emulation::reset();
  const int n = 2, c = 3, h = 5, w = 4, p = 3, q = 2;  // window 3x2, pad 1x0, stride 2x2
  const Values x = numbers(static_cast<size_t>(n * c * h * w), 5), dy = numbers(static_cast<size_t>(n * c * p * q), 6);
  for (const cudnnPoolingMode_t mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING})
    for (const cudnnTensorFormat_t format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
      const bool max = mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC, last = format == CUDNN_TENSOR_NHWC;
      std::vector<double> y(dy.size()), dx(x.size(), 0.0);
      for (int plane = 0; plane < n * c; ++plane)
        for (int oy = 0; oy < p; ++oy)
          for (int ox = 0; ox < q; ++ox) {
            std::vector<size_t> inside;
            for (int iy = 2 * oy - 1; iy < 2 * oy + 2; ++iy)
              for (int ix = 2 * ox; ix < 2 * ox + 2; ++ix)
                if (iy >= 0 && iy < h && ix < w) inside.push_back(static_cast<size_t>((plane * h + iy) * w + ix));
            const auto at = static_cast<size_t>((plane * p + oy) * q + ox);
            size_t best = inside[0];
            double sum = 0;
            for (const size_t i : inside) sum += x[i], best = x[i] > x[best] ? i : best;
            const double divisor = mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ? 6.0 : static_cast<double>(inside.size());
            y[at] = max ? x[best] : sum / divisor;
            if (max) dx[best] += dy[at];
            else
              for (const size_t i : inside) dx[i] += dy[at] / divisor;
          }
      Dnn dnn;
      cudnnPoolingDescriptor_t pooling;
      cudnnCreatePoolingDescriptor(&pooling);
      CHECK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, 3, 2, 1, 0, 2, 2) == CUDNN_STATUS_SUCCESS);
      const Tensor tx({n, c, h, w}, format), ty({n, c, p, q}, format);
      OnDevice<float> ax(last ? to_channels_last(x, n, c, h * w) : x), ady(last ? to_channels_last(dy, n, c, p * q) : dy), ay(y.size()), adx(x.size());
      CHECK(cudnnPoolingForward(dnn.handle, pooling, &kOne, tx.at, ax.at, &kZero, ty.at, ay.at) == CUDNN_STATUS_SUCCESS);
      CHECK(cudnnPoolingBackward(dnn.handle, pooling, &kOne, ty.at, ay.at, ty.at, ady.at, tx.at, ax.at, &kZero, tx.at, adx.at) == CUDNN_STATUS_SUCCESS);
      CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
      check_close(last ? to_row_major(ay.host(), n, c, p * q) : ay.host(), y);
      check_close(last ? to_row_major(adx.host(), n, c, h * w) : adx.host(), dx);
      cudnnDestroyPoolingDescriptor(pooling);
    }
  CHECK(eng_emulation::violations().empty());
}

TEST_CASE("cuDNN normalises batches: training, backward, inference") {
  eng_emulation::reset();
  const int n = 3, c = 2, inner = 4, m = n * inner;
  const Values x = numbers(static_cast<size_t>(n * c * inner), 7), dy = numbers(x.size(), 8), scale = {1.5f, -0.5f}, bias = {0.25f, 2};
  const double epsilon = 1e-3, factor = 0.25;
  std::vector<double> mean(2, 0.0), variance(2, 0.0), y(x.size()), dx(x.size()), dscale(2, 0.0), dbias(2, 0.0), inferred(x.size());
  const auto channel = [&](size_t i) { return i / inner % 2; };
  for (size_t i = 0; i < x.size(); ++i) mean[channel(i)] += x[i] / static_cast<double>(m);
  for (size_t i = 0; i < x.size(); ++i) variance[channel(i)] += std::pow(x[i] - mean[channel(i)], 2) / m;
  const auto normal = [&](size_t i) { return (x[i] - mean[channel(i)]) / std::sqrt(variance[channel(i)] + epsilon); };
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = normal(i) * scale[channel(i)] + bias[channel(i)];
    dscale[channel(i)] += dy[i] * normal(i);
    dbias[channel(i)] += dy[i];
  }
  // The gradient by the chain rule, from d y_j / d x_i for all pairs of a channel.
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) {
      const size_t k = channel(i);
      if (channel(j) != k) continue;
      dx[i] += dy[j] * scale[k] / std::sqrt(variance[k] + epsilon) * ((i == j ? 1.0 : 0.0) - 1.0 / m - normal(i) * normal(j) / m);
    }
  Dnn dnn;
  const Tensor tx({n, c, 2, 2}), per({1, c, 1, 1});
  OnDevice<float> ax(x), ady(dy), as(scale), ab(bias), ay(x.size()), adx(x.size()), ads(2), adb(2), running_mean(Values{1, 1}), running_variance(Values{2, 2}), saved_mean(2), saved_inverse(2);
  CHECK(cudnnBatchNormalizationForwardTraining(dnn.handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, &kOne, &kZero, tx.at, ax.at, tx.at, ay.at, per.at, as.at, ab.at, factor, running_mean.at,
                                               running_variance.at, epsilon, saved_mean.at, saved_inverse.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnBatchNormalizationBackward(dnn.handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, &kOne, &kZero, &kOne, &kZero, tx.at, ax.at, tx.at, ady.at, tx.at, adx.at, per.at, as.at, ads.at,
                                        adb.at, epsilon, saved_mean.at, saved_inverse.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
  check_close(ay.host(), y);
  check_close(adx.host(), dx);
  check_close(ads.host(), dscale);
  check_close(adb.host(), dbias);
  check_close(saved_mean.host(), mean);
  check_close(saved_inverse.host(), {1 / std::sqrt(variance[0] + epsilon), 1 / std::sqrt(variance[1] + epsilon)});
  std::vector<double> new_mean, new_variance;
  for (size_t k = 0; k < 2; ++k) {
    new_mean.push_back(0.75 * 1 + 0.25 * mean[k]);
    new_variance.push_back(0.75 * 2 + 0.25 * variance[k] * m / (m - 1));
  }
  check_close(running_mean.host(), new_mean);
  check_close(running_variance.host(), new_variance);
  for (size_t i = 0; i < x.size(); ++i) inferred[i] = (x[i] - new_mean[channel(i)]) / std::sqrt(new_variance[channel(i)] + epsilon) * scale[channel(i)] + bias[channel(i)];
  CHECK(cudnnBatchNormalizationForwardInference(dnn.handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, tx.at, ax.at, tx.at, ay.at, per.at, as.at, ab.at, running_mean.at, running_variance.at,
                                                epsilon) == CUDNN_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
  check_close(ay.host(), inferred);
  CHECK(eng_emulation::violations().empty());
}

TEST_CASE("cuDNN's softmax, activation, addition and reduction") {
  eng_emulation::reset();
  Dnn dnn;
  const Values x = numbers(2 * 3 * 2, 9), dy = numbers(x.size(), 10);
  const Tensor t({2, 3, 2, 1}), row({1, 3, 1, 1});
  OnDevice<float> ax(x), ady(dy), ay(x.size()), adx(x.size()), bias(Values{1, 2, 3}), sums(3), workspace(100);
  for (const bool log : {false, true}) {
    std::vector<double> y(x.size()), dx(x.size());
    for (size_t n = 0; n < 2; ++n)
      for (size_t i = 0; i < 2; ++i) {
        double sum = 0, dot = 0;
        for (size_t k = 0; k < 3; ++k) sum += std::exp(static_cast<double>(x[(n * 3 + k) * 2 + i]));
        for (size_t k = 0; k < 3; ++k) {
          const size_t at = (n * 3 + k) * 2 + i;
          y[at] = log ? x[at] - std::log(sum) : std::exp(static_cast<double>(x[at])) / sum;
          dot += log ? dy[at] : dy[at] * y[at];
        }
        for (size_t k = 0; k < 3; ++k) {
          const size_t at = (n * 3 + k) * 2 + i;
          dx[at] = log ? dy[at] - std::exp(y[at]) * dot : y[at] * (dy[at] - dot);
        }
      }
    const cudnnSoftmaxAlgorithm_t algorithm = log ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
    CHECK(cudnnSoftmaxForward(dnn.handle, algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne, t.at, ax.at, &kZero, t.at, ay.at) == CUDNN_STATUS_SUCCESS);
    CHECK(cudnnSoftmaxBackward(dnn.handle, algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne, t.at, ay.at, t.at, ady.at, &kZero, t.at, adx.at) == CUDNN_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
    check_close(ay.host(), y);
    check_close(adx.host(), dx);
  }
  cudnnActivationDescriptor_t relu;
  cudnnCreateActivationDescriptor(&relu);
  cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
  cudnnReduceTensorDescriptor_t reduce;
  cudnnCreateReduceTensorDescriptor(&reduce);
  cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES);
  CHECK(cudnnActivationForward(dnn.handle, relu, &kOne, t.at, ax.at, &kZero, t.at, ay.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnActivationBackward(dnn.handle, relu, &kOne, t.at, ay.at, t.at, ady.at, t.at, ax.at, &kZero, t.at, adx.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnAddTensor(dnn.handle, &kOne, row.at, bias.at, &kOne, t.at, ay.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnReduceTensor(dnn.handle, reduce, nullptr, 0, workspace.at, 400, &kOne, t.at, ax.at, &kZero, row.at, sums.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
  std::vector<double> y, dx, summed(3, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back(std::max(x[i], 0.0f) + 1.0 + static_cast<double>(i / 2 % 3));
    dx.push_back(x[i] > 0 ? dy[i] : 0);
    summed[i / 2 % 3] += x[i];
  }
  check_close(ay.host(), y);
  check_close(adx.host(), dx);
  check_close(sums.host(), summed);
  cudnnDestroyActivationDescriptor(relu);
  cudnnDestroyReduceTensorDescriptor(reduce);
  CHECK(eng_emulation::violations().empty());
}

TEST_CASE("calls in place that are not documented to work so, windows that do not fit and running statistics that were never written are caught") {
  eng_emulation::reset();
  Dnn dnn;
  const Tensor t({2, 3, 4, 4}), per({1, 3, 1, 1}), small({2, 3, 2, 2}), last({2, 3, 4, 4}, CUDNN_TENSOR_NHWC);
  const size_t count = 2 * 3 * 4 * 4;
  OnDevice<float> x(numbers(count, 1)), y(count), dy(numbers(count, 2)), ones(Values(3, 1)), a(3), b(3);
  const auto inference = [&](float* to) {
    return cudnnBatchNormalizationForwardInference(dnn.handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, t.at, x.at, t.at, to, per.at, ones.at, ones.at, ones.at, ones.at, 1e-5);
  };
  CHECK(inference(x.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("cudnnBatchNormalizationForwardInference: x and y share memory"));
  CHECK(inference(y.at) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnBatchNormalizationForwardTraining(dnn.handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, t.at, x.at, t.at, y.at, per.at, ones.at, ones.at, 1.0, a.at, b.at, 1e-5, nullptr,
                                               nullptr) == CUDNN_STATUS_SUCCESS);
  CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
  CHECK(caught("running mean: reads memory that was never written"));
  CHECK(cudnnBatchNormalizationBackward(dnn.handle, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, &kOne, &kZero, t.at, x.at, last.at, dy.at, t.at, y.at, per.at, ones.at, a.at, b.at, 1e-5,
                                        ones.at, ones.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("x and dy have different strides"));
  CHECK(cudnnSoftmaxForward(dnn.handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne, t.at, x.at, &kZero, t.at, x.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("cudnnSoftmaxForward: x and y share memory"));
  CHECK(cudnnSoftmaxBackward(dnn.handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &kOne, t.at, x.at, t.at, dy.at, &kZero, t.at, dy.at) == CUDNN_STATUS_SUCCESS);
  cudnnPoolingDescriptor_t pooling;
  cudnnCreatePoolingDescriptor(&pooling);
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 5, 5, 0, 0, 2, 2) == CUDNN_STATUS_SUCCESS);
  CHECK(cudnnPoolingForward(dnn.handle, pooling, &kOne, t.at, x.at, &kZero, small.at, y.at) == CUDNN_STATUS_BAD_PARAM);
  CHECK(caught("the window is larger than axis 2 of x with its pads"));
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 2, 0, 2, 2) == CUDNN_STATUS_BAD_PARAM);
  cudnnDestroyPoolingDescriptor(pooling);
}

TEST_CASE("a NaN is a maximum only where cuDNN was told so") {
  eng_emulation::reset();
  Dnn dnn;
  cudnnPoolingDescriptor_t pooling;
  cudnnCreatePoolingDescriptor(&pooling);
  const Tensor tx({1, 1, 1, 4}), ty({1, 1, 1, 2});
  OnDevice<float> x(Values{NAN, 5, 7, NAN}), y(2);
  for (const cudnnNanPropagation_t nans : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
    CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX_DETERMINISTIC, nans, 1, 2, 0, 0, 1, 2) == CUDNN_STATUS_SUCCESS);
    CHECK(cudnnPoolingForward(dnn.handle, pooling, &kOne, tx.at, x.at, &kZero, ty.at, y.at) == CUDNN_STATUS_SUCCESS);
    CHECK(cudaStreamSynchronize(dnn.stream.at) == cudaSuccess);
    if (nans == CUDNN_PROPAGATE_NAN) CHECK((std::isnan(y.host()[0]) && std::isnan(y.host()[1])));
    else CHECK(y.host() == Values{5, 7});
  }
  cudnnDestroyPoolingDescriptor(pooling);
  CHECK(eng_emulation::violations().empty());
}
