// Conv, ConvGradInput, ConvGradWeight. cuDNN takes float32 over one or two spatial axes, row-major or channels-last; the rest, and depthwise
// convolutions, go to the direct kernels. Of cuDNN's algorithms the first in its own order that gives the same bits on every run and is content
// with kMostWorkspace. What cuDNN does not take as it is, is made ready in the workspace: unequal pads (X is copied into a larger frame)
// and the weight in channels-last order.
#include <array>

#include "backends/cuda/dnn.h"
#include "backends/cuda/kernels/conv_direct.h"
#include "backends/cuda/strided_copy.h"

namespace eng::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr int kAlgorithms = 10;

enum class Pass { kForward, kGradInput, kGradWeight };

// What cuDNN is given: X in its frame, W in its order, pads equal at both ends.
struct Setup {
  Setup(const ConvShape& s)
      : wide(planar(s.wide)), narrow(planar(s.narrow)), weight(planar(s.weight)), last(!(wide.row_major() && narrow.row_major())), frame(wide.dims) {
    for (size_t i = 0; i < 2; ++i) {
      const size_t a = i + 1;  // of the window's three axes
      const int64_t reach = (s.window.kernel[a] - 1) * s.window.dilation[a] + 1, begin = s.window.begin[a];
      if ((s.window.in[a] + 2 * begin - reach) / s.window.stride[a] + 1 == s.window.out[a] && s.window.in[a] + 2 * begin >= reach) {
        pad[i] = static_cast<int>(begin);
      } else {
        framed = true;
        frame[i + 2] += begin + s.window.end[a];
        start[i] = begin;
      }
    }
    if (framed)  // one frame for both axes
      for (size_t i = 0; i < 2; ++i)
        if (pad[i]) start[i] = pad[i], frame[i + 2] += 2 * pad[i], pad[i] = 0;
    frame_strides = last ? channels_last_strides(frame) : dense_strides(frame);
    packed = last && weight.dims[1] > 1 && weight.dims[2] * weight.dims[3] > 1;
  }
  size_t frame_bytes() const { return framed ? aligned(static_cast<size_t>(frame[0] * frame[1] * frame[2] * frame[3]) * sizeof(float)) : 0; }
  size_t weight_bytes() const { return packed ? aligned(static_cast<size_t>(weight.bytes())) : 0; }
  int64_t frame_offset() const { return start[0] * frame_strides[2] + start[1] * frame_strides[3]; }
  StridedCopy into_frame() const { return {sizeof(float), wide.dims, wide.strides, frame_strides, 0, frame_offset()}; }
  StridedCopy out_of_frame() const { return {sizeof(float), wide.dims, frame_strides, wide.strides, frame_offset(), 0}; }
  StridedCopy pack_weight() const { return {sizeof(float), weight.dims, weight.strides, channels_last_strides(weight.dims)}; }
  StridedCopy unpack_weight() const { return {sizeof(float), weight.dims, channels_last_strides(weight.dims), weight.strides}; }

  TensorView wide, narrow, weight;
  bool last;             // channels-last, else row-major
  bool framed = false, packed = false;
  std::vector<int64_t> frame, frame_strides;
  int64_t start[2] = {0, 0};  // of X in its frame
  int pad[2] = {0, 0};
};

class CudnnConv : public Kernel {
 public:
  // Throws Failure(EB_UNSUPPORTED) where cuDNN has no algorithm.
  CudnnConv(const ConvShape& s, Pass pass, bool bias, eb_device* device)
      : pass_(pass), has_bias_(bias), setup_(s), x_(setup_.frame, setup_.frame_strides),
        y_(setup_.narrow.dims, setup_.last ? channels_last_strides(setup_.narrow.dims) : dense_strides(setup_.narrow.dims)),
        w_(cudnn().cudnnCreateFilterDescriptor, cudnn().cudnnDestroyFilterDescriptor),
        conv_(cudnn().cudnnCreateConvolutionDescriptor, cudnn().cudnnDestroyConvolutionDescriptor) {
    const std::vector<int> w(setup_.weight.dims.begin(), setup_.weight.dims.end());
    check(cudnn().cudnnSetFilterNdDescriptor(w_.get(), CUDNN_DATA_FLOAT, setup_.last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, 4, w.data()), "describing the weight");
    const int stride[2] = {static_cast<int>(s.window.stride[1]), static_cast<int>(s.window.stride[2])};
    const int dilation[2] = {static_cast<int>(s.window.dilation[1]), static_cast<int>(s.window.dilation[2])};
    check(cudnn().cudnnSetConvolutionNdDescriptor(conv_.get(), 2, setup_.pad, stride, dilation, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT), "describing the convolution");
    check(cudnn().cudnnSetConvolutionGroupCount(conv_.get(), static_cast<int>(s.group)), "describing the groups");
    check(cudnn().cudnnSetConvolutionMathType(conv_.get(), CUDNN_FMA_MATH), "describing the arithmetic");  // float32 as it is, no TF32
    need_dnn(device);
    choose(device);
    if (setup_.framed) frame_ = pass == Pass::kGradInput ? setup_.out_of_frame() : setup_.into_frame();
    if (setup_.packed) pack_ = pass == Pass::kGradWeight ? setup_.unpack_weight() : setup_.pack_weight();
    if (!bias) return;
    if (pass == Pass::kForward) add_bias_ = AddBias(s.narrow);
    else sum_ = SumOverChannels(s.narrow);
  }
  size_t workspace() const override { return setup_.frame_bytes() + setup_.weight_bytes() + std::max(aligned(own_), sum_.workspace()); }

