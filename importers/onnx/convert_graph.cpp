// See convert.h: graphs, their inputs, outputs and initializers.
#include <cstring>
#include <set>
#include <unordered_set>

#include "importers/onnx/check_model.h"
#include "importers/onnx/convert.h"
#include "onnx/shape_inference/implementation.h"

namespace eng {
namespace {

// Domains of the live nodes, sub-graphs included.
void collect_domains(const Graph& graph, std::set<std::string>& out) {
  for (NodeId n = 0; n < graph.node_count(); ++n) {
    out.insert(graph.node(n).domain);
    for (const auto& [name, attribute] : graph.node(n).attributes)
      if (const auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute)) collect_domains(**inner, out);
  }
}

template <class Word>
bool any_with_full_exponent(const Tensor& t, Word mask) {
  const auto* p = reinterpret_cast<const Word*>(t.bytes());
  const size_t n = t.byte_count() / sizeof(Word);
  Word found = 0;
  for (size_t i = 0; i < n; ++i) found |= (p[i] & mask) == mask;
  return found != 0;
}

}  // namespace

Result<Graph> OnnxConverter::run() {
  for (const auto& f : model_.functions()) functions_[plain_domain(f.domain()) + "::" + f.name() + ":" + f.overload()] = &f;
  Graph graph;
  Scope scope{.graph = graph};
  for (const auto& o : model_.opset_import()) scope.opsets[plain_domain(o.domain())] = o.version();
  graph.doc = model_.doc_string();
  graph.ir_version = model_.ir_version();
  graph.producer_name = model_.producer_name();
  graph.producer_version = model_.producer_version();
  graph.model_domain = model_.domain();
  graph.model_version = model_.model_version();
  for (const auto& pair : model_.metadata_props()) graph.metadata[pair.key()] = pair.value();
  infer_dims();
  ENG_TRY(convert_graph(model_.graph(), scope));
  for (const auto& f : model_.functions())
    for (const auto& n : f.node())
      for (const auto& a : n.attribute()) ENG_TRY(check_unused(a).in(cat("function '", shown_name(f.name()), "', ", label_of(n))));
  for (const auto& t : model_.training_info()) {
    ENG_TRY(check_unused(t.initialization()).in("training_info"));
    ENG_TRY(check_unused(t.algorithm()).in("training_info"));
  }
  if (model_.training_info_size() > 0) warnings.push_back("the file's training_info is not used");
  graph.opsets.clear();
  for (const auto& o : model_.opset_import()) graph.file_opsets[plain_domain(o.domain())] = o.version();
  std::set<std::string> domains;
  collect_domains(graph, domains);
  for (const auto& [domain, version] : scope.opsets)
    if (domains.count(domain)) graph.opsets[domain] = version;
  for (const auto& f : model_.functions())
    for (const auto& o : f.opset_import())
      if (domains.count(plain_domain(o.domain())) && !graph.opsets.count(plain_domain(o.domain()))) graph.opsets[plain_domain(o.domain())] = o.version();
  graph.opsets[""] = newest_opset_;
  ENG_TRY(verify(graph));
  return graph;
}

Status OnnxConverter::convert_graph(const onnx::GraphProto& proto, Scope& scope) {
  Graph& graph = scope.graph;
  if (!proto.name().empty()) graph.name = proto.name();
  if (scope.outer || graph.doc.empty()) graph.doc = proto.doc_string();
  ENG_TRY(add_initializers(proto, scope));
  ENG_TRY(add_inputs(proto, scope));
  // All names of the file come first, so that a helper's name never takes one.
  for (const auto& node : proto.node())
    for (const auto& name : node.output())
      if (!name.empty()) scope.names[name] = graph.add_value(name);
  for (const auto& node : proto.node()) ENG_TRY(emit(node, scope));
  return set_outputs(proto, scope);
}

Status OnnxConverter::add_initializers(const onnx::GraphProto& proto, Scope& scope) {
  for (int i = 0; i < proto.initializer_size(); ++i) {
    const auto& t = proto.initializer(i);
    ENG_ASSIGN(Tensor tensor, decode_tensor(t, &external_));
    if (!scope.outer) model_.mutable_graph()->mutable_initializer(i)->clear_raw_data();  // never two copies of all weights
    warn_not_finite(t.name(), tensor);
    const ValueId v = scope.graph.add_tensor(t.name(), std::move(tensor), Role::kConstant);
    scope.graph.value(v).doc = t.doc_string();
    scope.names[t.name()] = v;
  }
  for (const auto& t : proto.sparse_initializer()) {
    ENG_ASSIGN(Tensor tensor, decode_sparse(t, &external_, sparse_budget_));
    scope.names[t.values().name()] = scope.graph.add_tensor(t.values().name(), std::move(tensor), Role::kConstant);
  }
  return {};
}

Status OnnxConverter::add_inputs(const onnx::GraphProto& proto, Scope& scope) {
  for (const auto& info : proto.input()) {
    if (scope.names.count(info.name())) continue;  // a default, as IR 3 lists every initializer
    const ValueId v = scope.graph.add_value(info.name());
    Value& value = scope.graph.value(v);
    value.role = Role::kInput;
    value.doc = info.doc_string();
    ENG_TRY(read_dims(info, value).in(cat("graph input '", shown_name(info.name()), "'")));
    scope.graph.inputs.push_back(v);
    scope.names[info.name()] = v;
  }
  return {};
}

