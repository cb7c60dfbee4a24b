// cuDNN's convolution: queries of algorithms and workspaces, and the three directions. All algorithms compute the same sums in double; they differ in workspace,
// in what they take and in whether the last bits are the same from run to run. float operands are rounded to TF32 unless the math type is FMA, as on
// devices from compute capability 8.
#include <algorithm>

#include "tests/support/cuda_emulation/cudnn_objects.h"

namespace eng_emulation {

namespace {

struct Convolution {
  Layout x, w, y;
  bool w_channels_last = false;
  std::vector<int64_t> pad, stride, dilation;  // three each
  int64_t groups = 1;
  bool flipped = false;
  bool tf32 = false;
};

enum class Direction { kForward, kData, kFilter };

struct Algorithm {
  int number;
  bool deterministic;
  size_t (*workspace)(const Convolution&);
  bool (*takes)(const Convolution&);
};

bool anything(const Convolution&) { return true; }
size_t nothing(const Convolution&) { return 0; }
size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }
size_t of_outputs(const Convolution& c) { return rounded(4 * c.y.count() / static_cast<size_t>(c.y.dims[1]) + 1000); }
size_t of_weights(const Convolution& c) { return rounded(4 * c.w.count() + 500); }
size_t of_inputs(const Convolution& c) { return rounded(4 * c.x.count() + 100); }
bool one_group_row_major(const Convolution& c) { return c.groups == 1 && !c.w_channels_last; }

// What a query answers, best first.
const std::vector<Algorithm>& algorithms(Direction direction) {
  static const std::vector<Algorithm> kForward = {{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, of_outputs, anything},
                                                  {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, nothing, anything},
                                                  {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, true, of_inputs, one_group_row_major}};
  static const std::vector<Algorithm> kData = {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, false, nothing, anything}, {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, of_weights, anything}};
  static const std::vector<Algorithm> kFilter = {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false, nothing, anything},
                                                 {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, of_outputs, anything},
                                                 {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, of_inputs, one_group_row_major}};
  return direction == Direction::kForward ? kForward : direction == Direction::kData ? kData : kFilter;
}

const Algorithm* find_algorithm(Direction direction, int number, const Convolution& c) {
  for (const Algorithm& a : algorithms(direction))
    if (a.number == number && a.takes(c)) return &a;
  return nullptr;
}

// What the algorithm queries answered: an algorithm is used only for shapes it was returned for.
std::set<std::string>& answered() {
  static auto* set = new std::set<std::string>;
  return *set;
}

std::string text_of(const Layout& l) {
  std::string out = name_of(l.type);
  for (size_t d = 0; d < l.dims.size(); ++d) out += " " + std::to_string(l.dims[d]) + ":" + std::to_string(l.strides[d]);
  return out;
}

std::string key(Direction direction, int number, const Convolution& c) {
  std::string out = std::to_string(static_cast<int>(direction)) + "," + std::to_string(number) + "|" + text_of(c.x) + "|" + text_of(c.w) + "|" + text_of(c.y) + "|" + std::to_string(c.groups);
  for (const auto* list : {&c.pad, &c.stride, &c.dilation})
    for (const int64_t v : *list) out += "," + std::to_string(v);
  return out;
}

bool packed_channels_last(const Layout& l) {
  int64_t expected = 1;
  if (l.strides[1] != 1) return false;
  expected = l.dims[1];
  for (size_t d = l.dims.size(); d-- > 2;) {
    if (l.dims[d] != 1 && l.strides[d] != expected) return false;
    expected *= l.dims[d];
  }
  return l.dims[0] == 1 || l.strides[0] == expected;
}

