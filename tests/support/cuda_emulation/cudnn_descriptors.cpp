// cuDNN's handle and descriptors.
#include <algorithm>
#include <cstdio>

#include "tests/support/cuda_emulation/cudnn_objects.h"

namespace eng_emulation {

bool type_of(cudnnDataType_t from, Type& to) {
  switch (from) {
    case CUDNN_DATA_FLOAT: return to = Type::kFloat, true;
    case CUDNN_DATA_DOUBLE: return to = Type::kDouble, true;
    case CUDNN_DATA_HALF: return to = Type::kHalf, true;
    case CUDNN_DATA_BFLOAT16: return to = Type::kBfloat16, true;
    case CUDNN_DATA_INT8: return to = Type::kInt8, true;
    case CUDNN_DATA_UINT8: return to = Type::kUint8, true;
    case CUDNN_DATA_INT32: return to = Type::kInt32, true;
    case CUDNN_DATA_INT64: return to = Type::kInt64, true;
    default: return false;
  }
}

bool same_dims(const Layout& a, const Layout& b) { return a.dims == b.dims; }

void DnnCall::same(const Layout& a, const Layout& b, const char* operands) {
  require(same_dims(a, b), std::string(operands) + " have different shapes");
  require(a.type == b.type, std::string(operands) + " have different types");
}

void DnnCall::identical(const Layout& a, const Layout& b, const char* operands) {
  same(a, b, operands);
  require(a.strides == b.strides, std::string(operands) + " have different strides");
}

double DnnCall::scalar(const void* from, Type tensor, const char* argument) {
  require(from != nullptr, std::string(argument) + " is null");
  return good ? eng_emulation::get(tensor == Type::kDouble ? Type::kDouble : Type::kFloat, from) : 0;
}

cudnnStatus_t DnnCall::run(std::function<void(const Call&)> f) {
  if (!good) return CUDNN_STATUS_BAD_PARAM;
  if (lost != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  if (is_among(what, world().settings.unsupported)) return CUDNN_STATUS_NOT_SUPPORTED;
  submit(std::move(f));
  return CUDNN_STATUS_SUCCESS;
}

namespace {

cudnnStatus_t refuse(const std::string& text, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  report_locked(text);
  return status;
}

template <class T>
cudnnStatus_t create(T** descriptor, const char* kind) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (!descriptor) return CUDNN_STATUS_BAD_PARAM;
  *descriptor = make_object_locked<T>(kind, current_device());
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t destroy(T* descriptor, const char* call) {
  std::lock_guard<std::mutex> lock(world().mutex);
  T* found = find_locked<T>(descriptor, call);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  found->alive = false;
  return CUDNN_STATUS_SUCCESS;
}

// Calls f(descriptor) with the mutex held where it is alive.
template <class T, class F>
cudnnStatus_t with(T* descriptor, const char* call, F f) {
  std::lock_guard<std::mutex> lock(world().mutex);
  T* found = find_locked<T>(descriptor, call);
  return found ? f(*found) : CUDNN_STATUS_BAD_PARAM;
}

Layout by_format(Type type, cudnnTensorFormat_t format, std::vector<int64_t> dims) {
  Layout l = dense(type, dims);
  if (format != CUDNN_TENSOR_NHWC) return l;
  int64_t stride = dims[1];
  l.strides[1] = 1;
  for (size_t d = dims.size(); d-- > 2;) l.strides[d] = stride, stride *= dims[d];
  l.strides[0] = stride;
  return l;
}

cudnnStatus_t set_tensor(cudnnTensorDescriptor_t descriptor, const char* call, cudnnDataType_t data, std::vector<int64_t> dims, const std::vector<int64_t>* strides, cudnnTensorFormat_t format) {
  return with(descriptor, call, [&](cudnnTensorStruct& t) {
    Type type;
    if (!type_of(data, type)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (dims.size() < 4 || dims.size() > CUDNN_DIM_MAX) return refuse(std::string(call) + ": " + std::to_string(dims.size()) + " dimensions; it takes 4 to 8", CUDNN_STATUS_NOT_SUPPORTED);
    for (const int64_t d : dims)
      if (d < 1) return refuse(std::string(call) + ": a dimension is " + std::to_string(d));
    Layout l = by_format(type, format, dims);
    if (strides) {
      l.strides = *strides;
      for (const int64_t s : l.strides)
        if (s < 1) return refuse(std::string(call) + ": a stride is " + std::to_string(s));
    }
    if (l.count() > 0x7fffffff) return CUDNN_STATUS_NOT_SUPPORTED;
    t.layout = l;
    t.set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t set_filter(cudnnFilterDescriptor_t descriptor, const char* call, cudnnDataType_t data, cudnnTensorFormat_t format, std::vector<int64_t> dims) {
  return with(descriptor, call, [&](cudnnFilterStruct& w) {
    Type type;
    if (!type_of(data, type) || (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (dims.size() < 3 || dims.size() > CUDNN_DIM_MAX) return refuse(std::string(call) + ": " + std::to_string(dims.size()) + " dimensions; it takes 3 to 8", CUDNN_STATUS_NOT_SUPPORTED);
    for (const int64_t d : dims)
      if (d < 1) return refuse(std::string(call) + ": a dimension is " + std::to_string(d));
    w.layout = by_format(type, format, dims);
    w.channels_last = format == CUDNN_TENSOR_NHWC;
    w.set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t set_convolution(cudnnConvolutionDescriptor_t descriptor, const char* call, std::vector<int> pad, std::vector<int> stride, std::vector<int> dilation,
                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  return with(descriptor, call, [&](cudnnConvolutionStruct& c) {
    if (!type_of(compute, c.compute)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (pad.size() < 2 || pad.size() > 3) return refuse(std::string(call) + ": " + std::to_string(pad.size()) + " spatial dimensions; it takes 2 or 3", CUDNN_STATUS_NOT_SUPPORTED);
    for (size_t d = 0; d < pad.size(); ++d)
      if (pad[d] < 0 || stride[d] < 1 || dilation[d] < 1) return refuse(std::string(call) + ": a negative pad, or a stride or dilation below 1");
    c.pad = pad, c.stride = stride, c.dilation = dilation;
    c.mode = mode;
    c.set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t set_pooling(cudnnPoolingDescriptor_t descriptor, const char* call, cudnnPoolingMode_t mode, cudnnNanPropagation_t nans, std::vector<int> window, std::vector<int> pad,
                          std::vector<int> stride) {
  return with(descriptor, call, [&](cudnnPoolingStruct& p) {
    if (window.size() < 2 || window.size() > 3) return refuse(std::string(call) + ": " + std::to_string(window.size()) + " spatial dimensions; it takes 2 or 3", CUDNN_STATUS_NOT_SUPPORTED);
    for (size_t d = 0; d < window.size(); ++d)
      if (window[d] < 1 || pad[d] < 0 || stride[d] < 1 || pad[d] >= window[d]) return refuse(std::string(call) + ": a window or stride below 1, or a pad that is negative or not less than the window");
    p.window = window, p.pad = pad, p.stride = stride;
    p.mode = mode;
    p.nans = nans == CUDNN_PROPAGATE_NAN;
    p.set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

std::vector<int64_t> wide(const int* from, int count) { return {from, from + std::max(count, 0)}; }
std::vector<int> list(const int* from, int count) { return {from, from + std::max(count, 0)}; }

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

// ---- handle ----

size_t cudnnGetVersion() { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::lock_guard<std::mutex> lock(world().mutex);
  std::snprintf(message, size, "%s", world().violations.empty() ? "" : world().violations.back().c_str());
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  std::lock_guard<std::mutex> lock(world().mutex);
  if (world().devices.empty()) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = make_object_locked<cudnnContext>("cuDNN handle", current_device());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return destroy<cudnnContext>(handle, "cudnnDestroy"); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return with<cudnnContext>(handle, "cudnnSetStream", [&](cudnnContext& h) {
    CUstream_st* s = stream_locked(stream, "cudnnSetStream");
    if (!s) return CUDNN_STATUS_BAD_PARAM;
    if (s->device != h.device) return refuse("cudnnSetStream: the stream is device " + std::to_string(s->device) + "'s, the handle is device " + std::to_string(h.device) + "'s");
    h.stream = stream;
    h.stream_set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return with<cudnnContext>(handle, "cudnnGetStream", [&](cudnnContext& h) { return *stream = h.stream, CUDNN_STATUS_SUCCESS; });
}

// ---- tensors and filters ----

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* d) { return create(d, "cuDNN tensor descriptor"); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t d) { return destroy(d, "cudnnDestroyTensorDescriptor"); }
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c, int h, int w) {
  return set_tensor(d, "cudnnSetTensor4dDescriptor", type, {n, c, h, w}, nullptr, format);
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t d, cudnnDataType_t type, int n, int c, int h, int w, int sn, int sc, int sh, int sw) {
  const std::vector<int64_t> strides = {sn, sc, sh, sw};
  return set_tensor(d, "cudnnSetTensor4dDescriptorEx", type, {n, c, h, w}, &strides, CUDNN_TENSOR_NCHW);
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int count, const int dims[], const int strides[]) {
  const std::vector<int64_t> s = wide(strides, count);
  return set_tensor(d, "cudnnSetTensorNdDescriptor", type, wide(dims, count), &s, CUDNN_TENSOR_NCHW);
}
cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t d, cudnnTensorFormat_t format, cudnnDataType_t type, int count, const int dims[]) {
  return set_tensor(d, "cudnnSetTensorNdDescriptorEx", type, wide(dims, count), nullptr, format);
}
cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t d, size_t* size) {
  return with(d, "cudnnGetTensorSizeInBytes", [&](cudnnTensorStruct& t) { return *size = t.layout.extent(), CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* d) { return create(d, "cuDNN filter descriptor"); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t d) { return destroy(d, "cudnnDestroyFilterDescriptor"); }
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return set_filter(d, "cudnnSetFilter4dDescriptor", type, format, {k, c, h, w});
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format, int count, const int dims[]) {
  return set_filter(d, "cudnnSetFilterNdDescriptor", type, format, wide(dims, count));
}
cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t d, size_t* size) {
  return with(d, "cudnnGetFilterSizeInBytes", [&](cudnnFilterStruct& w) { return *size = w.layout.extent(), CUDNN_STATUS_SUCCESS; });
}
// 1 x C x 1 x 1, or for PER_ACTIVATION 1 x C x H x W.
cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, const cudnnTensorDescriptor_t x, cudnnBatchNormMode_t mode) {
  return with(x, "cudnnDeriveBNTensorDescriptor", [&](cudnnTensorStruct& from) {
    auto* to = find_locked<cudnnTensorStruct>(derived, "cudnnDeriveBNTensorDescriptor");
    if (!to || !from.set) return CUDNN_STATUS_BAD_PARAM;
    std::vector<int64_t> dims = from.layout.dims;
    dims[0] = 1;
    if (mode != CUDNN_BATCHNORM_PER_ACTIVATION) std::fill(dims.begin() + 2, dims.end(), 1);
    to->layout = dense(from.layout.type == Type::kDouble ? Type::kDouble : Type::kFloat, dims);
    to->set = true;
    return CUDNN_STATUS_SUCCESS;
  });
}

// ---- convolution ----

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* d) { return create(d, "cuDNN convolution descriptor"); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t d) { return destroy(d, "cudnnDestroyConvolutionDescriptor"); }
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t d, int ph, int pw, int u, int v, int dh, int dw, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  return set_convolution(d, "cudnnSetConvolution2dDescriptor", {ph, pw}, {u, v}, {dh, dw}, mode, compute);
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t d, int count, const int pad[], const int stride[], const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  return set_convolution(d, "cudnnSetConvolutionNdDescriptor", list(pad, count), list(stride, count), list(dilation, count), mode, compute);
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t d, int groups) {
  return with(d, "cudnnSetConvolutionGroupCount", [&](cudnnConvolutionStruct& c) { return groups < 1 ? CUDNN_STATUS_BAD_PARAM : (c.groups = groups, CUDNN_STATUS_SUCCESS); });
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
  return with(d, "cudnnSetConvolutionMathType", [&](cudnnConvolutionStruct& c) { return c.math = math, CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t d, cudnnMathType_t* math) {
  return with(d, "cudnnGetConvolutionMathType", [&](cudnnConvolutionStruct& c) { return *math = c.math, CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t d, cudnnReorderType_t) {
  return with(d, "cudnnSetConvolutionReorderType", [&](cudnnConvolutionStruct&) { return CUDNN_STATUS_SUCCESS; });
}

// ---- the others ----

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* d) { return create(d, "cuDNN pooling descriptor"); }
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t d) { return destroy(d, "cudnnDestroyPoolingDescriptor"); }
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t d, cudnnPoolingMode_t mode, cudnnNanPropagation_t nans, int wh, int ww, int ph, int pw, int sh, int sw) {
  return set_pooling(d, "cudnnSetPooling2dDescriptor", mode, nans, {wh, ww}, {ph, pw}, {sh, sw});
}
cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t d, const cudnnPoolingMode_t mode, const cudnnNanPropagation_t nans, int count, const int window[], const int pad[],
                                          const int stride[]) {
  return set_pooling(d, "cudnnSetPoolingNdDescriptor", mode, nans, list(window, count), list(pad, count), list(stride, count));
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* d) { return create(d, "cuDNN activation descriptor"); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t d) { return destroy(d, "cudnnDestroyActivationDescriptor"); }
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t d, cudnnActivationMode_t mode, cudnnNanPropagation_t, double coefficient) {
  return with(d, "cudnnSetActivationDescriptor", [&](cudnnActivationStruct& a) { return a.mode = mode, a.coefficient = coefficient, a.set = true, CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t d, double beta) {
  return with(d, "cudnnSetActivationDescriptorSwishBeta", [&](cudnnActivationStruct& a) { return a.swish_beta = beta, CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* d) { return create(d, "cuDNN op tensor descriptor"); }
cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t d) { return destroy(d, "cudnnDestroyOpTensorDescriptor"); }
cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t d, cudnnOpTensorOp_t op, cudnnDataType_t, cudnnNanPropagation_t) {
  return with(d, "cudnnSetOpTensorDescriptor", [&](cudnnOpTensorStruct& o) { return o.op = op, o.set = true, CUDNN_STATUS_SUCCESS; });
}
cudnnStatus_t cudnnCreateReduceTensorDescriptor(cudnnReduceTensorDescriptor_t* d) { return create(d, "cuDNN reduce tensor descriptor"); }
cudnnStatus_t cudnnDestroyReduceTensorDescriptor(cudnnReduceTensorDescriptor_t d) { return destroy(d, "cudnnDestroyReduceTensorDescriptor"); }
cudnnStatus_t cudnnSetReduceTensorDescriptor(cudnnReduceTensorDescriptor_t d, cudnnReduceTensorOp_t op, cudnnDataType_t, cudnnNanPropagation_t, cudnnReduceTensorIndices_t indices,
                                             cudnnIndicesType_t) {
  return with(d, "cudnnSetReduceTensorDescriptor", [&](cudnnReduceTensorStruct& r) {
    if (indices != CUDNN_REDUCE_TENSOR_NO_INDICES) return CUDNN_STATUS_NOT_SUPPORTED;
    return r.op = op, r.set = true, CUDNN_STATUS_SUCCESS;
  });
}
cudnnStatus_t cudnnCreateLRNDescriptor(cudnnLRNDescriptor_t* d) { return create(d, "cuDNN LRN descriptor"); }
cudnnStatus_t cudnnDestroyLRNDescriptor(cudnnLRNDescriptor_t d) { return destroy(d, "cudnnDestroyLRNDescriptor"); }
cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t d, unsigned n, double alpha, double beta, double k) {
  return with(d, "cudnnSetLRNDescriptor", [&](cudnnLRNStruct& l) {
    if (n < CUDNN_LRN_MIN_N || n > CUDNN_LRN_MAX_N || k < CUDNN_LRN_MIN_K || beta < CUDNN_LRN_MIN_BETA) return refuse("cudnnSetLRNDescriptor: n, k or beta is out of range");
    l.n = n, l.alpha = alpha, l.beta = beta, l.k = k;
    return CUDNN_STATUS_SUCCESS;
  });
}