Status OnnxConverter::set_outputs(const onnx::GraphProto& proto, Scope& scope) {
  for (const auto& info : proto.output()) {
    ENG_ASSIGN(const ValueId v, find(info.name(), scope));
    Value& value = scope.graph.value(v);
    if (value.role == Role::kActivation && value.declared_dims.empty()) {
      Value declared;
      ENG_TRY(read_dims(info, declared).in(cat("graph output '", shown_name(info.name()), "'")));
      value.declared_dims = declared.declared_dims;
      value.declared_dim_names = declared.declared_dim_names;
      if (declared.has_shape && declared.declared_dims.empty()) value.has_shape = true;  // a scalar has no dimensions to keep
      if (declared.dtype != DType::kUndefined) value.dtype = declared.dtype;
      if (!info.doc_string().empty()) value.doc = info.doc_string();
    }
    scope.graph.outputs.push_back(v);
  }
  return {};
}

// Type and dimensions as declared. has_shape is set where all of them are numbers.
Status OnnxConverter::read_dims(const onnx::ValueInfoProto& info, Value& value) {
  if (!info.type().has_tensor_type()) {
    if (info.has_type() && info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
      warnings.push_back(cat("'", shown_name(info.name()), "' is not a tensor (a sequence, map, optional or sparse tensor)"));
    return {};
  }
  const auto& type = info.type().tensor_type();
  value.dtype = static_cast<DType>(type.elem_type());
  if (!type.has_shape()) return {};
  bool known = true;
  for (const auto& dim : type.shape().dim()) {
    int64_t size = dim.has_dim_value() ? dim.dim_value() : -1;
    if (size < -1) return invalid("dimension ", value.declared_dims.size(), " is ", size);
    if (dim.has_dim_value() && size == -1) warnings.push_back(cat("'", shown_name(info.name()), "' has a dimension -1; it is taken as not known"));
    known &= size >= 0;
    value.declared_dims.push_back(size);
    value.declared_dim_names.push_back(size < 0 ? dim.dim_param() : "");
  }
  if (!known) return {};
  ENG_TRY(checked_element_count(value.declared_dims).status());
  value.shape = value.declared_dims;
  value.has_shape = true;
  return {};
}

Status OnnxConverter::check_unused(const onnx::GraphProto& graph) {
  for (const auto& t : graph.initializer()) ENG_TRY(decode_tensor(t, &external_).status());
  for (const auto& t : graph.sparse_initializer()) ENG_TRY(decode_sparse(t, &external_, sparse_budget_).status());
  for (const auto& n : graph.node())
    for (const auto& a : n.attribute()) ENG_TRY(check_unused(a).in(label_of(n)));
  return {};
}

Status OnnxConverter::check_unused(const onnx::AttributeProto& a) {
  if (a.has_t()) ENG_TRY(decode_tensor(a.t(), &external_).status());
  if (a.has_sparse_tensor()) ENG_TRY(decode_sparse(a.sparse_tensor(), &external_, sparse_budget_).status());
  for (const auto& t : a.tensors()) ENG_TRY(decode_tensor(t, &external_).status());
  for (const auto& t : a.sparse_tensors()) ENG_TRY(decode_sparse(t, &external_, sparse_budget_).status());
  if (a.has_g()) ENG_TRY(check_unused(a.g()));
  for (const auto& g : a.graphs()) ENG_TRY(check_unused(g));
  return {};
}

// Ranks by ONNX's own inference, asked for only where an old form cannot be read without them.
void OnnxConverter::infer_dims() {
  int64_t opset = 0;
  for (const auto& o : model_.opset_import())
    if (plain_domain(o.domain()).empty()) opset = o.version();
  bool wanted = false;
  for (const auto& n : model_.graph().node())
    wanted |= (opset < 13 && (n.op_type() == "Softmax" || n.op_type() == "LogSoftmax" || n.op_type() == "Hardmax")) ||
              (opset < 21 && n.op_type() == "GroupNormalization") || opset < 7;
  if (!wanted || model_.graph().node_size() > 50'000) return;
  try {
    const onnx::ShapeInferenceOptions options{/*check_type=*/false, /*strict_mode=*/0, /*data_prop=*/true};
    onnx::shape_inference::InferShapes(model_, onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception& e) {
    warnings.push_back(cat("ONNX's shape inference failed, shapes are found later: ", e.what()));
  }
  for (const auto* list : {&model_.graph().value_info(), &model_.graph().output()})
    for (const auto& info : *list) {
      if (!info.type().tensor_type().has_shape()) continue;
      auto& dims = inferred_[info.name()];
      dims.clear();
      for (const auto& d : info.type().tensor_type().shape().dim()) dims.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : -1);
    }
}

std::optional<std::vector<int64_t>> OnnxConverter::dims_of(const Graph& graph, ValueId v) const {
  if (v == kNoValue) return std::nullopt;
  const Value& value = graph.value(v);
  if (value.has_shape) return value.shape;
  if (!value.declared_dims.empty()) return value.declared_dims;
  auto known = inferred_.find(value.name);
  return known == inferred_.end() ? std::nullopt : std::optional(known->second);
}

void OnnxConverter::warn_not_finite(const std::string& name, const Tensor& t) {
  bool bad = false;
  switch (t.dtype()) {
    case DType::kFloat32: bad = any_with_full_exponent<uint32_t>(t, 0x7f800000u); break;
    case DType::kFloat64: bad = any_with_full_exponent<uint64_t>(t, 0x7ff0000000000000ull); break;
    case DType::kFloat16: bad = any_with_full_exponent<uint16_t>(t, 0x7c00u); break;
    case DType::kBFloat16: bad = any_with_full_exponent<uint16_t>(t, 0x7f80u); break;
    default: break;
  }
  if (bad) warnings.push_back(cat("tensor '", shown_name(name), "' holds NaN or infinity"));
}

}  // namespace eng
