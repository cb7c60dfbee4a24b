// cuDNN's batch normalisation and LRN. Values are N x C x inner. Statistics of float tensors are summed in float, a value after the other: a caller must be content
// with that.
#include <algorithm>
#include <cmath>

#include "tests/support/cuda_emulation/cudnn_objects.h"

namespace eng_emulation {

namespace {

// How many statistics a batch norm has and which one element i belongs to.
struct Groups {
  size_t batch, channels, inner;
  bool per_activation;
  size_t count() const { return per_activation ? channels * inner : channels; }
  size_t of(size_t i) const { return per_activation ? i % (channels * inner) : i / inner % channels; }
  double members() const { return static_cast<double>(per_activation ? batch : batch * inner); }
};

Groups groups_of(const Layout& x, cudnnBatchNormMode_t mode) {
  Groups g{static_cast<size_t>(x.dims[0]), static_cast<size_t>(x.dims[1]), 0, mode == CUDNN_BATCHNORM_PER_ACTIVATION};
  g.inner = x.count() / g.batch / g.channels;
  return g;
}

void check_parameters(DnnCall& call, const Layout& x, const Layout& parameters, cudnnBatchNormMode_t mode, double epsilon) {
  if (!call.good) return;
  call.require(x.dims.size() == 4 || x.dims.size() == 5, "it takes 4 or 5 dimensions");
  std::vector<int64_t> expected = x.dims;
  expected[0] = 1;
  if (mode != CUDNN_BATCHNORM_PER_ACTIVATION) std::fill(expected.begin() + 2, expected.end(), 1);
  call.require(parameters.dims == expected, "the descriptor of scale and bias is not 1 x C x 1 x 1 (for PER_ACTIVATION 1 x C x H x W)");
  call.require(parameters.type == (x.type == Type::kDouble ? Type::kDouble : Type::kFloat), "scale and bias are not float (double for double tensors)");
  call.require(epsilon >= CUDNN_BN_MIN_EPSILON, "epsilon is below CUDNN_BN_MIN_EPSILON");
}

struct Statistics {
  std::vector<double> mean, variance;  // biased
};

// By Welford's method in T.
template <class T>
Statistics statistics_in(const Groups& g, const std::vector<double>& x) {
  std::vector<T> mean(g.count(), T(0)), squares(g.count(), T(0)), seen(g.count(), T(0));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = g.of(i);
    const T v = static_cast<T>(x[i]), away = v - mean[c];
    seen[c] += 1;
    mean[c] += away / seen[c];
    squares[c] += away * (v - mean[c]);
  }
  Statistics s{{mean.begin(), mean.end()}, {}};
  for (const T& q : squares) s.variance.push_back(static_cast<double>(q) / g.members());
  return s;
}
Statistics statistics(const Groups& g, const std::vector<double>& x, Type type) { return type == Type::kDouble ? statistics_in<double>(g, x) : statistics_in<float>(g, x); }

// The running statistic blended with the batch's. What is there is read whatever the factor is: 0 times a NaN is one.
void blend(const Call& call, void* running, const Layout& l, const std::vector<double>& batch, double factor, const char* operand) {
  std::vector<double> values = call.load(running, l, operand);
  for (size_t i = 0; i < values.size(); ++i) values[i] = values[i] * (1 - factor) + batch[i] * factor;
  call.store(running, l, values, 1, 0, operand);
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_at, const void* beta_at, const cudnnTensorDescriptor_t x_desc,
                                                     const void* x, const cudnnTensorDescriptor_t y_desc, void* y, const cudnnTensorDescriptor_t parameters_desc, const void* scale,
                                                     const void* bias, double factor, void* running_mean, void* running_variance, double epsilon, void* saved_mean,
                                                     void* saved_inverse) {
  DnnCall call("cudnnBatchNormalizationForwardTraining", handle);
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout, per = call.get(parameters_desc, "bnScaleBiasMeanVarDesc").layout;
  call.same(from, to, "x and y");
  check_parameters(call, from, per, mode, epsilon);
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  call.require((running_mean == nullptr) == (running_variance == nullptr), "one of running mean and variance is null");
  call.require((saved_mean == nullptr) == (saved_inverse == nullptr), "one of saved mean and inverse variance is null");
  call.require(factor >= 0 && factor <= 1, "the factor of the running statistics is not in 0..1");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.reads(scale, per), call.reads(bias, per), call.writes(y, to), call.apart(x, from, y, to, "x and y");
  for (void* p : {running_mean, running_variance, saved_mean, saved_inverse})
    if (p) call.writes(p, per);
  if (running_mean) call.apart(running_mean, per, running_variance, per, "running mean and variance");
  if (saved_mean) call.apart(saved_mean, per, saved_inverse, per, "saved mean and inverse variance");
  return call.run([=](const Call& self) {
    const Groups g = groups_of(from, mode);
    const std::vector<double> values = self.load(x, from, "x"), scales = self.load(scale, per, "scale"), biases = self.load(bias, per, "bias");
    const Statistics s = statistics(g, values, from.type);
    std::vector<double> out(values.size()), inverse(g.count());
    for (size_t c = 0; c < g.count(); ++c) inverse[c] = 1 / std::sqrt(s.variance[c] + epsilon);
    for (size_t i = 0; i < values.size(); ++i) out[i] = (values[i] - s.mean[g.of(i)]) * inverse[g.of(i)] * scales[g.of(i)] + biases[g.of(i)];
    self.store(y, to, out, alpha, beta, "y");
    if (running_mean) {
      std::vector<double> unbiased = s.variance;
      for (double& v : unbiased) v *= g.members() / (g.members() - 1);  // of one value: NaN
      blend(self, running_mean, per, s.mean, factor, "running mean");
      blend(self, running_variance, per, unbiased, factor, "running variance");
    }
    if (saved_mean) {
      self.store(saved_mean, per, s.mean, 1, 0, "saved mean");
      self.store(saved_inverse, per, inverse, 1, 0, "saved inverse variance");
    }
  });
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_at, const void* beta_at, const cudnnTensorDescriptor_t x_desc,
                                                      const void* x, const cudnnTensorDescriptor_t y_desc, void* y, const cudnnTensorDescriptor_t parameters_desc, const void* scale,
                                                      const void* bias, const void* mean, const void* variance, double epsilon) {
  DnnCall call("cudnnBatchNormalizationForwardInference", handle);
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout, per = call.get(parameters_desc, "bnScaleBiasMeanVarDesc").layout;
  call.same(from, to, "x and y");
  check_parameters(call, from, per, mode, epsilon);
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.writes(y, to), call.apart(x, from, y, to, "x and y");
  for (const void* p : {scale, bias, mean, variance}) call.reads(p, per);
  return call.run([=](const Call& self) {
    const Groups g = groups_of(from, mode);
    std::vector<double> values = self.load(x, from, "x");
    const std::vector<double> scales = self.load(scale, per, "scale"), biases = self.load(bias, per, "bias"), means = self.load(mean, per, "mean"),
                              variances = self.load(variance, per, "variance");
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = g.of(i);
      values[i] = (values[i] - means[c]) / std::sqrt(variances[c] + epsilon) * scales[c] + biases[c];
    }
    self.store(y, to, values, alpha, beta, "y");
  });
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data_at, const void* beta_data_at, const void* alpha_parameters_at,
                                              const void* beta_parameters_at, const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t dy_desc,
                                              const void* dy, const cudnnTensorDescriptor_t dx_desc, void* dx, const cudnnTensorDescriptor_t parameters_desc, const void* scale,
                                              void* dscale, void* dbias, double epsilon, const void* saved_mean, const void* saved_inverse) {
  DnnCall call("cudnnBatchNormalizationBackward", handle);
  const Layout from = call.get(x_desc, "xDesc").layout, of_dy = call.get(dy_desc, "dyDesc").layout, of_dx = call.get(dx_desc, "dxDesc").layout;
  const Layout per = call.get(parameters_desc, "dBnScaleBiasDesc").layout;
  call.identical(from, of_dy, "x and dy");
  call.identical(from, of_dx, "x and dx");
  call.apart(x, from, dx, of_dx, "x and dx");
  call.apart(dy, of_dy, dx, of_dx, "dy and dx");
  check_parameters(call, from, per, mode, epsilon);
  const double alpha_data = call.scalar(alpha_data_at, from.type, "alphaDataDiff"), beta_data = call.scalar(beta_data_at, from.type, "betaDataDiff");
  const double alpha_parameters = call.scalar(alpha_parameters_at, from.type, "alphaParamDiff"), beta_parameters = call.scalar(beta_parameters_at, from.type, "betaParamDiff");
  call.require((saved_mean == nullptr) == (saved_inverse == nullptr), "one of saved mean and inverse variance is null");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.reads(dy, of_dy), call.reads(scale, per);
  for (const void* p : {saved_mean, saved_inverse})
    if (p) call.reads(p, per);
  call.writes(dx, of_dx), call.writes(dscale, per), call.writes(dbias, per), call.apart(dscale, per, dbias, per, "dscale and dbias");
  return call.run([=](const Call& self) {
    const Groups g = groups_of(from, mode);
    const std::vector<double> values = self.load(x, from, "x"), grad = self.load(dy, of_dy, "dy"), scales = self.load(scale, per, "scale");
    Statistics s;
    std::vector<double> inverse;
    if (saved_mean) {
      s.mean = self.load(saved_mean, per, "saved mean");
      inverse = self.load(saved_inverse, per, "saved inverse variance");
    } else {
      s = statistics(g, values, from.type);
      for (const double v : s.variance) inverse.push_back(1 / std::sqrt(v + epsilon));
    }
    std::vector<double> sum(g.count(), 0.0), sum_normalised(g.count(), 0.0), out(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = g.of(i);
      sum[c] += grad[i];
      sum_normalised[c] += grad[i] * (values[i] - s.mean[c]) * inverse[c];
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = g.of(i);
      out[i] = scales[c] * inverse[c] * (grad[i] - sum[c] / g.members() - (values[i] - s.mean[c]) * inverse[c] * sum_normalised[c] / g.members());
    }
    self.store(dx, of_dx, out, alpha_data, beta_data, "dx");
    self.store(dscale, per, sum_normalised, alpha_parameters, beta_parameters, "dscale");
    self.store(dbias, per, sum, alpha_parameters, beta_parameters, "dbias");
  });
}

