// See dnn.h.
#include "backends/cuda/dnn.h"

#include <algorithm>
#include <atomic>

#include "backends/cuda/strided_copy.h"

namespace eng::cuda {
namespace {

constexpr int64_t kMostElements = 0x7fffffff;  // of a tensor: cuDNN's limit

class OrOwn : public Kernel {
 public:
  OrOwn(std::unique_ptr<Kernel> by_cudnn, std::unique_ptr<Kernel> own) : by_cudnn_(std::move(by_cudnn)), own_(std::move(own)) {}
  size_t workspace() const override { return std::max(by_cudnn_->workspace(), own_->workspace()); }
  void run(const RunContext& c) override {
    if (refused_) return own_->run(c);
    try {
      by_cudnn_->run(c);
    } catch (const Failure& e) {
      if (e.code != EB_UNSUPPORTED) throw;
      refused_ = true;
      own_->run(c);
    }
  }

 private:
  std::unique_ptr<Kernel> by_cudnn_, own_;
  std::atomic<bool> refused_ = false;
};

}  // namespace

TensorDescriptor::TensorDescriptor(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides)
    : d_(cudnn().cudnnCreateTensorDescriptor, cudnn().cudnnDestroyTensorDescriptor) {
  const std::vector<int> n(dims.begin(), dims.end()), s(strides.begin(), strides.end());
  check(cudnn().cudnnSetTensorNdDescriptor(d_.get(), CUDNN_DATA_FLOAT, static_cast<int>(n.size()), n.data(), s.data()), "describing a tensor");
}

TensorView planar(const TensorView& t) {
  TensorView p = t;
  if (t.rank() == 3) {
    p.dims.insert(p.dims.begin() + 2, 1);
    p.strides.insert(p.strides.begin() + 2, t.dims[2] * t.strides[2]);
  }
  if (t.rank() == 2) {
    p.dims.insert(p.dims.end(), 2, 1);
    p.strides.insert(p.strides.end(), 2, 1);
  }
  return p;
}

std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = dims[1];
  for (size_t i = dims.size(); i-- > 2; step *= dims[i]) strides[i] = step;
  strides[0] = step;
  return strides;
}

bool all_row_major(Operands operands) {
  return std::all_of(operands.begin(), operands.end(), [](const TensorView* t) { return !t->present() || t->row_major(); });
}
bool all_channels_last(Operands operands) {
  return std::all_of(operands.begin(), operands.end(), [](const TensorView* t) { return !t->present() || t->channels_last(); });
}

std::string refused_by_cudnn(Operands operands) {
  for (const TensorView* t : operands) {
    if (!t->present()) continue;
    if (t->dtype != EB_FLOAT32) return "cuDNN is used for float32";
    if (t->count() == 0) return "an operand is empty";
    if (t->count() > kMostElements) return "cuDNN takes tensors of less than 2^31 elements";
  }
  if (!all_row_major(operands) && !all_channels_last(operands)) return "operands lie neither all row-major nor all channels-last";
  return missing_cudnn();
}

std::unique_ptr<TensorDescriptor> describe(const TensorView& t, Operands all) {
  const std::vector<int64_t> dims = planar(t).dims;
  return std::make_unique<TensorDescriptor>(dims, all_row_major(all) ? dense_strides(dims) : channels_last_strides(dims));
}

std::unique_ptr<Kernel> with_own_kernel(std::unique_ptr<Kernel> by_cudnn, const NodeView& n, eb_device* device) {
  for (const KernelDef* def : all_kernels())
    if (def->op == n.op() && def->domain == n.domain() && std::string_view(def->name) != "cudnn" && (def->types & type_bit(EB_FLOAT32)) &&
        (def->can_run ? def->can_run(n) : require_row_major(n)).empty())
      return std::make_unique<OrOwn>(std::move(by_cudnn), def->create(n, device));
  return by_cudnn;
}

}  // namespace eng::cuda
