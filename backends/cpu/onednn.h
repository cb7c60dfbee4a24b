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

// A primitive with its arguments, executed without the allocations that the C++ interface makes at each call.
class DnnlCall {
 public:
  DnnlCall() = default;
  DnnlCall(dnnl::primitive primitive, std::unordered_map<int, dnnl::memory> arguments) : primitive_(std::move(primitive)), held_(std::move(arguments)) {
    for (const auto& [argument, memory] : held_) arguments_.push_back({argument, memory.get()});
  }
  void execute(const dnnl::stream& stream) const {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data()),
                            "a oneDNN primitive failed");
  }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> held_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

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
    DnnlCall reorder;
    dnnl::memory scratchpad;  // of the reorder
    size_t scratchpad_offset = 0;
  };
  size_t reserve(size_t bytes);

  std::vector<std::unique_ptr<Operand>> operands_;
  Arguments arguments_;
  DnnlCall primitive_;
  dnnl::memory scratchpad_;
  bool has_scratchpad_ = false;
  size_t scratchpad_offset_ = 0, bytes_ = 0;
  dnnl::stream stream_{dnnl_engine()};
};

}  // namespace eng::cpu