  void run(const RunContext& c) override {
    void *frame = c.workspace, *packed = c.space(setup_.frame_bytes()), *own = c.space(setup_.frame_bytes() + setup_.weight_bytes());
    if (pass_ == Pass::kForward) {
      forward(c, framed(c, frame, c.in(0)), weight(c, packed, c.in(1)), own);
      if (has_bias_) add_bias_.run(c.stream, EB_FLOAT32, c.out(0), c.in(2));
    } else if (pass_ == Pass::kGradInput) {
      grad_input(c, weight(c, packed, c.in(1)), setup_.framed ? frame : c.out(0), own);
      if (setup_.framed) frame_.run(c.stream, frame, c.out(0));
    } else {
      grad_weight(c, framed(c, frame, c.in(0)), setup_.packed ? packed : c.out(0), own);
      if (setup_.packed) pack_.run(c.stream, packed, c.out(0));
      if (has_bias_ && c.out(1)) sum_.run(c.stream, EB_FLOAT32, c.in(1), c.out(1), own);
    }
  }

 private:
  const void* framed(const RunContext& c, void* frame, const void* x) const {
    if (!setup_.framed) return x;
    check(cudaMemsetAsync(frame, 0, setup_.frame_bytes(), c.stream), "clearing the frame");
    frame_.run(c.stream, x, frame);
    return frame;
  }
  const void* weight(const RunContext& c, void* packed, const void* w) const {
    if (!setup_.packed) return w;
    pack_.run(c.stream, w, packed);
    return packed;
  }
  void forward(const RunContext& c, const void* x, const void* w, void* own) const {
    const DnnHandle handle(c);
    check(cudnn().cudnnConvolutionForward(handle, &kDnnOne, x_.get(), x, w_.get(), w, conv_.get(), static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), own, own_, &kDnnZero,
                                          y_.get(), c.out(0)),
          "convolution");
  }
  void grad_input(const RunContext& c, const void* w, void* dx, void* own) const {
    const DnnHandle handle(c);
    check(cudnn().cudnnConvolutionBackwardData(handle, &kDnnOne, w_.get(), w, y_.get(), c.in(0), conv_.get(), static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), own,
                                               own_, &kDnnZero, x_.get(), dx),
          "gradient of a convolution's input");
  }
  void grad_weight(const RunContext& c, const void* x, void* dw, void* own) const {
    const DnnHandle handle(c);
    check(cudnn().cudnnConvolutionBackwardFilter(handle, &kDnnOne, x_.get(), x, y_.get(), c.in(1), conv_.get(), static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_),
                                                 own, own_, &kDnnZero, w_.get(), dw),
          "gradient of a convolution's weight");
  }

  // The first of `perf` that may be taken; `bytes_of` asks for its workspace.
  template <class Perf, class F>
  void take_first(const std::array<Perf, kAlgorithms>& perf, int count, F&& bytes_of) {
    for (int i = 0; i < count; ++i) {
      const Perf& p = perf[static_cast<size_t>(i)];
      size_t bytes = 0;
      if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC) continue;
      if (bytes_of(p.algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > kMostWorkspace) continue;
      algorithm_ = static_cast<int>(p.algo);
      own_ = bytes;
      return;
    }
    throw Failure(EB_UNSUPPORTED, "cuDNN has no algorithm for this convolution");
  }
  void choose(eb_device* device) {
    const std::lock_guard held(device->mutex);
    const Cudnn& f = cudnn();
    cudnnHandle_t h = device->dnn;
    int count = 0;
    if (pass_ == Pass::kForward) {
      std::array<cudnnConvolutionFwdAlgoPerf_t, kAlgorithms> perf;
      check(f.cudnnGetConvolutionForwardAlgorithm_v7(h, x_.get(), w_.get(), conv_.get(), y_.get(), kAlgorithms, &count, perf.data()), "choosing an algorithm");
      take_first(perf, count, [&](auto algo, size_t* bytes) { return f.cudnnGetConvolutionForwardWorkspaceSize(h, x_.get(), w_.get(), conv_.get(), y_.get(), algo, bytes); });
    } else if (pass_ == Pass::kGradInput) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kAlgorithms> perf;
      check(f.cudnnGetConvolutionBackwardDataAlgorithm_v7(h, w_.get(), y_.get(), conv_.get(), x_.get(), kAlgorithms, &count, perf.data()), "choosing an algorithm");
      take_first(perf, count, [&](auto algo, size_t* bytes) { return f.cudnnGetConvolutionBackwardDataWorkspaceSize(h, w_.get(), y_.get(), conv_.get(), x_.get(), algo, bytes); });
    } else {
      std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kAlgorithms> perf;
      check(f.cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, x_.get(), y_.get(), conv_.get(), w_.get(), kAlgorithms, &count, perf.data()), "choosing an algorithm");
      take_first(perf, count, [&](auto algo, size_t* bytes) { return f.cudnnGetConvolutionBackwardFilterWorkspaceSize(h, x_.get(), y_.get(), conv_.get(), w_.get(), algo, bytes); });
    }
  }

  Pass pass_;
  bool has_bias_;
  Setup setup_;
  TensorDescriptor x_, y_;
  Descriptor<cudnnFilterDescriptor_t, decltype(Cudnn::cudnnCreateFilterDescriptor), decltype(Cudnn::cudnnDestroyFilterDescriptor)> w_;
  Descriptor<cudnnConvolutionDescriptor_t, decltype(Cudnn::cudnnCreateConvolutionDescriptor), decltype(Cudnn::cudnnDestroyConvolutionDescriptor)> conv_;
  int algorithm_ = 0;
  size_t own_ = 0;
  StridedCopy frame_, pack_;
  AddBias add_bias_;
  SumOverChannels sum_;
};

