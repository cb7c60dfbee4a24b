// See convert.h: nodes, attributes, constants.
#include "graph/ops/op.h"
#include "importers/onnx/adapters.h"
#include "importers/onnx/check_model.h"
#include "importers/onnx/convert.h"

namespace eng {


Status OnnxConverter::emit(const onnx::NodeProto& proto, Scope& scope) {
  if (++emitted_ > onnx_limits::kNodes)
    return invalid("with its functions expanded the model has more than ", onnx_limits::kNodes, " nodes, the most that is read");
  if (const auto* function = local_function(proto)) return expand_local(*function, proto, scope);
  const std::string domain = plain_domain(proto.domain());
  if (domain.empty() && proto.op_type() == "Constant") return emit_constant(proto, scope);
  auto import = scope.opsets.find(domain);
  const int64_t version = import == scope.opsets.end() ? kCanonicalOpset : import->second;
  if (domain.empty()) newest_opset_ = std::max(newest_opset_, version);
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(proto.op_type(), static_cast<int>(version), domain);
  const bool adapted = domain.empty() && (version < 7 || onnx_adapters::has_adapter(proto.op_type(), version));
  if (schema && !adapted && !find_op(domain, proto.op_type())) {
    ENG_ASSIGN(const bool done, expand_schema(*schema, version, proto, scope));
    if (done) return {};
  }
  Graph& graph = scope.graph;
  Node node;
  node.domain = domain;
  node.op_type = proto.op_type();
  node.name = proto.name().empty() ? "" : scope.prefix + proto.name();
  node.doc = proto.doc_string();
  for (const auto& name : proto.input()) {
    ENG_ASSIGN(const ValueId v, find(name, scope));
    node.inputs.push_back(v);
  }
  for (const auto& name : proto.output()) node.outputs.push_back(output(name, scope));
  ENG_TRY(read_attributes(proto, scope, node.attributes));
  if (schema) set_types(proto, *schema, graph, node);
  onnx_adapters::Raise raise{.graph = graph, .node = node, .opset = version, .dims_of = [&](ValueId v) { return dims_of(graph, v); }, .after = {}};
  if (adapted) ENG_TRY(onnx_adapters::raise(raise));
  while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
  while (node.outputs.size() > 1 && node.outputs.back() == kNoValue) node.outputs.pop_back();
  graph.add_node(std::move(node));
  for (Node& next : raise.after) graph.add_node(std::move(next));
  return {};
}

Result<ValueId> OnnxConverter::find(const std::string& name, Scope& scope) {
  if (name.empty()) return kNoValue;
  auto here = scope.names.find(name);
  if (here != scope.names.end()) return here->second;
  if (!scope.outer) return internal_error("'", shown_name(name), "' is read before it is given");
  ENG_ASSIGN(const ValueId outside, find(name, *scope.outer));
  if (outside == kNoValue) return kNoValue;
  // A value of the enclosing graph: here it stands without producer, under the same name.
  const Value& original = scope.outer->graph.value(outside);
  if (scope.graph.find_value(original.name) != kNoValue)
    return unsupported("'", shown_name(original.name), "' is a name of a sub-graph and of the graph around it, and both are read there");
  const ValueId v = scope.graph.add_value(original.name, original.dtype);
  scope.names[name] = v;
  return v;
}

ValueId OnnxConverter::output(const std::string& name, Scope& scope) {
  if (name.empty()) return kNoValue;
  auto known = scope.names.find(name);  // made beforehand in a graph
  if (known != scope.names.end()) return known->second;
  auto result = scope.results.find(name);
  const ValueId v = result != scope.results.end() ? result->second : scope.graph.add_value(scope.prefix + name);
  scope.names[name] = v;
  return v;
}

// Element types of the outputs by the schema: that of the input with the same type letter, the one fixed type, or Cast's `to`.
void OnnxConverter::set_types(const onnx::NodeProto& proto, const onnx::OpSchema& schema, Graph& graph, const Node& node) {
  auto formal = [](const auto& list, size_t i) -> const onnx::OpSchema::FormalParameter* {
    return list.empty() ? nullptr : &list[std::min(i, list.size() - 1)];
  };
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const auto* out = formal(schema.outputs(), o);
    if (node.outputs[o] == kNoValue || !out || !out->GetIsHomogeneous()) continue;  // Loop and Scan mix types under one letter
    DType type = DType::kUndefined;
    for (size_t i = 0; i < node.inputs.size() && type == DType::kUndefined; ++i) {
      const auto* in = formal(schema.inputs(), i);
      if (in && node.inputs[i] != kNoValue && in->GetTypeStr() == out->GetTypeStr()) type = graph.value(node.inputs[i]).dtype;
    }
    if (type == DType::kUndefined && out->GetTypes().size() == 1) {
      static const std::map<std::string, DType> fixed = {{"tensor(bool)", DType::kBool}, {"tensor(int64)", DType::kInt64}, {"tensor(float)", DType::kFloat32},
                                                         {"tensor(int32)", DType::kInt32}, {"tensor(uint8)", DType::kUint8}};
      auto it = fixed.find(**out->GetTypes().begin());
      if (it != fixed.end()) type = it->second;
    }
    if (type == DType::kUndefined && proto.op_type() == "Cast") type = static_cast<DType>(node.attributes.get_int("to", 0));
    if (type == DType::kUndefined && proto.op_type() == "CastLike" && node.inputs.size() > 1) type = graph.value(node.inputs[1]).dtype;
    if (type == DType::kUndefined && proto.op_type() == "ConstantOfShape") {
      const Tensor* value = node.attributes.find<Tensor>("value");
      type = value ? value->dtype() : DType::kFloat32;
    }
    graph.value(node.outputs[o]).dtype = type;
  }
}

