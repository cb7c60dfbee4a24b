// MaxPool without Indices, AveragePool and AveragePoolGrad by cuDNN, over one to three spatial axes. It has one pad for both ends of an axis and rounds
// the output's extent down: taken are windows for which that gives the same elements. Own kernels (pool.cu) keep
// - MaxPoolGrad: the node has no Y, which cuDNN wants, and which of equal maxima cuDNN gives the gradient to is not documented; it is to be the first;
// - the global pools: the mean of a plane is summed in double, by a tree of threads; cuDNN's sum is float32.
#include "backends/cuda/dnn.h"
#include "backends/cuda/window.h"

namespace eng::cuda {
namespace {

// The two sides of the window; gradients go from narrow to wide.
const TensorView& wide_of(const NodeView& n) { return n.domain().empty() ? n.in(0) : n.out(0); }
const TensorView& narrow_of(const NodeView& n) { return n.domain().empty() ? n.out(0) : n.in(0); }
Window window_of(const NodeView& n) { return read_window(n, wide_of(n), narrow_of(n), n.attr_ints("kernel_shape")); }
bool counts_pads(const NodeView& n) { return n.attr_int("count_include_pad", 0) != 0; }

class PoolingDescriptor {
 public:
  explicit PoolingDescriptor(const NodeView& n) : d_(cudnn().cudnnCreatePoolingDescriptor, cudnn().cudnnDestroyPoolingDescriptor) {
    const Window w = window_of(n);
    const int axes = std::max<int>(2, static_cast<int>(wide_of(n).rank()) - 2);
    int size[3], pad[3], stride[3];
    for (int i = 0; i < axes; ++i) {
      const int a = 3 - axes + i;
      size[i] = static_cast<int>(w.kernel[a]);
      pad[i] = static_cast<int>(w.begin[a]);
      stride[i] = static_cast<int>(w.stride[a]);
    }
    const cudnnPoolingMode_t mode = n.op() == "MaxPool" ? CUDNN_POOLING_MAX_DETERMINISTIC
                                    : counts_pads(n)    ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                        : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    check(cudnn().cudnnSetPoolingNdDescriptor(d_.get(), mode, CUDNN_PROPAGATE_NAN, axes, size, pad, stride), "describing the window");
  }
  cudnnPoolingDescriptor_t get() const { return d_.get(); }

 private:
  Descriptor<cudnnPoolingDescriptor_t, decltype(Cudnn::cudnnCreatePoolingDescriptor), decltype(Cudnn::cudnnDestroyPoolingDescriptor)> d_;
};

class Pool : public Kernel {
 public:
  explicit Pool(const NodeView& n) : window_(n), x_(describe(n.in(0), {&n.in(0), &n.out(0)})), y_(describe(n.out(0), {&n.in(0), &n.out(0)})) {}
  void run(const RunContext& c) override {
    const DnnHandle handle(c);
    check(cudnn().cudnnPoolingForward(handle, window_.get(), &kDnnOne, x_->get(), c.in(0), &kDnnZero, y_->get(), c.out(0)), "pooling");
  }

 private:
  PoolingDescriptor window_;
  std::unique_ptr<TensorDescriptor> x_, y_;
};

class AveragePoolGrad : public Kernel {
 public:
  explicit AveragePoolGrad(const NodeView& n) : window_(n), dx_(describe(n.out(0), {&n.in(0), &n.out(0)})), dy_(describe(n.in(0), {&n.in(0), &n.out(0)})) {}
  void run(const RunContext& c) override {
    const DnnHandle handle(c);
    // X and Y are arguments that only a maximum's gradient reads: dX and dY stand in for them, being of their shapes.
    check(cudnn().cudnnPoolingBackward(handle, window_.get(), &kDnnOne, dy_->get(), c.in(0), dy_->get(), c.in(0), dx_->get(), c.out(0), &kDnnZero, dx_->get(), c.out(0)),
          "gradient of a pooling");
  }

 private:
  PoolingDescriptor window_;
  std::unique_ptr<TensorDescriptor> dx_, dy_;
};

std::string can_run(const NodeView& n) {
  if (n.out(1).present()) return "Indices are wanted, which cuDNN does not give";
  const TensorView &wide = wide_of(n), &narrow = narrow_of(n);
  std::string refused = refused_by_cudnn({&wide, &narrow});
  if (!refused.empty()) return refused;
  if (wide.rank() > 4 && !all_row_major({&wide, &narrow})) return "cuDNN is used for channels-last operands over one or two spatial axes";
  const Window w = window_of(n);
  for (int a = 0; a < 3; ++a) {
    if (w.dilation[a] != 1 && w.kernel[a] != 1) return "the window is dilated";
    const int64_t room = w.in[a] + 2 * w.begin[a] - w.kernel[a];
    if (room < 0 || room / w.stride[a] + 1 != w.out[a]) return "with the same pad at both ends the output would have another extent";
    if (n.op() != "MaxPool" && counts_pads(n) && w.padded(a, w.out[a] - 1) != w.kernel[a]) return "pads are counted and a window passes their end";
  }
  return "";
}

}  // namespace

std::span<const KernelDef> pool_cudnn_kernels() {
  static const KernelDef defs[] = {
      {.op = "MaxPool", .name = "cudnn", .can_run = can_run, .create = create_cudnn<Pool>},
      {.op = "AveragePool", .name = "cudnn", .can_run = can_run, .create = create_cudnn<Pool>},
      {.domain = "ai.engine", .op = "AveragePoolGrad", .name = "cudnn", .can_run = can_run, .create = create_cudnn<AveragePoolGrad>},
  };
  return defs;
}

}  // namespace eng::cuda
