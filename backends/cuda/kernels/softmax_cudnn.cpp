// Softmax, LogSoftmax and their gradients by cuDNN: what lies before, along and inside the axis is its (N, C, H, 1), the sum runs over C. cuDNN sums in
// float32, the own kernels in double. A gradient may overwrite dy, as cuDNN's documentation says; of the forward pass it says nothing, so Y is apart.
#include "backends/cuda/dnn.h"

namespace eng::cuda {
namespace {

// The operands have one shape. Axes in the order in which they lie in memory.
TensorDescriptor around_axis(const NodeView& n, bool row_major) {
  const TensorView& t = n.in(0);
  const auto rank = static_cast<size_t>(t.rank());
  const int64_t axis = n.attr_int("axis", -1);
  const auto at = static_cast<size_t>(axis < 0 ? axis + t.rank() : axis);
  std::vector<int64_t> dims{1, 1, 1, 1};
  size_t part = 0;
  for (size_t i = 0; i < rank; ++i) {
    const size_t a = row_major || i == 0 ? i : i + 1 < rank ? i + 1 : 1;
    if (a == at) part = 1;
    dims[part] *= t.dims[a];
    if (a == at) part = 2;
  }
  return {dims, {dims[1] * dims[2], dims[2], 1, 1}};
}

cudnnSoftmaxAlgorithm_t algorithm_of(const NodeView& n) { return n.op().substr(0, 3) == "Log" ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE; }

class Softmax : public Kernel {
 public:
  explicit Softmax(const NodeView& n) : t_(around_axis(n, all_row_major({&n.in(0), &n.out(0)}))), algorithm_(algorithm_of(n)) {}
  void run(const RunContext& c) override {
    const DnnHandle handle(c);
    check(cudnn().cudnnSoftmaxForward(handle, algorithm_, CUDNN_SOFTMAX_MODE_CHANNEL, &kDnnOne, t_.get(), c.in(0), &kDnnZero, t_.get(), c.out(0)), "softmax");
  }

 private:
  TensorDescriptor t_;
  cudnnSoftmaxAlgorithm_t algorithm_;
};

class SoftmaxGrad : public Kernel {
 public:
  explicit SoftmaxGrad(const NodeView& n) : t_(around_axis(n, all_row_major({&n.in(0), &n.in(1), &n.out(0)}))), algorithm_(algorithm_of(n)) {}
  void run(const RunContext& c) override {
    const DnnHandle handle(c);
    check(cudnn().cudnnSoftmaxBackward(handle, algorithm_, CUDNN_SOFTMAX_MODE_CHANNEL, &kDnnOne, t_.get(), c.in(1), t_.get(), c.in(0), &kDnnZero, t_.get(), c.out(0)),
          "gradient of a softmax");
  }

 private:
  TensorDescriptor t_;
  cudnnSoftmaxAlgorithm_t algorithm_;
};

std::string can_run(const NodeView& n) { return refused_by_cudnn({&n.in(0), &n.in(1), &n.out(0)}); }

}  // namespace

std::span<const KernelDef> softmax_cudnn_kernels() {
  static const KernelDef defs[] = {
      {.op = "Softmax", .name = "cudnn", .can_run = can_run, .create = create_cudnn<Softmax>},
      {.op = "LogSoftmax", .name = "cudnn", .can_run = can_run, .create = create_cudnn<Softmax>},
      {.domain = "ai.engine", .op = "SoftmaxGrad", .name = "cudnn", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = can_run, .create = create_cudnn<SoftmaxGrad>},
      {.domain = "ai.engine", .op = "LogSoftmaxGrad", .name = "cudnn", .aliases = {{EB_ALIAS_IN_PLACE, 0, 0}}, .can_run = can_run, .create = create_cudnn<SoftmaxGrad>},
  };
  return defs;
}

}  // namespace eng::cuda
