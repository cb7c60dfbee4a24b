// BatchNormalization, BatchNormTraining, BatchNormGrad by cuDNN (one value a channel: its SPATIAL mode), in float32 throughout. Formulas: graph/ops/batch_norm.cpp;
// saved_inv_std is what cuDNN keeps, 1 / sqrt(variance + epsilon). Running statistics are not cuDNN's: it blends the unbiased variance. With a factor of 1 it
// leaves the batch's own mean and unbiased variance in the workspace, and a pass over the channels blends them as the node defines.
// A fused ReLU stays with the own kernels (batch_norm.cu), which apply it in the same pass: cuDNN has it for half precision alone.
#include "backends/cuda/dnn.h"
#include "backends/cuda/each.h"

namespace eng::cuda {
namespace {

constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;
constexpr int64_t kMostBatch = 65535;  // blocks along a grid's second and third axis

double epsilon_of(const NodeView& n) { return n.attr_float("epsilon", 1e-5); }
int64_t values_of(const TensorView& x) { return x.count() / x.dims[1]; }

// Of scale, shift and statistics: 1 x C x 1 x 1.
TensorDescriptor describe_channels(const TensorView& x) {
  std::vector<int64_t> dims(planar(x).dims.size(), 1), strides = dims;
  dims[1] = strides[0] = x.dims[1];
  return {dims, strides};
}

class Inference : public Kernel {
 public:
  explicit Inference(const NodeView& n) : t_(describe(n.in(0), {&n.in(0), &n.out(0)})), channels_(describe_channels(n.in(0))), epsilon_(epsilon_of(n)) {}
  void run(const RunContext& c) override {
    const DnnHandle handle(c);
    check(cudnn().cudnnBatchNormalizationForwardInference(handle, kMode, &kDnnOne, &kDnnZero, t_->get(), c.in(0), t_->get(), c.out(0), channels_.get(), c.in(1), c.in(2), c.in(3),
                                                          c.in(4), epsilon_),
          "batch normalisation");
  }

 private:
  std::unique_ptr<TensorDescriptor> t_;
  TensorDescriptor channels_;
  double epsilon_;
};

struct BlendStatistics {
  float *running_mean, *running_variance;  // null where not wanted
  const float *old_mean, *old_variance, *mean, *unbiased;
  double momentum, population;  // population: variance of the values over their unbiased one
  __device__ void operator()(int64_t c) const {
    const double fresh = 1 - momentum;
    if (running_mean) running_mean[c] = static_cast<float>(static_cast<double>(old_mean[c]) * momentum + static_cast<double>(mean[c]) * fresh);
    if (running_variance) running_variance[c] = static_cast<float>(static_cast<double>(old_variance[c]) * momentum + static_cast<double>(unbiased[c]) * population * fresh);
  }
};

class Training : public Kernel {
 public:
  explicit Training(const NodeView& n)
      : t_(describe(n.in(0), {&n.in(0), &n.out(0)})), channels_(describe_channels(n.in(0))), count_(n.in(0).dims[1]), epsilon_(epsilon_of(n)),
        momentum_(n.attr_float("momentum", 0.9)), running_(n.out(1).present() || n.out(2).present()), saved_(n.out(3).present() || n.out(4).present()) {
    const auto values = static_cast<double>(values_of(n.in(0)));
    population_ = (values - 1) / values;
  }
  size_t workspace() const override { return 4 * row(); }  // mean, unbiased variance; saved mean or deviation where only the other one is an output
  void run(const RunContext& c) override {
    float *mean = nullptr, *unbiased = nullptr, *saved_mean = nullptr, *saved_inverse = nullptr;
    if (running_) {
      mean = c.space<float>();
      unbiased = c.space<float>(row());
      check(cudaMemsetAsync(mean, 0, 2 * row(), c.stream), "clearing the statistics");  // cuDNN may multiply what is there by 0
    }
    if (saved_) {
      saved_mean = c.out(3) ? c.out<float>(3) : c.space<float>(2 * row());
      saved_inverse = c.out(4) ? c.out<float>(4) : c.space<float>(3 * row());
    }
    normalise(c, mean, unbiased, saved_mean, saved_inverse);
    if (running_) each(c.stream, count_, BlendStatistics{c.out<float>(1), c.out<float>(2), c.in<float>(3), c.in<float>(4), mean, unbiased, momentum_, population_});
  }

