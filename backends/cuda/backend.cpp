// The plugin's one exported function: its tables, and the kernels of kernel_list.cpp wrapped as ABI descriptors.
#include <deque>

#include "backends/abi/backend.hpp"
#include "backends/cuda/kernel.h"

struct eb_kernel {
  std::unique_ptr<eng::cuda::Kernel> impl;
  std::string name;  // for error messages: "Conv 'stem/conv1' (cudnn)"
  eb_device* device = nullptr;
  uint32_t input_count = 0, output_count = 0;
};

namespace eng::cuda {
namespace {

const KernelDef& def_of(const eb_kernel_desc* self) { return *static_cast<const KernelDef*>(self->user_data); }

int32_t can_run(const eb_kernel_desc* self, const eb_device*, const eb_node* node, eb_error* error) {
  return guard(error, [&] {
    const KernelDef& def = def_of(self);
    const NodeView view(*node);
    const int32_t type = view.input_count() && view.in(0).present() ? view.in(0).dtype : view.out(0).dtype;
    if (!(def.types >> type & 1)) throw Failure(EB_UNSUPPORTED, "element type " + std::to_string(type) + " is not handled");
    for (int i = 0; i < view.input_count() && i < 64; ++i)
      if ((def.host_inputs >> i & 1) && view.in(i).present() && !view.host(i))
        throw Failure(EB_UNSUPPORTED, "input " + std::to_string(i) + " must be known before the step");
    const std::string reason = def.can_run ? def.can_run(view) : require_row_major(view);
    if (!reason.empty()) throw Failure(EB_UNSUPPORTED, reason);
  });
}

int32_t create(const eb_kernel_desc* self, eb_device* device, const eb_node* node, eb_kernel** kernel, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device);
    const NodeView view(*node);
    auto k = std::make_unique<eb_kernel>();
    k->impl = def_of(self).create(view, device);
    if (!k->impl) throw Failure(EB_UNSUPPORTED, "the kernel cannot be made for these operands");
    k->name = std::string(view.op()) + " '" + std::string(view.name()) + "' (" + def_of(self).name + ")";
    k->device = device;
    k->input_count = node->input_count;
    k->output_count = node->output_count;
    *kernel = k.release();
  });
}

int32_t workspace(const eb_kernel* kernel, uint64_t* bytes, eb_error*) {
  *bytes = kernel->impl->workspace();
  return EB_OK;
}

int32_t run(eb_kernel* kernel, eb_stream* stream, const void* const* inputs, void* const* outputs, void* space, eb_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(stream->device);
    try {
      stream->trace.around(stream->stream, EB_SPAN_KERNEL, kernel, 0, [&] {
        kernel->impl->run({inputs, outputs, kernel->input_count, kernel->output_count, space, stream->stream, kernel->device});
      });
    } catch (const Failure& e) {
      throw Failure(e.code, kernel->name + ": " + e.what());
    }
  });
}

void destroy(eb_kernel* kernel) {
  (void)guard(nullptr, [&] {
    const DeviceScope scope(kernel->device);
    kernel->impl.reset();
  });
  delete kernel;
}

const void* query(eb_string name, int32_t minor) {
  if (eb::view(name) == "collectives" && minor <= kCollectives.minor) return &kCollectives;
  if (eb::view(name) == "profiler" && minor <= kProfiler.minor) return &kProfiler;
  return nullptr;
}

struct Table {
  std::deque<eb_kernel_desc> descriptors;
  std::deque<std::vector<eb_alias>> aliases;
  std::vector<const eb_kernel_desc*> pointers;
  eb_backend_table table{};
  Table() {
    for (const KernelDef* def : all_kernels()) {
      std::vector<eb_alias>& list = aliases.emplace_back();
      for (const Alias& a : def->aliases) list.push_back({sizeof(eb_alias), a.kind, a.output, a.input});
      eb_kernel_desc d{};
      d.struct_size = sizeof d;
      d.opset_min = 1;
      d.alias_count = static_cast<uint32_t>(list.size());
      d.domain = eb::str(def->domain);
      d.op_type = eb::str(def->op);
      d.name = eb::str(def->name);
      d.types = def->types;
      d.host_inputs = def->host_inputs;
      d.aliases = list.data();
      d.user_data = def;
      d.can_run = can_run;
      d.create = create;
      d.workspace = workspace;
      d.run = run;
      d.destroy = destroy;
      pointers.push_back(&descriptors.emplace_back(d));
    }
    table = {sizeof(eb_backend_table), EB_ABI_MAJOR, EB_ABI_MINOR, static_cast<uint32_t>(pointers.size()), eb::str("cuda"), eb::str("0.1.0"),
             &kCore, &kMemory, &kStreams, pointers.data(), query};
  }
};

}  // namespace
}  // namespace eng::cuda

extern "C" __attribute__((visibility("default"))) const eb_backend_table* eb_get_backend(void) {
  static const eng::cuda::Table instance;
  return &instance.table;
}