// y = x * (k + alpha / n * sum of x^2 over the window of channels)^-beta
cudnnStatus_t cudnnLRNCrossChannelForward(cudnnHandle_t handle, cudnnLRNDescriptor_t norm, cudnnLRNMode_t, const void* alpha_at, const cudnnTensorDescriptor_t x_desc, const void* x,
                                          const void* beta_at, const cudnnTensorDescriptor_t y_desc, void* y) {
  DnnCall call("cudnnLRNCrossChannelForward", handle);
  const cudnnLRNStruct& found = call.get(norm, "normDesc");
  const unsigned n = found.n;
  const double k = found.k, a = found.alpha, b = found.beta;
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout;
  call.same(from, to, "x and y");
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.writes(y, to);
  return call.run([=](const Call& self) {
    const Groups g = groups_of(from, CUDNN_BATCHNORM_SPATIAL);
    const std::vector<double> values = self.load(x, from, "x");
    std::vector<double> out(values.size());
    const int before = static_cast<int>(n - 1) / 2, after = static_cast<int>(n) - before - 1, channels = static_cast<int>(g.channels);
    for (size_t i = 0; i < values.size(); ++i) {
      const int c = static_cast<int>(g.of(i));
      double sum = 0;
      for (int j = std::max(0, c - before); j <= std::min(channels - 1, c + after); ++j) {
        const double v = values[i + static_cast<size_t>(j) * g.inner - static_cast<size_t>(c) * g.inner];
        sum += v * v;
      }
      out[i] = values[i] * std::pow(k + a / n * sum, -b);
    }
    self.store(y, to, out, alpha, beta, "y");
  });
}
