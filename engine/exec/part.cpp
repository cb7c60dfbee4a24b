// See part.h.
#include "engine/exec/part.h"

#include <algorithm>

#include "engine/memory/arena.h"
#include "graph/ops/op.h"
#include "graph/passes/assign_layouts.h"

namespace eng {
namespace {

uint64_t bytes_of(const Value& v) { return static_cast<uint64_t>(element_count(v.shape)) * size_of(v.dtype); }

// A tensor's bytes as a channels-last value lies.
Tensor to_channels_last(const Tensor& t) {
  Tensor out(t.dtype(), t.shape());
  const Shape& shape = t.shape();
  const std::vector<int64_t> strides = channels_last_strides(shape);
  const size_t element = size_of(t.dtype());
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < t.element_count(); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < shape.size(); ++a) at += index[a] * strides[a];
    std::copy_n(t.bytes() + static_cast<size_t>(i) * element, element, out.mutable_bytes() + static_cast<size_t>(at) * element);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++index[a] < shape[a]) break;
      index[a] = 0;
    }
  }
  return out;
}

}  // namespace

ProgramPart::ProgramPart(const Graph& graph, std::shared_ptr<Device> device, std::shared_ptr<StateStore> store, std::shared_ptr<SharedArena> arena)
    : graph_(graph), device_(std::move(device)), store_(std::move(store)), arena_(arena ? std::move(arena) : std::make_shared<SharedArena>(device_)) {}

ProgramPart::~ProgramPart() { arena_->release(this); }

void* ProgramPart::pointer(ValueId v) const {
  if (v == kNoValue || storage_.of[static_cast<size_t>(v)] < 0) return nullptr;
  return pointers_[static_cast<size_t>(storage_.of[static_cast<size_t>(v)])];
}

Status ProgramPart::create_kernels(const std::vector<NodeId>& order) {
  order_ = order;
  std::string errors;
  int failed = 0;
  Code code = Code::kOk;
  steps_.reserve(order.size());
  for (NodeId n : order) {
    const Node& node = graph_.node(n);
    const OpDef* op = find_op(node.domain, node.op_type);
    if (op && op->by_executor) {
      rows_.push_back({graph_.label(n), node.op_type, "executor", node.phase, 0});
      steps_.push_back({.node = n});
      continue;
    }
    auto kernel = DeviceKernel::create(device_, graph_, node);
    if (!kernel.ok()) {
      if (code == Code::kOk) code = kernel.status().code();
      if (++failed <= 20) errors += (errors.empty() ? "" : "\n  ") + kernel.status().message();
      continue;
    }
    rows_.push_back({graph_.label(n), node.op_type, kernel->implementation(), node.phase, kernel->workspace()});
    steps_.push_back({.node = n, .kernel = std::move(*kernel)});
  }
  if (failed == 0) return {};
  return Status(code, failed == 1 ? errors : cat(failed, " nodes cannot run on ", device_->name(), ":\n  ", errors, failed > 20 ? "\n  ..." : ""));
}

Status ProgramPart::place_constant(const Storage& s, void** pointer) {
  const Value& v = graph_.value(s.owner);
  if (!v.data) return internal_error("constant '", v.name, "' has no content");
  Tensor content = v.layout == Layout::kChannelsLast ? to_channels_last(*v.data) : *v.data;
  if (device_->host_visible()) {
    *pointer = const_cast<std::byte*>(content.bytes());
    host_constants_.push_back(std::move(content));
    return {};
  }
  bool read_on_device = false;
  for (NodeId n : order_) {
    const OpDef* op = find_op(graph_.node(n).domain, graph_.node(n).op_type);
    for (size_t i = 0; i < graph_.node(n).inputs.size(); ++i)
      read_on_device |= graph_.node(n).inputs[i] == s.owner && (!op || slot_of(*op, static_cast<int>(i)) != Slot::kHost);
  }
  if (!read_on_device) return {};
  ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device_, s.bytes));
  ENG_TRY(device_->copy_to_device(b.data(), content.bytes(), s.bytes));
  ENG_TRY(device_->synchronize());
  *pointer = b.data();
  memory_.constants += s.bytes;
  buffers_.push_back(std::move(b));
  return {};
}

Status ProgramPart::place(const Storage& s, void** pointer) {
  const Value& v = graph_.value(s.owner);
  switch (s.kind) {
    case StorageKind::kArena:
    case StorageKind::kExternal: return {};
    case StorageKind::kConstant: return place_constant(s, pointer);
    case StorageKind::kState: {
      if (!v.data && !v.has_shape) return internal_error("'", v.name, "' has neither content nor shape");
      ENG_TRY(store_->ensure(v.name, v.data ? *v.data : Tensor(v.dtype, v.shape), device_));  // optimiser slots start at zero
      memory_.state += s.bytes;
      *pointer = store_->pointer(v.name);
      return {};
    }
    case StorageKind::kInput: {
      ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device_, s.bytes));
      memory_.inputs += s.bytes;
      *pointer = b.data();
      fed_[s.owner] = false;
      buffers_.push_back(std::move(b));
      return {};
    }
  }
  return {};
}