// Checks the descriptors. CUDNN_STATUS_NOT_SUPPORTED is a refusal and no violation.
cudnnStatus_t collect(DnnCall& call, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, Convolution& c) {
  c.x = call.get(x, "the tensor of the input").layout;
  const cudnnFilterStruct& filter = call.get(w, "the filter");
  c.w = filter.layout;
  c.w_channels_last = filter.channels_last;
  c.y = call.get(y, "the tensor of the output").layout;
  const cudnnConvolutionStruct& d = call.get(conv, "the convolution");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  const size_t spatial = d.pad.size();
  call.require(c.x.dims.size() == spatial + 2 && c.w.dims.size() == spatial + 2 && c.y.dims.size() == spatial + 2, "the descriptors have different numbers of dimensions");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.require(c.x.type == c.w.type && c.x.type == c.y.type, "input, filter and output have different types");
  call.require(c.x.dims[1] == c.w.dims[1] * d.groups && c.w.dims[0] % d.groups == 0, "channels, filter and groups do not fit");
  call.require(c.y.dims[0] == c.x.dims[0] && c.y.dims[1] == c.w.dims[0], "the output's batch or channels do not fit");
  for (size_t i = 0; i < spatial && call.good; ++i) {
    const int64_t expected = 1 + (c.x.dims[i + 2] + 2 * d.pad[i] - ((c.w.dims[i + 2] - 1) * d.dilation[i] + 1)) / d.stride[i];
    call.require(c.y.dims[i + 2] == expected && c.x.dims[i + 2] + 2 * d.pad[i] >= (c.w.dims[i + 2] - 1) * d.dilation[i] + 1,
                 "axis " + std::to_string(i + 2) + " of the output is " + std::to_string(c.y.dims[i + 2]) + ", the convolution gives " + std::to_string(expected));
  }
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  const bool real = c.x.type == Type::kFloat || c.x.type == Type::kHalf || c.x.type == Type::kBfloat16;
  if (!(real && d.compute == Type::kFloat) && !(c.x.type == Type::kDouble && d.compute == Type::kDouble)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (c.w_channels_last && !(packed_channels_last(c.x) && packed_channels_last(c.y))) return CUDNN_STATUS_NOT_SUPPORTED;
  c.groups = d.groups;
  c.flipped = d.mode == CUDNN_CONVOLUTION;
  c.tf32 = c.x.type == Type::kFloat && d.math != CUDNN_FMA_MATH && world().settings.major >= 8;
  c.pad.assign(3 - spatial, 0), c.stride.assign(3 - spatial, 1), c.dilation.assign(3 - spatial, 1);
  c.pad.insert(c.pad.end(), d.pad.begin(), d.pad.end());
  c.stride.insert(c.stride.end(), d.stride.begin(), d.stride.end());
  c.dilation.insert(c.dilation.end(), d.dilation.begin(), d.dilation.end());
  return CUDNN_STATUS_SUCCESS;
}

// Calls f(index of x, index of w, index of y) for every product of the sum, with indices into row-major values.
template <class F>
void each_product(const Convolution& c, F f) {
  std::vector<int64_t> in(3, 1), out(3, 1), taps(3, 1);
  for (size_t i = 2; i < c.x.dims.size(); ++i) {
    const size_t to = i + 3 - c.x.dims.size();
    in[to] = c.x.dims[i], out[to] = c.y.dims[i], taps[to] = c.w.dims[i];
  }
  const int64_t channels = c.w.dims[1], filters = c.w.dims[0] / c.groups;
  // Where tap t of output o reads along an axis; outside of the input there is nothing to add.
  auto place = [&](size_t axis, int64_t o, int64_t t) { return o * c.stride[axis] - c.pad[axis] + (c.flipped ? taps[axis] - 1 - t : t) * c.dilation[axis]; };
  size_t wi = 0;
  for (int64_t k = 0; k < c.y.dims[1]; ++k)
    for (int64_t ch = 0; ch < channels; ++ch)
      for (int64_t tz = 0; tz < taps[0]; ++tz)
        for (int64_t ty = 0; ty < taps[1]; ++ty)
          for (int64_t tx = 0; tx < taps[2]; ++tx, ++wi)
            for (int64_t n = 0; n < c.y.dims[0]; ++n)
              for (int64_t oz = 0; oz < out[0]; ++oz) {
                const int64_t z = place(0, oz, tz);
                if (z < 0 || z >= in[0]) continue;
                for (int64_t oy = 0; oy < out[1]; ++oy) {
                  const int64_t y = place(1, oy, ty);
                  if (y < 0 || y >= in[1]) continue;
                  const int64_t from = (((n * c.x.dims[1] + k / filters * channels + ch) * in[0] + z) * in[1] + y) * in[2];
                  const int64_t to = (((n * c.y.dims[1] + k) * out[0] + oz) * out[1] + oy) * out[2];
                  for (int64_t ox = 0, x = place(2, 0, tx); ox < out[2]; ++ox, x += c.stride[2])
                    if (x >= 0 && x < in[2]) f(static_cast<size_t>(from + x), wi, static_cast<size_t>(to + ox));
                }
              }
}

template <class Perf, class Number>
cudnnStatus_t query(DnnCall& call, Direction direction, const Convolution& c, cudnnMathType_t math, int wanted, int* returned, Perf* results) {
  call.require(wanted >= 1 && returned && results, "no room for an answer");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  *returned = 0;
  for (const Algorithm& a : algorithms(direction)) {
    if (*returned == wanted) break;
    const bool taken = a.takes(c);
    Perf& p = results[(*returned)++] = Perf{};
    p.algo = static_cast<Number>(a.number);
    p.status = taken ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    p.time = -1;
    p.memory = taken ? a.workspace(c) : 0;
    p.determinism = a.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    p.mathType = math;
    if (taken) answered().insert(key(direction, a.number, c));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_size(Direction direction, const Convolution& c, int number, size_t* bytes) {
  const Algorithm* a = find_algorithm(direction, number, c);
  if (!a) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = a->workspace(c);
  return CUDNN_STATUS_SUCCESS;
}

cudnnMathType_t math_of(const cudnnConvolutionDescriptor_t d) { return d->math; }

struct Operand {
  const void* pointer;
  const Layout* layout;
  const char* name;
};

cudnnStatus_t convolve(DnnCall& call, Direction direction, const Convolution& c, int number, void* workspace, size_t workspace_bytes, const void* alpha_at, const void* beta_at,
                       const Operand& a, const Operand& b, void* result, const Layout& result_layout, const char* result_name) {
  const Algorithm* algorithm = find_algorithm(direction, number, c);
  if (!algorithm) return CUDNN_STATUS_NOT_SUPPORTED;
  call.require(answered().count(key(direction, number, c)) > 0, "algorithm " + std::to_string(number) + " did not come from a query for this convolution");
  const size_t needed = algorithm->workspace(c);
  call.require(workspace_bytes >= needed && (needed == 0 || workspace), "the workspace has " + std::to_string(workspace ? workspace_bytes : 0) + " bytes, algorithm " +
                                                                          std::to_string(number) + " needs " + std::to_string(needed));
  const double alpha = call.scalar(alpha_at, c.x.type, "alpha"), beta = call.scalar(beta_at, c.x.type, "beta");
  call.require(a.pointer && b.pointer && result, "a null operand");
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;
  call.reads(a.pointer, *a.layout);
  call.reads(b.pointer, *b.layout);
  call.writes(result, result_layout);
  call.scratch(workspace, needed);
  return call.run([=, a_layout = *a.layout, b_layout = *b.layout, disturbed = !algorithm->deterministic](const Call& self) {
    std::vector<double> va = self.load(a.pointer, a_layout, a.name), vb = self.load(b.pointer, b_layout, b.name), out(result_layout.count(), 0.0);
    if (c.tf32)
      for (auto* values : {&va, &vb})
        for (double& v : *values) v = round_to_tf32(v);
    if (direction == Direction::kForward) each_product(c, [&](size_t x, size_t w, size_t y) { out[y] += va[x] * vb[w]; });
    else if (direction == Direction::kData) each_product(c, [&](size_t x, size_t w, size_t y) { out[x] += va[w] * vb[y]; });
    else each_product(c, [&](size_t x, size_t w, size_t y) { out[w] += va[x] * vb[y]; });
    if (disturbed) self.disturb(out, result_layout.type);
    self.store(result, result_layout, out, alpha, beta, result_name);
  });
}

}  // namespace

}  // namespace eng_emulation

using namespace eng_emulation;

#define COLLECT(name, x, w, conv, y)                                                      \
  DnnCall call(name, handle);                                                             \
  Convolution c;                                                                          \
  if (!call.good) return CUDNN_STATUS_BAD_PARAM;                                          \
  if (const cudnnStatus_t status = collect(call, x, w, conv, y, c); status != CUDNN_STATUS_SUCCESS) return status

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w, int count, int dims[]) {
  std::lock_guard<std::mutex> lock(world().mutex);
  constexpr const char* kCall = "cudnnGetConvolutionNdForwardOutputDim";
  auto* c = find_locked<cudnnConvolutionStruct>(conv, kCall);
  auto* input = find_locked<cudnnTensorStruct>(x, kCall);
  auto* filter = find_locked<cudnnFilterStruct>(w, kCall);
  if (!c || !input || !filter || count != static_cast<int>(input->layout.dims.size()) || c->pad.size() + 2 != input->layout.dims.size()) return CUDNN_STATUS_BAD_PARAM;
  dims[0] = static_cast<int>(input->layout.dims[0]);
  dims[1] = static_cast<int>(filter->layout.dims[0]);
  for (size_t i = 0; i < c->pad.size(); ++i)
    dims[i + 2] = static_cast<int>(1 + (input->layout.dims[i + 2] + 2 * c->pad[i] - ((filter->layout.dims[i + 2] - 1) * c->dilation[i] + 1)) / c->stride[i]);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t, int* count) { return *count = CUDNN_CONVOLUTION_FWD_ALGO_COUNT, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t, int* count) { return *count = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t, int* count) { return *count = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t conv,
                                                     const cudnnTensorDescriptor_t y, const int wanted, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  COLLECT("cudnnGetConvolutionForwardAlgorithm_v7", x, w, conv, y);
  return query<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(call, Direction::kForward, c, math_of(conv), wanted, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t conv,
                                                          const cudnnTensorDescriptor_t dx, const int wanted, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  COLLECT("cudnnGetConvolutionBackwardDataAlgorithm_v7", dx, w, conv, dy);
  return query<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(call, Direction::kData, c, math_of(conv), wanted, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t conv,
                                                            const cudnnFilterDescriptor_t dw, const int wanted, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  COLLECT("cudnnGetConvolutionBackwardFilterAlgorithm_v7", x, dw, conv, dy);
  return query<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(call, Direction::kFilter, c, math_of(conv), wanted, returned, results);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t conv,
                                                      const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  COLLECT("cudnnGetConvolutionForwardWorkspaceSize", x, w, conv, y);
  return workspace_size(Direction::kForward, c, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t conv,
                                                           const cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  COLLECT("cudnnGetConvolutionBackwardDataWorkspaceSize", dx, w, conv, dy);
  return workspace_size(Direction::kData, c, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t conv,
                                                             const cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  COLLECT("cudnnGetConvolutionBackwardFilterWorkspaceSize", x, dw, conv, dy);
  return workspace_size(Direction::kFilter, c, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  COLLECT("cudnnConvolutionForward", x_desc, w_desc, conv, y_desc);
  return convolve(call, Direction::kForward, c, algorithm, workspace, bytes, alpha, beta, {x, &c.x, "x"}, {w, &c.w, "w"}, y, c.y, "y");
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, const cudnnFilterDescriptor_t w_desc, const void* w, const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           const cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx_desc, void* dx) {
  COLLECT("cudnnConvolutionBackwardData", dx_desc, w_desc, conv, dy_desc);
  return convolve(call, Direction::kData, c, algorithm, workspace, bytes, alpha, beta, {w, &c.w, "w"}, {dy, &c.y, "dy"}, dx, c.x, "dx");
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             const cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw_desc, void* dw) {
  COLLECT("cudnnConvolutionBackwardFilter", x_desc, dw_desc, conv, dy_desc);
  return convolve(call, Direction::kFilter, c, algorithm, workspace, bytes, alpha, beta, {x, &c.x, "x"}, {dy, &c.y, "dy"}, dw, c.w, "dw");
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void* alpha_at, const cudnnTensorDescriptor_t dy_desc, const void* dy, const void* beta_at,
                                           const cudnnTensorDescriptor_t db_desc, void* db) {
  DnnCall call("cudnnConvolutionBackwardBias", handle);
  const Layout from = call.get(dy_desc, "dyDesc").layout, to = call.get(db_desc, "dbDesc").layout;
  call.require(to.dims.size() == from.dims.size() && to.count() == static_cast<size_t>(from.dims.empty() ? 0 : from.dims[1]), "the bias is not 1 x C x 1 x 1");
  const double alpha = call.scalar(alpha_at, from.type, "alpha"), beta = call.scalar(beta_at, from.type, "beta");
  call.reads(dy, from);
  call.writes(db, to);
  return call.run([=](const Call& self) {
    const std::vector<double> values = self.load(dy, from, "dy");
    std::vector<double> sums(to.count(), 0.0);
    const size_t channels = sums.size(), inner = from.count() / channels / static_cast<size_t>(from.dims[0]);
    for (size_t i = 0; i < values.size(); ++i) sums[i / inner % channels] += values[i];
    self.store(db, to, sums, alpha, beta, "db");
  });
}
