// See half_adapter.h.
#include "backends/cpu/half_adapter.h"

#include <bit>

namespace eng::cpu {
namespace {

constexpr size_t kAlign = 64;
size_t rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct Operand {
  int32_t half = EB_UNDEFINED;  // its 16-bit type; undefined: passed through
  int64_t count = 0;
  size_t at = 0;                // of the float copy in the workspace
};

class Widened : public Kernel {
 public:
  Widened(const NodeView& n, std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {
    auto add = [&](const TensorView& t, std::vector<Operand>& list) {
      Operand o;
      if (is_half(t.dtype)) {
        o = {t.dtype, t.count(), bytes_};
        bytes_ += rounded(static_cast<size_t>(t.count()) * sizeof(float));
      }
      list.push_back(o);
    };
    for (int i = 0; i < n.input_count(); ++i) add(n.in(i), inputs_);
    for (int i = 0; i < n.output_count(); ++i) add(n.out(i), outputs_);
    in_.resize(inputs_.size());
    out_.resize(outputs_.size());
  }
  size_t workspace() const override { return bytes_ + inner_->workspace(); }
  void run(const RunContext& c) override {
    auto* base = static_cast<std::byte*>(c.workspace);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Operand& o = inputs_[i];
      in_[i] = o.half == EB_UNDEFINED ? c.inputs[i] : base + o.at;
      if (o.half != EB_UNDEFINED) widen(reinterpret_cast<float*>(base + o.at), static_cast<const uint16_t*>(c.inputs[i]), o.count, o.half);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) out_[i] = outputs_[i].half == EB_UNDEFINED ? c.outputs[i] : base + outputs_[i].at;
    inner_->run({in_.data(), out_.data(), base + bytes_});
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Operand& o = outputs_[i];
      if (o.half != EB_UNDEFINED) narrow(static_cast<uint16_t*>(c.outputs[i]), reinterpret_cast<float*>(base + o.at), o.count, o.half);
    }
  }

 private:
  std::unique_ptr<Kernel> inner_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  size_t bytes_ = 0;
};

}  // namespace

bool has_half(const NodeView& n) {
  for (int i = 0; i < n.input_count(); ++i)
    if (is_half(n.in(i).dtype)) return true;
  for (int i = 0; i < n.output_count(); ++i)
    if (is_half(n.out(i).dtype)) return true;
  return false;
}

void widen(float* to, const uint16_t* from, int64_t count, int32_t dtype) {
  if (dtype == EB_FLOAT16) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(std::bit_cast<_Float16>(from[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
  }
}

void narrow(uint16_t* to, const float* from, int64_t count, int32_t dtype) {
  if (dtype == EB_FLOAT16) {
    for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<uint16_t>(static_cast<_Float16>(from[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    to[i] = static_cast<uint16_t>(from[i] != from[i] ? (bits >> 16 | 0x40u) : nearest);
  }
}

std::unique_ptr<Kernel> create_widened(const NodeView& n, int threads, CreateFn create) {
  eb_node raw = n.raw();
  auto widened = [&](const eb_tensor* list, uint32_t count, std::vector<eb_tensor>& to) {
    to.assign(list, list + count);
    for (eb_tensor& t : to) {
      if (!is_half(t.dtype)) continue;
      const TensorView view(t);
      if (!view.row_major() && !view.channels_last()) return false;
      t.dtype = EB_FLOAT32;
    }
    return true;
  };
  std::vector<eb_tensor> inputs, outputs;
  if (!widened(raw.inputs, raw.input_count, inputs) || !widened(raw.outputs, raw.output_count, outputs)) return nullptr;
  raw.inputs = inputs.data();
  raw.outputs = outputs.data();
  const NodeView view(raw);
  auto inner = create(view, threads);
  if (!inner) return nullptr;
  return std::make_unique<Widened>(n, std::move(inner));
}

}  // namespace eng::cpu