Status ProgramPart::plan_memory(const StorageRequest& request, const std::vector<NodeId>& views) {
  static const std::vector<eb_alias> as_view{{sizeof(eb_alias), EB_ALIAS_VIEW, 0, 0}};
  std::vector<std::vector<eb_alias>> aliases;
  for (const PartStep& s : steps_) {
    if (s.kernel) aliases.push_back(s.kernel->aliases());
    else if (std::find(views.begin(), views.end(), s.node) != views.end()) aliases.push_back(as_view);
    else aliases.emplace_back();
  }
  storage_ = plan_storage(graph_, order_, aliases, request);
  pointers_.assign(storage_.storages.size(), nullptr);
  for (size_t i = 0; i < storage_.storages.size(); ++i) ENG_TRY(place(storage_.storages[i], &pointers_[i]));
  return plan_arena_block();
}

Status ProgramPart::plan_arena_block() {
  std::vector<Interval> intervals;
  std::vector<size_t> which, with_workspace;
  for (size_t i = 0; i < storage_.storages.size(); ++i) {
    const Storage& s = storage_.storages[i];
    if (s.kind != StorageKind::kArena) continue;
    intervals.push_back({s.first, s.last, s.bytes});
    which.push_back(i);
  }
  for (NodeId n : order_)
    for (ValueId v : graph_.node(n).outputs)
      if (v != kNoValue) memory_.activations += bytes_of(graph_.value(v));
  for (size_t i = 0; i < steps_.size(); ++i) {
    const uint64_t bytes = steps_[i].kernel ? steps_[i].kernel->workspace() : 0;
    memory_.workspace = std::max(memory_.workspace, bytes);
    if (bytes == 0) continue;
    intervals.push_back({static_cast<int>(i), static_cast<int>(i), bytes});
    with_workspace.push_back(i);
  }
  const ArenaPlan plan = plan_arena(intervals, static_cast<int>(order_.size()), std::max<uint64_t>(64, device_->alignment()));
  memory_.arena = plan.bytes;
  memory_.lower_bound = plan.lower_bound;
  memory_.live = plan.live;
  if (!order_.empty()) memory_.peak_node = rows_[static_cast<size_t>(plan.peak_step)].node;
  for (size_t i = 0; i < which.size(); ++i) arena_storages_.emplace_back(which[i], plan.offsets[i]);
  for (size_t i = 0; i < with_workspace.size(); ++i) workspaces_.emplace_back(with_workspace[i], plan.offsets[which.size() + i]);
  const Status reserved = arena_->reserve(plan.bytes);
  if (!reserved.ok()) return reserved.in(cat("the step needs ", plan.bytes, " bytes for its activations (most at ", memory_.peak_node, ")"));
  arena_->use(this, [this](void* block) { base_at(block); });
  return {};
}

void ProgramPart::base_at(void* block) {
  auto* base = static_cast<std::byte*>(block);
  for (const auto& [storage, offset] : arena_storages_) pointers_[storage] = base + offset;
  for (const auto& [step, offset] : workspaces_) steps_[step].workspace = base + offset;
  if (!connected_) return;
  link();
  if (moved_) moved_();
}

void ProgramPart::connect() {
  auto note = [&](ValueId v, size_t step, bool output, size_t index) {
    const int s = v == kNoValue ? -1 : storage_.of[static_cast<size_t>(v)];
    if (s >= 0 && storage_.storages[static_cast<size_t>(s)].kind == StorageKind::kExternal) patches_[s].push_back({step, output, index});
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Node& n = graph_.node(steps_[i].node);
    for (size_t k = 0; k < n.inputs.size(); ++k) note(n.inputs[k], i, false, k);
    for (size_t k = 0; k < n.outputs.size(); ++k) note(n.outputs[k], i, true, k);
  }
  link();
  connected_ = true;
}

void ProgramPart::link() {
  for (PartStep& s : steps_) {
    const Node& n = graph_.node(s.node);
    s.inputs.clear();
    s.outputs.clear();
    for (ValueId v : n.inputs) s.inputs.push_back(pointer(v));
    for (ValueId v : n.outputs) s.outputs.push_back(pointer(v));
  }
  copies_.clear();
  for (const auto& [state, next] : storage_.copies) copies_.push_back({pointer(state), pointer(next), bytes_of(graph_.value(state))});
}

void ProgramPart::set_external(ValueId v, void* memory) {
  const int s = storage_.of[static_cast<size_t>(v)];
  if (s < 0) return;
  pointers_[static_cast<size_t>(s)] = memory;
  if (!connected_) return;
  for (size_t i = 0; i < copies_.size(); ++i)
    if (storage_.of[static_cast<size_t>(storage_.copies[i].second)] == s) copies_[i].from = memory;
  for (const Patch& p : patches_[s]) {
    if (p.output) steps_[p.step].outputs[p.index] = memory;
    else steps_[p.step].inputs[p.index] = memory;
  }
}

bool ProgramPart::writes_in_place(size_t step, ValueId state) const {
  const int at = storage_.of[static_cast<size_t>(state)];
  for (ValueId v : graph_.node(steps_[step].node).outputs)
    if (v != kNoValue && at >= 0 && storage_.of[static_cast<size_t>(v)] == at) return true;
  return false;
}

}  // namespace eng
