// The list of kernel files: one line each. See kernel.h.
#include "backends/cuda/kernel.h"

#define ENG_CUDA_KERNEL_FILES(X) \
  X(identity) \
  X(reorder) \
  X(reshape) \
  X(cast) \
  X(binary) \
  X(unary) \
  X(unary_grad) \
  X(gemm) \
  X(matmul) \
  X(conv) \
  X(batch_norm_cudnn) \
  X(batch_norm) \
  X(pool_cudnn) \
  X(pool) \
  X(softmax_cudnn) \
  X(softmax) \
  X(loss) \
  X(metric) \
  X(reduce) \
  X(expand) \
  X(transpose) \
  X(concat) \
  X(slice) \
  X(dropout) \
  X(optimizer_update)

namespace eng::cuda {

#define ENG_DECLARE(stem) std::span<const KernelDef> stem##_kernels();
ENG_CUDA_KERNEL_FILES(ENG_DECLARE)
#undef ENG_DECLARE

std::vector<const KernelDef*> all_kernels() {
  std::vector<const KernelDef*> all;
#define ENG_ADD(stem) \
  for (const KernelDef& k : stem##_kernels()) all.push_back(&k);
  ENG_CUDA_KERNEL_FILES(ENG_ADD)
#undef ENG_ADD
  return all;
}

std::string require_row_major(const NodeView& n) {
  for (int i = 0; i < n.input_count(); ++i)
    if (n.in(i).present() && !n.in(i).row_major()) return "input " + std::to_string(i) + " is not row-major";
  for (int i = 0; i < n.output_count(); ++i)
    if (n.out(i).present() && !n.out(i).row_major()) return "output " + std::to_string(i) + " is not row-major";
  return "";
}

std::string require_same_layout(const NodeView& n) {
  if (require_row_major(n).empty()) return "";
  const TensorView& first = n.out(0);
  if (!first.channels_last()) return "output 0 is neither row-major nor channels-last";
  for (int i = 0; i < n.input_count(); ++i)
    if (n.in(i).present() && !n.in(i).same_layout(first)) return "input " + std::to_string(i) + " lies otherwise than output 0";
  for (int i = 1; i < n.output_count(); ++i)
    if (n.out(i).present() && !n.out(i).same_layout(first)) return "output " + std::to_string(i) + " lies otherwise than output 0";
  return "";
}

}  // namespace eng::cuda
