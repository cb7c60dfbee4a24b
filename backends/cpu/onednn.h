// oneDNN behind a Kernel: a primitive whose operands may lie otherwise than it wants. Everything is made at create; run()
// sets pointers, copies the operands that need it into the workspace, executes, and copies results back.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/cpu/kernel.h"

namespace eng::cpu {

// The one CPU engine of the process.
const dnnl::engine& dnnl_engine();

// A float32 description with these dimensions and strides.
dnnl::memory::desc dnnl_desc(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);

class DnnlKernel : public Kernel {
 public:
  // Operand `index` (input or output `is_output`) lies as `user`; the primitive takes it as `wanted` under `argument`.
  void bind(int argument, int index, bool is_output, const dnnl::memory::desc& user, const dnnl::memory::desc& wanted);
  // After all binds. `scratchpad` is the primitive's, created with scratchpad mode user.
  void finish(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);

  size_t workspace() const override { return bytes_; }
  void run(const RunContext& c) override;

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;
  struct Operand {
    int index;
    bool is_output, copied;
    dnnl::memory user, inner;
    size_t offset = 0;  // of inner in the workspace, where copied
    dnnl::reorder reorder;
    Arguments reorder_arguments;
    dnnl::memory scratchpad;  // of the reorder
    size_t scratchpad_offset = 0;
  };
  size_t reserve(size_t bytes);

  std::vector<std::unique_ptr<Operand>> operands_;
  dnnl::primitive primitive_;
  Arguments arguments_;
  dnnl::memory scratchpad_;
  size_t scratchpad_offset_ = 0, bytes_ = 0;
  dnnl::stream stream_{dnnl_engine()};
};

}  // namespace eng::cpu