 private:
  void normalise(const RunContext& c, float* mean, float* unbiased, float* saved_mean, float* saved_inverse) const {
    const DnnHandle handle(c);
    check(cudnn().cudnnBatchNormalizationForwardTraining(handle, kMode, &kDnnOne, &kDnnZero, t_->get(), c.in(0), t_->get(), c.out(0), channels_.get(), c.in(1), c.in(2), 1.0, mean,
                                                         unbiased, epsilon_, saved_mean, saved_inverse),
          "batch normalisation");
  }
  size_t row() const { return aligned(static_cast<size_t>(count_) * sizeof(float)); }

  std::unique_ptr<TensorDescriptor> t_;
  TensorDescriptor channels_;
  int64_t count_;
  double epsilon_, momentum_, population_;
  bool running_, saved_;
};

class Gradient : public Kernel {
 public:
  explicit Gradient(const NodeView& n)
      : t_(describe(n.in(1), {&n.in(0), &n.in(1), &n.out(0)})), channels_(describe_channels(n.in(1))), row_(aligned(static_cast<size_t>(n.in(1).dims[1]) * sizeof(float))),
        epsilon_(epsilon_of(n)) {}
  size_t workspace() const override { return 2 * row_; }  // gradients of scale and shift that nobody wants
  void run(const RunContext& c) override {
    void *dscale = c.out(1) ? c.out(1) : c.space(), *dshift = c.out(2) ? c.out(2) : c.space(row_);
    const DnnHandle handle(c);
    check(cudnn().cudnnBatchNormalizationBackward(handle, kMode, &kDnnOne, &kDnnZero, &kDnnOne, &kDnnZero, t_->get(), c.in(1), t_->get(), c.in(0), t_->get(), c.out(0),
                                                  channels_.get(), c.in(2), dscale, dshift, epsilon_, c.in(4), c.in(5)),
          "gradient of a batch normalisation");
  }

 private:
  std::unique_ptr<TensorDescriptor> t_;
  TensorDescriptor channels_;
  size_t row_;
  double epsilon_;
};

std::string refused(const NodeView& n, const TensorView& x, Operands operands) {
  if (n.attr_string("activation", "") == "Relu") return "a ReLU is fused, which cuDNN has for half precision alone";
  if (x.rank() < 2 || x.rank() > 5) return "cuDNN is used for 2 to 5 axes";
  if (epsilon_of(n) < CUDNN_BN_MIN_EPSILON) return "epsilon is below cuDNN's least";
  if (x.dims[0] > kMostBatch) return "the batch has more than " + std::to_string(kMostBatch) + " samples";
  return refused_by_cudnn(operands);
}
std::string inference_can_run(const NodeView& n) {
  if (n.attr_int("training_mode", 0) != 0) return "training_mode is 1; a training step has BatchNormTraining instead";
  return refused(n, n.in(0), {&n.in(0), &n.out(0)});
}
std::string training_can_run(const NodeView& n) {
  if (!n.out(0).present()) return "Y is not wanted, which cuDNN always writes";
  std::string reason = refused(n, n.in(0), {&n.in(0), &n.out(0)});
  if (!reason.empty()) return reason;
  return values_of(n.in(0)) > 1 ? "" : "a channel has one value, of which there is no unbiased variance";
}
std::string gradient_can_run(const NodeView& n) {
  if (n.attr_int("frozen", 0) != 0) return "the statistics are frozen; cuDNN's gradient goes through them";
  if (!n.out(0).present()) return "the gradient of X is not wanted, which cuDNN always writes";
  return refused(n, n.in(1), {&n.in(0), &n.in(1), &n.out(0)});
}

}  // namespace

std::span<const KernelDef> batch_norm_cudnn_kernels() {
  static const KernelDef defs[] = {
      {.op = "BatchNormalization", .name = "cudnn", .can_run = inference_can_run, .create = create_cudnn<Inference>},
      {.domain = "ai.engine", .op = "BatchNormTraining", .name = "cudnn", .can_run = training_can_run, .create = create_cudnn<Training>},
      {.domain = "ai.engine", .op = "BatchNormGrad", .name = "cudnn", .can_run = gradient_can_run, .create = create_cudnn<Gradient>},
  };
  return defs;
}

}  // namespace eng::cuda
