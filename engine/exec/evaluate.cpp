// See evaluate.h.
#include "engine/exec/evaluate.h"

namespace eng {

Result<std::vector<Tensor>> evaluate_node(const std::shared_ptr<Device>& device, const Graph& graph, NodeId id, const std::vector<Tensor>& inputs) {
  const Node& node = graph.node(id);
  ENG_ASSIGN(DeviceKernel kernel, DeviceKernel::create(device, graph, node));
  std::vector<DeviceBuffer> buffers;
  std::vector<const void*> in(node.inputs.size(), nullptr);
  std::vector<void*> out(node.outputs.size(), nullptr);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device, inputs[i].byte_count()));
    ENG_TRY(device->copy_to_device(b.data(), inputs[i].bytes(), inputs[i].byte_count()));
    in[i] = b.data();
    buffers.push_back(std::move(b));
  }
  std::vector<Tensor> results(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    results[i] = Tensor(graph.value(node.outputs[i]).dtype, graph.value(node.outputs[i]).shape);
    ENG_ASSIGN(DeviceBuffer b, DeviceBuffer::allocate(device, results[i].byte_count()));
    out[i] = b.data();
    buffers.push_back(std::move(b));
  }
  ENG_ASSIGN(DeviceBuffer workspace, DeviceBuffer::allocate(device, kernel.workspace()));
  ENG_TRY(kernel.run(in.data(), out.data(), workspace.data()));
  for (size_t i = 0; i < results.size(); ++i)
    if (out[i]) ENG_TRY(device->copy_to_host(results[i].mutable_bytes(), out[i], results[i].byte_count()));
  ENG_TRY(device->synchronize());
  return results;
}

Evaluator evaluator_on(const std::shared_ptr<Device>& device) {
  return [device](const Graph& g, NodeId n, const std::vector<Tensor>& inputs) { return evaluate_node(device, g, n, inputs); };
}

Result<std::vector<Tensor>> evaluate(const std::shared_ptr<Device>& device, Graph& graph, const std::map<ValueId, Tensor>& feeds,
                                     const std::vector<ValueId>& wanted) {
  for (const auto& [id, tensor] : feeds) {
    Value& v = graph.value(id);
    v.dtype = tensor.dtype();
    v.shape = tensor.shape();
    v.has_shape = true;
  }
  ENG_TRY(infer_shapes(graph, evaluator_on(device)));
  std::map<ValueId, Tensor> content = feeds;
  auto read = [&](ValueId v) -> Result<Tensor> {
    if (v == kNoValue) return Tensor();
    auto it = content.find(v);
    if (it != content.end()) return it->second;
    if (graph.value(v).data) return *graph.value(v).data;
    return invalid("no content is given for '", graph.value(v).name, "'");
  };
  ENG_ASSIGN(std::vector<NodeId> order, graph.topological_order());
  for (NodeId n : order) {
    std::vector<Tensor> inputs;
    for (ValueId v : graph.node(n).inputs) {
      ENG_ASSIGN(Tensor t, read(v));
      inputs.push_back(std::move(t));
    }
    ENG_ASSIGN(std::vector<Tensor> results, evaluate_node(device, graph, n, inputs));
    for (size_t i = 0; i < results.size(); ++i)
      if (graph.node(n).outputs[i] != kNoValue) content[graph.node(n).outputs[i]] = results[i];
  }
  std::vector<Tensor> out;
  for (ValueId v : wanted) {
    ENG_ASSIGN(Tensor t, read(v));
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace eng
