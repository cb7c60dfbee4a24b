// See recurrent.h.
#include "backends/cpu/recurrent.h"

#include <cctype>

#include "backends/cpu/strided_copy.h"

namespace eng::cpu {
namespace {

struct ActivationName {
  const char* name;
  Activation::Kind kind;
  bool takes_alpha, takes_beta;
  float alpha, beta;  // defaults
};
constexpr ActivationName kNames[] = {
    {"relu", Activation::kRelu, false, false, 0, 0},
    {"tanh", Activation::kTanh, false, false, 0, 0},
    {"sigmoid", Activation::kSigmoid, false, false, 0, 0},
    {"affine", Activation::kAffine, true, true, 1, 0},
    {"leakyrelu", Activation::kLeakyRelu, true, false, 0.01f, 0},
    {"thresholdedrelu", Activation::kThresholdedRelu, true, false, 1, 0},
    {"scaledtanh", Activation::kScaledTanh, true, true, 1, 1},
    {"hardsigmoid", Activation::kHardSigmoid, true, true, 0.2f, 0.5f},
    {"elu", Activation::kElu, true, false, 1, 0},
    {"softsign", Activation::kSoftsign, false, false, 0, 0},
    {"softplus", Activation::kSoftplus, false, false, 0, 0},
};

}  // namespace

Recurrent::Recurrent(const NodeView& n, const std::vector<Activation::Kind>& defaults) : per_direction(defaults.size()) {
  for (int i = 0; i < n.input_count(); ++i) inputs |= n.in(i).present() ? 1u << i : 0u;
  for (int i = 0; i < n.output_count(); ++i) outputs |= n.out(i).present() ? 1u << i : 0u;
  steps = n.in(0).dim(0);
  batch = n.in(0).dim(1);
  input = n.in(0).dim(2);
  directions = n.in(1).dim(0);
  rows = n.in(1).dim(1);
  hidden = n.in(2).dim(2);
  first_reversed = n.attr_string("direction", "forward") == "reverse";
  clip = n.attr_float("clip", 0);
  std::vector<std::string> names = n.attr_strings("activations");
  const std::vector<float> alphas = n.attr_floats("activation_alpha"), betas = n.attr_floats("activation_beta");
  for (std::string& name : names)
    for (char& ch : name) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
  size_t next_alpha = 0, next_beta = 0;
  for (size_t i = 0; i < per_direction * static_cast<size_t>(directions); ++i) {
    Activation a;
    a.kind = defaults[i % per_direction];
    for (const ActivationName& known : kNames) {
      if (i >= names.size() || names[i] != known.name) continue;
      a = {known.kind, known.alpha, known.beta};
      if (known.takes_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];  // consumed in the order of activations
      if (known.takes_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
    }
    activations.push_back(a);
  }
}

bool Recurrent::default_activations(const std::vector<Activation::Kind>& defaults) const {
  for (size_t i = 0; i < activations.size(); ++i)
    if (activations[i].kind != defaults[i % per_direction]) return false;
  return true;
}

std::vector<SampleRange> cut_batch(int64_t batch, int threads) {
  const int64_t count = std::clamp<int64_t>(batch / 8, 1, std::max(threads, 1));
  std::vector<SampleRange> ranges;
  for (int64_t i = 0; i < count; ++i) ranges.push_back({batch * i / count, batch * (i + 1) / count});
  return ranges;
}

GemmSpec product(int64_t m, int64_t n, int64_t k, MatrixStrides a, MatrixStrides b, int64_t ldc, bool accumulate, bool bias) {
  GemmSpec s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.a = std::move(a);
  s.b = std::move(b);
  s.c = matrix(ldc);
  s.accumulate = accumulate;
  s.bias = bias;
  return s;
}

namespace {

class BatchMajor : public Kernel {
 public:
  struct Operand {
    StridedCopy copy;
    size_t at = 0;
    bool copied = false;
  };
  std::vector<Operand> inputs, outputs;
  std::unique_ptr<Kernel> inner;
  WorkspacePlan plan;

  void prepare() {
    in_.resize(inputs.size());
    out_.resize(outputs.size());
  }
  size_t workspace() const override { return plan.bytes() + inner->workspace(); }
  void run(const RunContext& c) override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_[i] = c.inputs[i];
      if (!inputs[i].copied) continue;
      in_[i] = part<char>(c.workspace, inputs[i].at);
      inputs[i].copy.run(c.inputs[i], part<char>(c.workspace, inputs[i].at));
    }
    for (size_t i = 0; i < outputs.size(); ++i) out_[i] = outputs[i].copied ? part<char>(c.workspace, outputs[i].at) : c.outputs[i];
    inner->run({in_.data(), out_.data(), part<char>(c.workspace, plan.bytes())});
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].copied) outputs[i].copy.run(out_[i], c.outputs[i]);
  }

 private:
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

bool holds(const std::vector<int>& list, int i) { return std::find(list.begin(), list.end(), i) != list.end(); }

std::vector<int64_t> dense(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

// Rearranges tensor `t` of the node by perm (time-major axis i is batch-major axis perm[i]) and notes the copy.
BatchMajor::Operand rearrange(eb_tensor& t, const std::vector<size_t>& perm, bool is_output, WorkspacePlan& plan) {
  const TensorView view(t);
  std::vector<int64_t> dims, outer;
  for (size_t p : perm) {
    dims.push_back(view.dims[p]);
    outer.push_back(view.strides[p]);
  }
  const std::vector<int64_t> inner = dense(dims);
  BatchMajor::Operand o;
  o.copied = true;
  o.at = plan.add<char>(view.bytes());
  o.copy = is_output ? StridedCopy(eb::size_of(t.dtype), dims, inner, outer) : StridedCopy(eb::size_of(t.dtype), dims, outer, inner);
  for (size_t d = 0; d < dims.size(); ++d) {
    t.dims[d] = dims[d];
    t.strides[d] = inner[d];
  }
  return o;
}

}  // namespace

std::unique_ptr<Kernel> create_batch_major(const NodeView& n, int threads, const BatchMajorOperands& which, CreateKernel create) {
  eb_node raw = n.raw();
  std::vector<eb_tensor> inputs(raw.inputs, raw.inputs + raw.input_count), outputs(raw.outputs, raw.outputs + raw.output_count);
  auto kernel = std::make_unique<BatchMajor>();
  auto take = [&](std::vector<eb_tensor>& list, bool is_output, const std::vector<int>& pairs, const std::vector<int>& y, std::vector<BatchMajor::Operand>& to) {
    for (size_t i = 0; i < list.size(); ++i) {
      BatchMajor::Operand o;
      if (list[i].dtype != EB_UNDEFINED) {
        if (holds(y, static_cast<int>(i))) o = rearrange(list[i], {1, 2, 0, 3}, is_output, kernel->plan);
        else if (holds(pairs, static_cast<int>(i))) o = rearrange(list[i], {1, 0, 2}, is_output, kernel->plan);
      }
      to.push_back(o);
    }
  };
  take(inputs, false, which.pair_inputs, which.y_inputs, kernel->inputs);
  take(outputs, true, which.pair_outputs, which.y_outputs, kernel->outputs);
  raw.inputs = inputs.data();
  raw.outputs = outputs.data();
  const NodeView view(raw);
  kernel->inner = create(view, threads);
  kernel->prepare();
  return kernel;
}

}  // namespace eng::cpu
