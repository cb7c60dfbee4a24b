// See onednn.h.
#include "backends/cpu/onednn.h"

namespace eng::cpu {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc dnnl_desc(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  return dnnl::memory::desc(dims, dnnl::memory::data_type::f32, strides);
}

size_t DnnlKernel::reserve(size_t bytes) {
  const size_t at = bytes_;
  bytes_ += (bytes + 63) / 64 * 64;
  return at;
}

void DnnlKernel::bind(int argument, int index, bool is_output, const dnnl::memory::desc& user, const dnnl::memory::desc& wanted) {
  auto o = std::make_unique<Operand>();
  o->index = index;
  o->is_output = is_output;
  o->copied = user != wanted;
  o->user = dnnl::memory(user, dnnl_engine(), DNNL_MEMORY_NONE);
  o->inner = o->user;
  if (o->copied) {
    o->inner = dnnl::memory(wanted, dnnl_engine(), DNNL_MEMORY_NONE);
    o->offset = reserve(wanted.get_size());
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::memory::desc &from = is_output ? wanted : user, &to = is_output ? user : wanted;
    dnnl::reorder::primitive_desc pd(dnnl_engine(), from, dnnl_engine(), to, attr);
    o->scratchpad = dnnl::memory(pd.scratchpad_desc(), dnnl_engine(), DNNL_MEMORY_NONE);
    o->scratchpad_offset = reserve(pd.scratchpad_desc().get_size());
    o->reorder = DnnlCall(dnnl::reorder(pd), {{DNNL_ARG_FROM, is_output ? o->inner : o->user}, {DNNL_ARG_TO, is_output ? o->user : o->inner},
                                              {DNNL_ARG_SCRATCHPAD, o->scratchpad}});
  }
  arguments_.emplace(argument, o->inner);
  operands_.push_back(std::move(o));
}

void DnnlKernel::finish(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad) {
  scratchpad_ = dnnl::memory(scratchpad, dnnl_engine(), DNNL_MEMORY_NONE);
  scratchpad_offset_ = reserve(scratchpad.get_size());
  has_scratchpad_ = scratchpad.get_size() > 0;
  arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratchpad_);
  primitive_ = DnnlCall(std::move(primitive), arguments_);
}

void DnnlKernel::run(const RunContext& c) {
  char* space = static_cast<char*>(c.workspace);
  for (auto& o : operands_) {
    o->user.set_data_handle(o->is_output ? c.outputs[o->index] : const_cast<void*>(c.inputs[o->index]));
    if (!o->copied) continue;
    o->inner.set_data_handle(space + o->offset);
    o->scratchpad.set_data_handle(space + o->scratchpad_offset);
    if (!o->is_output) o->reorder.execute(stream_);
  }
  if (has_scratchpad_) scratchpad_.set_data_handle(space + scratchpad_offset_);
  primitive_.execute(stream_);
  for (auto& o : operands_)
    if (o->copied && o->is_output) o->reorder.execute(stream_);
}

}  // namespace eng::cpu