Status OnnxConverter::emit_constant(const onnx::NodeProto& proto, Scope& scope) {
  const onnx::AttributeProto* content = nullptr;
  for (const auto& a : proto.attribute()) {
    const auto* given = resolve(a, scope);
    if (given && content) return invalid(label_of(proto), ": has two values");
    if (given) content = given;
  }
  if (!content) return invalid(label_of(proto), ": has no value");
  if (proto.output_size() != 1 || proto.output(0).empty()) return invalid(label_of(proto), ": must have one output");
  Tensor tensor;
  ENG_TRY(read_constant(*content, tensor).in(label_of(proto)));
  const std::string& name = proto.output(0);
  auto known = scope.names.find(name);
  const ValueId v = known != scope.names.end() ? known->second : scope.graph.add_value(scope.prefix + name);
  Value& value = scope.graph.value(v);
  warn_not_finite(value.name, tensor);
  value.role = Role::kConstant;
  value.dtype = tensor.dtype();
  value.shape = tensor.shape();
  value.has_shape = true;
  value.doc = proto.doc_string();
  value.data = std::make_shared<const Tensor>(std::move(tensor));
  scope.names[name] = v;
  return {};
}

Status OnnxConverter::read_constant(const onnx::AttributeProto& a, Tensor& out) {
  using onnx::AttributeProto;
  switch (a.type()) {
    case AttributeProto::TENSOR: { ENG_ASSIGN(out, decode_tensor(a.t(), &external_)); return {}; }
    case AttributeProto::SPARSE_TENSOR: { ENG_ASSIGN(out, decode_sparse(a.sparse_tensor(), &external_, sparse_budget_)); return {}; }
    case AttributeProto::FLOAT: out = Tensor::scalar(DType::kFloat32, a.f()); return {};
    case AttributeProto::INT: out = Tensor::of<int64_t>({}, {a.i()}); return {};
    case AttributeProto::FLOATS: out = Tensor::of<float>({a.floats_size()}, {a.floats().begin(), a.floats().end()}); return {};
    case AttributeProto::INTS: out = Tensor::ints({a.ints().begin(), a.ints().end()}); return {};
    case AttributeProto::STRING: out = Tensor(DType::kString, {}); return {};
    case AttributeProto::STRINGS: out = Tensor(DType::kString, {}).reshaped({a.strings_size()}); return {};
    default: return invalid("the attribute '", shown_name(a.name()), "' has a kind that a constant cannot have");
  }
}

const onnx::AttributeProto* OnnxConverter::resolve(const onnx::AttributeProto& a, const Scope& scope) {
  if (a.ref_attr_name().empty()) return &a;
  for (const Scope* s = &scope; s; s = s->outer) {
    if (!s->arguments) continue;
    auto given = s->arguments->find(a.ref_attr_name());
    return given == s->arguments->end() ? nullptr : given->second;
  }
  return nullptr;
}

Status OnnxConverter::read_attributes(const onnx::NodeProto& proto, Scope& scope, Attributes& out) {
  for (const auto& a : proto.attribute()) {
    const auto* given = resolve(a, scope);
    if (!given) continue;
    const std::string where = cat(label_of(proto), ", attribute '", shown_name(a.name()), "'");
    auto value = read_attribute(*given, scope);
    if (!value.ok()) return value.status().in(where);
    out.set(a.name(), std::move(*value));
  }
  return {};
}

Result<Attribute> OnnxConverter::read_attribute(const onnx::AttributeProto& a, Scope& scope) {
  using onnx::AttributeProto;
  switch (a.type()) {
    case AttributeProto::FLOAT: return Attribute(a.f());
    case AttributeProto::INT: return Attribute(static_cast<int64_t>(a.i()));
    case AttributeProto::STRING: return Attribute(a.s());
    case AttributeProto::FLOATS: return Attribute(std::vector<float>(a.floats().begin(), a.floats().end()));
    case AttributeProto::INTS: return Attribute(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case AttributeProto::STRINGS: return Attribute(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    case AttributeProto::TENSOR: {
      ENG_ASSIGN(Tensor tensor, decode_tensor(a.t(), &external_));
      return Attribute(std::move(tensor));
    }
    case AttributeProto::GRAPH: {
      auto inner = std::make_shared<Graph>();
      Scope inside{.graph = *inner, .opsets = scope.opsets, .outer = &scope};
      inside.function_depth = scope.function_depth;
      ENG_TRY(convert_graph(a.g(), inside));
      return Attribute(std::move(inner));
    }
    case AttributeProto::UNDEFINED: return invalid("has no kind (AttributeProto.type is missing)");
    default:
      ENG_TRY(check_unused(a));
      return Attribute(kSerializedAttribute + a.SerializeAsString());
  }
}

}  // namespace eng
