// Keras's layers to the graph's nodes and arrays to their inputs, with the change of arrangement. The rule stands in weights.h.
// A new kind of layer: a row in kSlots and, where its arrays lie otherwise, a case in arrange().
#include <algorithm>
#include <cstring>

#include "engine/io/file.h"
#include "importers/weights/plan.h"

namespace eng {
namespace {

enum class Kind : uint8_t { kConvKernel, kDepthwiseKernel, kDenseKernel, kVector };

// Which input of which operator takes which array. `fallback` is what Keras means where the array is not stored.
struct SlotRow {
  const char* op_type;
  size_t input;
  const char* array;
  Kind kind;
  double fallback;
  bool optional;
};
constexpr SlotRow kSlots[] = {
    {"Conv", 1, "kernel", Kind::kConvKernel, 0, false},
    {"Conv", 1, "depthwise_kernel", Kind::kDepthwiseKernel, 0, false},
    {"Conv", 2, "bias", Kind::kVector, 0, true},
    {"Gemm", 1, "kernel", Kind::kDenseKernel, 0, false},
    {"Gemm", 2, "bias", Kind::kVector, 0, true},
    {"MatMul", 1, "kernel", Kind::kDenseKernel, 0, false},
    {"Add", 1, "bias", Kind::kVector, 0, true},
    {"BatchNormalization", 1, "gamma", Kind::kVector, 1, true},
    {"BatchNormalization", 2, "beta", Kind::kVector, 0, true},
    {"BatchNormalization", 3, "moving_mean", Kind::kVector, 0, false},
    {"BatchNormalization", 4, "moving_variance", Kind::kVector, 1, false},
    {"PRelu", 1, "alpha", Kind::kVector, 0, false},
};

using Arrays = std::vector<std::pair<std::string, Tensor>>;

const Tensor* find(const Arrays& arrays, const std::string& name) {
  for (const auto& [key, tensor] : arrays)
    if (key == name) return &tensor;
  return nullptr;
}

// The operator that a layer with these arrays becomes.
bool fits_operator(const Arrays& arrays, const std::string& op_type) {
  if (find(arrays, "moving_mean") || find(arrays, "moving_variance")) return op_type == "BatchNormalization";
  if (find(arrays, "depthwise_kernel")) return op_type == "Conv";
  if (find(arrays, "alpha")) return op_type == "PRelu";
  if (const Tensor* kernel = find(arrays, "kernel")) {
    size_t rank = kernel->shape().size();
    return rank == 2 ? op_type == "Gemm" || op_type == "MatMul" : op_type == "Conv";
  }
  return (find(arrays, "gamma") || find(arrays, "beta")) && op_type == "BatchNormalization";
}

bool has_part(const std::string& name, const std::string& part) {
  for (size_t at = name.find(part); at != std::string::npos; at = name.find(part, at + 1)) {
    size_t end = at + part.size();
    if ((at == 0 || name[at - 1] == '/') && (end == name.size() || name[end] == '/')) return true;
  }
  return false;
}

bool begins_with_layer(const std::string& name, const std::string& layer) {
  return name.size() > layer.size() && name.starts_with(layer) && std::strchr("./_:", name[layer.size()]) != nullptr;
}

// The node for a layer, kNoNode where there is none; an error where several fit equally.
Result<NodeId> find_node(const Graph& graph, const std::string& layer, const Arrays& arrays) {
  std::vector<NodeId> exact, part, weight;
  for (NodeId id : graph.live_nodes()) {
    const Node& node = graph.node(id);
    if (!fits_operator(arrays, node.op_type) || node.inputs.size() < 2 || !is_weight(graph, node.inputs[1])) continue;
    if (node.name == layer) exact.push_back(id);
    if (has_part(node.name, layer)) part.push_back(id);
    bool by_weight = false;
    for (size_t i = 1; i < node.inputs.size(); ++i)
      by_weight = by_weight || (node.inputs[i] != kNoValue && begins_with_layer(graph.value(node.inputs[i]).name, layer));
    if (by_weight) weight.push_back(id);
  }
  for (const auto* found : {&exact, &part, &weight}) {
    if (found->size() == 1) return found->front();
    if (found->size() < 2) continue;
    // The same weight used at several places is one layer.
    auto same = [&](NodeId id) { return graph.node(id).inputs[1] == graph.node(found->front()).inputs[1]; };
    if (std::all_of(found->begin(), found->end(), same)) return found->front();
    return invalid("layer '", printable(layer), "' fits several nodes: ", graph.label((*found)[0]), ", ", graph.label((*found)[1]));
  }
  return kNoNode;
}

// out[i0,i1,...] = in[index of axis order]; axis d of out is axis order[d] of in.
Tensor permuted(const Tensor& in, const std::vector<size_t>& order) {
  size_t rank = order.size();
  Shape shape(rank);
  std::vector<int64_t> in_strides = row_major_strides(in.shape()), index(rank, 0);
  for (size_t d = 0; d < rank; ++d) shape[d] = in.shape()[order[d]];
  Tensor out(DType::kFloat32, shape);
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) {
    int64_t from = 0;
    for (size_t d = 0; d < rank; ++d) from += index[d] * in_strides[order[d]];
    out.mutable_data<float>()[i] = in.data<float>()[from];
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

// Every kernel turned by 180 degrees: Theano's convolution is the mathematical one.
Tensor turned(const Tensor& in) {
  Tensor out = in.clone();
  int64_t area = 1;
  for (size_t d = 2; d < in.shape().size(); ++d) area *= in.shape()[d];
  for (int64_t i = 0, n = in.element_count(); i < n; ++i) out.mutable_data<float>()[i] = in.data<float>()[i / area * area + (area - 1 - i % area)];
  return out;
}

// Puts an array into the model's order of axes. What does not fit comes back in that order all the same, for the comparison.
Tensor arrange(const Tensor& array, Kind kind, const Node& node, const Shape& wanted, bool theano) {
  size_t rank = array.shape().size();
  if (kind == Kind::kConvKernel && rank >= 3) {
    std::vector<size_t> order{rank - 1, rank - 2};
    for (size_t d = 0; d + 2 < rank; ++d) order.push_back(d);
    Tensor usual = permuted(array, order);
    if (usual.shape() != wanted && array.shape() == wanted) return theano ? turned(array) : array;
    return theano ? turned(usual) : usual;
  }
  if (kind == Kind::kDepthwiseKernel && rank == 4) {  // (h, w, in, multiplier) -> (in * multiplier, 1, h, w)
    const Shape& s = array.shape();
    return permuted(array, {2, 3, 0, 1}).reshaped({s[2] * s[3], 1, s[0], s[1]});
  }
  if (kind == Kind::kDenseKernel && rank == 2 && node.op_type == "Gemm" && node.attributes.get_int("transB", 0)) return permuted(array, {1, 0});
  // A vector may stand in the model with leading or trailing ones: PRelu's slope, an Add's bias.
  if (kind == Kind::kVector && array.shape() != wanted && element_count(wanted) == array.element_count()) return array.reshaped(wanted);
  return array;
}

// The Add that gives a MatMul its bias: the only reader of its output, with a weight as the other operand.
std::pair<NodeId, size_t> bias_add(const Graph& graph, NodeId matmul) {
  const Node& node = graph.node(matmul);
  NodeId found = kNoNode;
  size_t input = 0;
  for (NodeId id : graph.live_nodes()) {
    const Node& add = graph.node(id);
    if (add.op_type != "Add" || add.inputs.size() != 2) continue;
    for (size_t side : {size_t{0}, size_t{1}})
      if (add.inputs[1 - side] == node.outputs[0] && is_weight(graph, add.inputs[side])) {
        found = id;
        input = side;
      }
  }
  return {found, input};
}

class LayerPlanner {
 public:
  LayerPlanner(const Graph& graph, bool theano, LoadPlan& plan) : graph_(graph), theano_(theano), plan_(plan) {}

  Status layer(const std::string& name, const Arrays& arrays) {
    ENG_ASSIGN(NodeId id, find_node(graph_, name, arrays));
    if (id == kNoNode) {
      plan_.report.only_in_file.push_back(name);
      return {};
    }
    const Node& node = graph_.node(id);
    bool depthwise = find(arrays, "depthwise_kernel") != nullptr;
    std::vector<std::string> used;
    for (const SlotRow& slot : kSlots) {
      if (node.op_type != slot.op_type || (slot.input == 1 && node.op_type == "Conv" && depthwise != (slot.kind == Kind::kDepthwiseKernel))) continue;
      ENG_TRY(fill(name, arrays, node, slot, slot.input, used));
    }
    if (node.op_type == "MatMul") {
      auto [add, side] = bias_add(graph_, id);
      if (add != kNoNode) ENG_TRY(fill(name, arrays, graph_.node(add), kSlots[6], side, used));
    }
    for (const auto& [array, tensor] : arrays)
      if (std::find(used.begin(), used.end(), array) == used.end())
        return invalid("layer '", printable(name), "' has an array '", printable(array), "' ", tensor.shape(), " for which ", graph_.label(node),
                       " has no input");
    return {};
  }

 private:
  Status fill(const std::string& layer, const Arrays& arrays, const Node& node, const SlotRow& slot, size_t input, std::vector<std::string>& used) {
    ValueId value = input < node.inputs.size() ? node.inputs[input] : kNoValue;
    const Tensor* array = find(arrays, slot.array);
    if (value == kNoValue) return {};  // an array without its input is found out by layer()
    if (!is_weight(graph_, value))
      return invalid("input ", input, " of ", graph_.label(node), " is computed, so layer '", printable(layer), "' cannot give it its ", slot.array);
    const Value& target = graph_.value(value);
    Assignment a;
    a.value = value;
    a.layer = a.group = layer;
    a.tensor_name = slot.array;
    if (array) {
      used.push_back(slot.array);
      a.file_shape = array->shape();
      a.content = arrange(*array, slot.kind, node, target.data->shape(), theano_);
    } else if (slot.optional) {
      a.content = Tensor(DType::kFloat32, target.data->shape());
      for (int64_t i = 0; i < a.content.element_count(); ++i) a.content.set(i, slot.fallback);
      a.file_shape = target.data->shape();
      a.freeze = true;
      plan_.report.defaults.push_back(cat(printable(layer), ": no ", slot.array, " in the file, ", slot.fallback, " is used for '", target.name,
                                          "' and not trained"));
    } else {
      return invalid("layer '", printable(layer), "' lacks its array '", slot.array, "', which ", graph_.label(node), " needs");
    }
    plan_.assignments.push_back(std::move(a));
    return {};
  }

  const Graph& graph_;
  bool theano_;
  LoadPlan& plan_;
};

}  // namespace

Status plan_keras(const Graph& graph, const KerasWeights& weights, LoadPlan& plan) {
  LayerPlanner planner(graph, weights.backend == "theano", plan);
  for (const auto& [layer, arrays] : weights.layers) ENG_TRY(planner.layer(layer, arrays));
  return {};
}

}  // namespace eng