// cuDNN's refusal at this point is no error: the direct kernel takes the node.
template <Pass kPass, ConvShape (*kShape)(const NodeView&), std::unique_ptr<Kernel> (*kDirect)(const NodeView&, eb_device*)>
std::unique_ptr<Kernel> create(const NodeView& n, eb_device* device) {
  const bool bias = kPass == Pass::kForward ? n.in(2).present() : kPass == Pass::kGradWeight && n.out(1).present();
  try {
    return with_own_kernel(std::make_unique<CudnnConv>(kShape(n), kPass, bias, device), n, device);
  } catch (const Failure& e) {
    if (e.code != EB_UNSUPPORTED) throw;
    return kDirect(n, device);
  }
}

template <ConvShape (*kShape)(const NodeView&)>
std::string can_run(const NodeView& n) {
  const ConvShape s = kShape(n);
  if (s.wide.rank() > 4) return "cuDNN is used over one or two spatial axes";
  if (s.depthwise()) return "depthwise convolutions go to the direct kernel";
  if (s.weight.count() == 0 || !s.weight.row_major()) return "the weight is empty or not row-major";
  return refused_by_cudnn({&s.wide, &s.narrow});
}

}  // namespace

std::span<const KernelDef> conv_kernels() {
  static const KernelDef defs[] = {
      {.op = "Conv", .name = "cudnn", .can_run = can_run<forward_shape>, .create = create<Pass::kForward, forward_shape, create_conv_direct>},
      {.op = "Conv", .name = "direct", .can_run = any_layout, .create = create_conv_direct},
      {.domain = "ai.engine", .op = "ConvGradInput", .name = "cudnn", .can_run = can_run<grad_input_shape>,
       .create = create<Pass::kGradInput, grad_input_shape, create_conv_grad_input_direct>},
      {.domain = "ai.engine", .op = "ConvGradInput", .name = "direct", .can_run = any_layout, .create = create_conv_grad_input_direct},
      {.domain = "ai.engine", .op = "ConvGradWeight", .name = "cudnn", .can_run = can_run<grad_weight_shape>,
       .create = create<Pass::kGradWeight, grad_weight_shape, create_conv_grad_weight_direct>},
      {.domain = "ai.engine", .op = "ConvGradWeight", .name = "direct", .can_run = any_layout, .create = create_conv_grad_weight_direct},
  };
  return defs;
}

}  // namespace eng::cuda
