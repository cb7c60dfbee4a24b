// cuDNN's softmax, activations, additions with broadcasting, reductions, fills and layout changes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/cuda_emulation/cudnn_objects.h"

namespace eng_emulation {

namespace {

// Row-major index into a tensor of shape `small`, whose sizes are those of `big` or 1, for every element of `big` in row-major order.
std::vector<size_t> broadcast_indices(const std::vector<int64_t>& big, const std::vector<int64_t>& small) {
  Layout l{Type::kInt8, big, std::vector<int64_t>(big.size(), 0)};
  int64_t stride = 1;
  for (size_t d = big.size(); d-- > 0;) l.strides[d] = small[d] == 1 ? 0 : stride, stride *= small[d];
  std::vector<size_t> out;
  out.reserve(l.count());
  each_offset(l, [&](int64_t offset) { out.push_back(static_cast<size_t>(offset)); });
  return out;
}

bool broadcasts(const Layout& small, const Layout& big) {
  if (small.dims.size() != big.dims.size()) return false;
  for (size_t d = 0; d < big.dims.size(); ++d)
    if (small.dims[d] != 1 && small.dims[d] != big.dims[d]) return false;
  return true;
}

// Softmax runs over `length` elements, `inner` apart, in groups.
struct Lines {
  size_t groups, length, inner;
};
// What both directions of a softmax want of a tensor.
void check_softmax(DnnCall& call, const Layout& t) {
  if (call.good) call.require(t.dims.size() == 4 || t.dims.size() == 5, "it takes 4 or 5 dimensions");
}
Lines lines_of(const Layout& x, cudnnSoftmaxMode_t mode) {
  const auto n = static_cast<size_t>(x.dims[0]), c = static_cast<size_t>(x.dims[1]);
  return mode == CUDNN_SOFTMAX_MODE_INSTANCE ? Lines{n, x.count() / n, 1} : Lines{n, c, x.count() / n / c};
}
// Calls f(indices of one line).
template <class F>
void each_line(const Lines& l, F f) {
  std::vector<size_t> at(l.length);
  for (size_t g = 0; g < l.groups; ++g)
    for (size_t i = 0; i < l.inner; ++i) {
      for (size_t k = 0; k < l.length; ++k) at[k] = (g * l.length + k) * l.inner + i;
      f(at);
    }
}

double activate(const cudnnActivationStruct& a, double x) {
  switch (a.mode) {
    case CUDNN_ACTIVATION_SIGMOID: return 1 / (1 + std::exp(-x));
    case CUDNN_ACTIVATION_RELU: return x > 0 ? x : 0;
    case CUDNN_ACTIVATION_TANH: return std::tanh(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU: return std::clamp(x, 0.0, a.coefficient);
    case CUDNN_ACTIVATION_ELU: return x > 0 ? x : a.coefficient * (std::exp(x) - 1);
    case CUDNN_ACTIVATION_SWISH: return x / (1 + std::exp(-a.swish_beta * x));
    default: return x;
  }
}
double activation_slope(const cudnnActivationStruct& a, double x, double y) {
  switch (a.mode) {
    case CUDNN_ACTIVATION_SIGMOID: return y * (1 - y);
    case CUDNN_ACTIVATION_RELU: return x > 0 ? 1 : 0;
    case CUDNN_ACTIVATION_TANH: return 1 - y * y;
    case CUDNN_ACTIVATION_CLIPPED_RELU: return x > 0 && x < a.coefficient ? 1 : 0;
    case CUDNN_ACTIVATION_ELU: return x > 0 ? 1 : y + a.coefficient;
    case CUDNN_ACTIVATION_SWISH: { const double s = 1 / (1 + std::exp(-a.swish_beta * x)); return s + a.swish_beta * x * s * (1 - s); }
    default: return 1;
  }
}

double combine(cudnnOpTensorOp_t op, double a, double b) {
  switch (op) {
    case CUDNN_OP_TENSOR_ADD: return a + b;
    case CUDNN_OP_TENSOR_MUL: return a * b;
    case CUDNN_OP_TENSOR_MIN: return std::min(a, b);
    case CUDNN_OP_TENSOR_MAX: return std::max(a, b);
    case CUDNN_OP_TENSOR_SQRT: return std::sqrt(a);
    case CUDNN_OP_TENSOR_NOT: return 1 - a;
  }
  return 0;
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

// ---- softmax ----

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode, const void* alpha_at, const cudnnTensorDescriptor_t x_desc,
                                  const void* x, const void* beta_at, const cudnnTensorDescriptor_t y_desc, void* y) {
  DnnCall call("cudnnSoftmaxForward", handle);
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout;
  call.same(from, to, "x and y");
  check_softmax(call, from);
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.writes(y, to), call.apart(x, from, y, to, "x and y");
  return call.run([=](const Call& self) {
    std::vector<double> v = self.load(x, from, "x");
    each_line(lines_of(from, mode), [&](const std::vector<size_t>& line) {
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      for (const size_t i : line) most = std::max(most, v[i]);
      if (algorithm == CUDNN_SOFTMAX_FAST) most = 0;
      for (const size_t i : line) sum += std::exp(v[i] - most);
      for (const size_t i : line) v[i] = algorithm == CUDNN_SOFTMAX_LOG ? v[i] - most - std::log(sum) : std::exp(v[i] - most) / sum;
    });
    self.store(y, to, v, alpha, beta, "y");
  });
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode, const void* alpha_at, const cudnnTensorDescriptor_t y_desc,
                                   const void* y, const cudnnTensorDescriptor_t dy_desc, const void* dy, const void* beta_at, const cudnnTensorDescriptor_t dx_desc, void* dx) {
  DnnCall call("cudnnSoftmaxBackward", handle);
  const Layout of_y = call.get(y_desc, "yDesc").layout, of_dy = call.get(dy_desc, "dyDesc").layout, of_dx = call.get(dx_desc, "dxDesc").layout;
  call.same(of_y, of_dy, "y and dy");
  call.same(of_y, of_dx, "y and dx");
  check_softmax(call, of_y);
  if (dy == dx) call.identical(of_dy, of_dx, "dy and dx in place");
  else call.apart(dy, of_dy, dx, of_dx, "dy and dx");
  call.apart(y, of_y, dx, of_dx, "y and dx");
  const double alpha = call.scalar(alpha_at, of_y.type, "alpha"), beta = call.scalar(beta_at, of_y.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(y, of_y), call.reads(dy, of_dy), call.writes(dx, of_dx);
  return call.run([=](const Call& self) {
    const std::vector<double> v = self.load(y, of_y, "y"), grad = self.load(dy, of_dy, "dy");
    std::vector<double> out(v.size());
    each_line(lines_of(of_y, mode), [&](const std::vector<size_t>& line) {
      double sum = 0;
      for (const size_t i : line) sum += algorithm == CUDNN_SOFTMAX_LOG ? grad[i] : grad[i] * v[i];
      for (const size_t i : line) out[i] = algorithm == CUDNN_SOFTMAX_LOG ? grad[i] - std::exp(v[i]) * sum : v[i] * (grad[i] - sum);
    });
    self.store(dx, of_dx, out, alpha, beta, "dx");
  });
}

// ---- activations ----

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation, const void* alpha_at, const cudnnTensorDescriptor_t x_desc, const void* x,
                                     const void* beta_at, const cudnnTensorDescriptor_t y_desc, void* y) {
  DnnCall call("cudnnActivationForward", handle);
  const cudnnActivationStruct& found = call.get(activation, "activationDesc");
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout;
  call.same(from, to, "x and y");
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.writes(y, to);
  return call.run([=, a = found](const Call& self) {
    std::vector<double> v = self.load(x, from, "x");
    for (double& e : v) e = activate(a, e);
    self.store(y, to, v, alpha, beta, "y");
  });
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation, const void* alpha_at, const cudnnTensorDescriptor_t y_desc, const void* y,
                                      const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t x_desc, const void* x, const void* beta_at,
                                      const cudnnTensorDescriptor_t dx_desc, void* dx) {
  DnnCall call("cudnnActivationBackward", handle);
  const cudnnActivationStruct& found = call.get(activation, "activationDesc");
  const Layout of_y = call.get(y_desc, "yDesc").layout, of_dy = call.get(dy_desc, "dyDesc").layout, of_x = call.get(x_desc, "xDesc").layout, of_dx = call.get(dx_desc, "dxDesc").layout;
  call.same(of_y, of_dy, "y and dy");
  call.same(of_y, of_x, "y and x");
  call.same(of_y, of_dx, "y and dx");
  const double alpha = call.scalar(alpha_at, of_y.type, "alpha"), beta = call.scalar(beta_at, of_y.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(y, of_y), call.reads(dy, of_dy), call.reads(x, of_x), call.writes(dx, of_dx);
  return call.run([=, a = found](const Call& self) {
    const std::vector<double> in = self.load(x, of_x, "x"), out = self.load(y, of_y, "y");
    std::vector<double> grad = self.load(dy, of_dy, "dy");
    for (size_t i = 0; i < grad.size(); ++i) grad[i] *= activation_slope(a, in[i], out[i]);
    self.store(dx, of_dx, grad, alpha, beta, "dx");
  });
}

// ---- additions and other pairs ----

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha_at, const cudnnTensorDescriptor_t a_desc, const void* a, const void* beta_at, const cudnnTensorDescriptor_t c_desc,
                             void* c) {
  DnnCall call("cudnnAddTensor", handle);
  const Layout small = call.get(a_desc, "aDesc").layout, big = call.get(c_desc, "cDesc").layout;
  call.require(broadcasts(small, big), "a's dimensions are neither c's nor 1");
  const double alpha = call.scalar(alpha_at, big.type, "alpha"), beta = call.scalar(beta_at, big.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(a, small), call.writes(c, big);
  return call.run([=](const Call& self) {
    const std::vector<double> v = self.load(a, small, "A");
    const std::vector<size_t> from = broadcast_indices(big.dims, small.dims);
    std::vector<double> out(from.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = v[from[i]];
    self.store(c, big, out, alpha, beta, "C");
  });
}

cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op_desc, const void* alpha1_at, const cudnnTensorDescriptor_t a_desc, const void* a,
                            const void* alpha2_at, const cudnnTensorDescriptor_t b_desc, const void* b, const void* beta_at, const cudnnTensorDescriptor_t c_desc, void* c) {
  DnnCall call("cudnnOpTensor", handle);
  const cudnnOpTensorOp_t op = call.get(op_desc, "opTensorDesc").op;
  const bool one = op == CUDNN_OP_TENSOR_SQRT || op == CUDNN_OP_TENSOR_NOT;
  const Layout of_a = call.get(a_desc, "aDesc").layout, of_c = call.get(c_desc, "cDesc").layout, of_b = one ? of_a : call.get(b_desc, "bDesc").layout;
  call.require(same_dims(of_a, of_c), "a and c have different shapes");
  call.require(broadcasts(of_b, of_c), "b's dimensions are neither c's nor 1");
  const double alpha1 = call.scalar(alpha1_at, of_c.type, "alpha1"), alpha2 = one ? 1 : call.scalar(alpha2_at, of_c.type, "alpha2"), beta = call.scalar(beta_at, of_c.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(a, of_a), call.writes(c, of_c);
  if (!one) call.reads(b, of_b);
  return call.run([=](const Call& self) {
    const std::vector<double> va = self.load(a, of_a, "A"), vb = one ? va : self.load(b, of_b, "B");
    const std::vector<size_t> from = broadcast_indices(of_c.dims, of_b.dims);
    std::vector<double> out(va.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = combine(op, alpha1 * va[i], alpha2 * vb[from[i]]);
    self.store(c, of_c, out, 1, beta, "C");
  });
}

// ---- reductions ----

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduce, const cudnnTensorDescriptor_t a, const cudnnTensorDescriptor_t c, size_t* bytes) {
  DnnCall call("cudnnGetReductionWorkspaceSize", handle);
  call.get(reduce, "reduceTensorDesc");
  const Layout from = call.get(a, "aDesc").layout, to = call.get(c, "cDesc").layout;
  if (call.good) *bytes = from.count() == to.count() ? 0 : to.count() * 16 + 256;
  return call.failed();
}
cudnnStatus_t cudnnGetReductionIndicesSize(cudnnHandle_t, const cudnnReduceTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, size_t* bytes) {
  return *bytes = 0, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduce, void*, size_t, void* workspace, size_t workspace_bytes, const void* alpha_at,
                                const cudnnTensorDescriptor_t a_desc, const void* a, const void* beta_at, const cudnnTensorDescriptor_t c_desc, void* c) {
  DnnCall call("cudnnReduceTensor", handle);
  const cudnnReduceTensorOp_t op = call.get(reduce, "reduceTensorDesc").op;
  const Layout from = call.get(a_desc, "aDesc").layout, to = call.get(c_desc, "cDesc").layout;
  call.require(broadcasts(to, from), "c's dimensions are neither a's nor 1");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  const size_t needed = from.count() == to.count() ? 0 : to.count() * 16 + 256;
  call.require(workspace_bytes >= needed && (needed == 0 || workspace), "the workspace has " + std::to_string(workspace_bytes) + " bytes, the reduction needs " + std::to_string(needed));
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(a, from), call.writes(c, to), call.scratch(workspace, needed);
  return call.run([=](const Call& self) {
    const std::vector<double> v = self.load(a, from, "A");
    const std::vector<size_t> into = broadcast_indices(from.dims, to.dims);
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<double> out(to.count(), op == CUDNN_REDUCE_TENSOR_MIN ? infinity : op == CUDNN_REDUCE_TENSOR_MAX ? -infinity : op == CUDNN_REDUCE_TENSOR_MUL ? 1 : 0);
    for (size_t i = 0; i < v.size(); ++i) {
      double& o = out[into[i]];
      switch (op) {
        case CUDNN_REDUCE_TENSOR_ADD: case CUDNN_REDUCE_TENSOR_AVG: o += v[i]; break;
        case CUDNN_REDUCE_TENSOR_MUL: o *= v[i]; break;
        case CUDNN_REDUCE_TENSOR_MIN: o = std::min(o, v[i]); break;
        case CUDNN_REDUCE_TENSOR_MAX: o = std::max(o, v[i]); break;
        case CUDNN_REDUCE_TENSOR_AMAX: o = std::max(o, std::fabs(v[i])); break;
        case CUDNN_REDUCE_TENSOR_NORM1: o += std::fabs(v[i]); break;
        case CUDNN_REDUCE_TENSOR_NORM2: o += v[i] * v[i]; break;
        case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS: o = v[i] == 0 ? o : o == 0 ? v[i] : o * v[i]; break;
      }
    }
    for (double& o : out) o = op == CUDNN_REDUCE_TENSOR_AVG ? o * static_cast<double>(to.count()) / static_cast<double>(from.count()) : op == CUDNN_REDUCE_TENSOR_NORM2 ? std::sqrt(o) : o;
    self.store(c, to, out, alpha, beta, "C");
  });
}

// ---- fills and layouts ----

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t y_desc, void* y, const void* value_at) {
  DnnCall call("cudnnSetTensor", handle);
  const Layout to = call.get(y_desc, "yDesc").layout;
  call.require(value_at != nullptr, "the value is null");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  const double value = get(to.type, value_at);
  call.writes(y, to);
  return call.run([=](const Call& self) { self.store(y, to, std::vector<double>(to.count(), value), 1, 0, "y"); });
}

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t y_desc, void* y, const void* alpha_at) {
  DnnCall call("cudnnScaleTensor", handle);
  const Layout to = call.get(y_desc, "yDesc").layout;
  const double alpha = call.scalar(alpha_at, to.type, "alpha");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.writes(y, to);
  return call.run([=](const Call& self) { self.store(y, to, self.load(y, to, "y"), alpha, 0, "y"); });
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void* alpha_at, const cudnnTensorDescriptor_t x_desc, const void* x, const void* beta_at, const cudnnTensorDescriptor_t y_desc,
                                   void* y) {
  DnnCall call("cudnnTransformTensor", handle);
  const Layout from = call.get(x_desc, "xDesc").layout, to = call.get(y_desc, "yDesc").layout;
  call.require(same_dims(from, to), "x and y have different shapes");
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(x, from), call.writes(y, to);
  return call.run([=](const Call& self) { self.store(y, to, self.load(x, from, "x"), alpha, beta, "y"); });
}
