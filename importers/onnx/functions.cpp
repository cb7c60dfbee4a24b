// See convert.h: functions are expanded where they are called. Names inside get the call's label in front, so that they stay unique.
#include "graph/ops/op.h"
#include "importers/onnx/adapters.h"
#include "importers/onnx/check_model.h"
#include "importers/onnx/convert.h"

namespace eng {
namespace {

// Whether every operator of the body is known, or has such a body itself.
bool leads_to_known(const onnx::FunctionProto& function, int64_t version, int depth) {
  if (depth > onnx_limits::kFunctionDepth) return false;
  for (const auto& o : function.opset_import())
    if (plain_domain(o.domain()).empty()) version = o.version();
  for (const auto& n : function.node()) {
    const std::string domain = plain_domain(n.domain());
    if (domain.empty() && n.op_type() == "Constant") continue;
    if (find_op(domain, n.op_type())) continue;
    const auto* schema = onnx::OpSchemaRegistry::Schema(n.op_type(), static_cast<int>(version), domain);
    if (!schema) return false;
    if (schema->HasContextDependentFunction()) continue;  // depends on types; found out when it is reached
    const auto* body = schema->HasFunction() ? schema->GetFunction(static_cast<int>(version)) : nullptr;
    if (!body || !leads_to_known(*body, version, depth + 1)) return false;
  }
  return true;
}

onnx::TypeProto type_of(const Graph& graph, ValueId v) {
  onnx::TypeProto type;
  if (v == kNoValue || graph.value(v).dtype == DType::kUndefined) return type;
  type.mutable_tensor_type()->set_elem_type(static_cast<int32_t>(graph.value(v).dtype));
  if (!graph.value(v).has_shape) return type;
  auto* shape = type.mutable_tensor_type()->mutable_shape();
  for (int64_t d : graph.value(v).shape) shape->add_dim()->set_dim_value(d);
  return type;
}

}  // namespace

const onnx::FunctionProto* OnnxConverter::local_function(const onnx::NodeProto& proto) const {
  if (functions_.empty()) return nullptr;
  auto it = functions_.find(plain_domain(proto.domain()) + "::" + proto.op_type() + ":" + proto.overload());
  return it == functions_.end() ? nullptr : it->second;
}

Status OnnxConverter::expand_local(const onnx::FunctionProto& function, const onnx::NodeProto& call, Scope& scope) {
  Arguments arguments;
  for (const auto& a : function.attribute_proto()) arguments[a.name()] = &a;
  for (const auto& a : call.attribute()) {
    if (const auto* given = resolve(a, scope)) arguments[a.name()] = given;
    else arguments.erase(a.name());
  }
  return expand(function, arguments, call, scope);
}

Result<bool> OnnxConverter::expand_schema(const onnx::OpSchema& schema, int64_t version, const onnx::NodeProto& call, Scope& scope) {
  if (scope.function_depth >= onnx_limits::kFunctionDepth) return false;
  const int opset = static_cast<int>(version);
  Arguments arguments;
  for (const auto& [name, attribute] : schema.attributes())
    if (attribute.default_value.has_type() && attribute.default_value.type() != onnx::AttributeProto::UNDEFINED) arguments[name] = &attribute.default_value;
  onnx::NodeProto resolved = call;
  resolved.clear_attribute();
  for (const auto& a : call.attribute()) {
    const auto* given = resolve(a, scope);
    if (!given) continue;
    auto* copy = resolved.add_attribute();
    *copy = *given;
    copy->set_name(a.name());
  }
  for (const auto& a : resolved.attribute()) arguments[a.name()] = &a;
  onnx::FunctionProto built;
  const onnx::FunctionProto* body = nullptr;
  try {
    if (schema.HasContextDependentFunction()) {
      std::vector<onnx::TypeProto> types;
      for (const auto& name : call.input()) {
        ENG_ASSIGN(const ValueId v, find(name, scope));
        types.push_back(type_of(scope.graph, v));
        if (v != kNoValue && types.back().value_case() == onnx::TypeProto::VALUE_NOT_SET) return false;  // some builders do not ask twice
      }
      onnx::FunctionBodyBuildContextImpl context(resolved, types);
      if (schema.BuildContextDependentFunction(context, built, opset)) body = &built;
    } else if (schema.HasFunction()) {
      body = schema.GetFunction(opset);
    }
  } catch (const std::exception& e) {
    warnings.push_back(cat(label_of(call), ": its function body cannot be built: ", e.what()));
    return false;
  }
  auto own = scope.opsets.find("");
  if (!body || !leads_to_known(*body, own == scope.opsets.end() ? kCanonicalOpset : own->second, scope.function_depth)) return false;
  ENG_TRY(expand(*body, arguments, call, scope));
  return true;
}

Status OnnxConverter::expand(const onnx::FunctionProto& function, const Arguments& arguments, const onnx::NodeProto& call, Scope& scope) {
  if (scope.function_depth >= onnx_limits::kFunctionDepth)
    return invalid(label_of(call), ": functions call each other in a circle, or more than ", onnx_limits::kFunctionDepth, " levels deep");
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    return invalid(label_of(call), ": the call has ", call.input_size(), " inputs and ", call.output_size(), " outputs, the function has ",
                   function.input_size(), " and ", function.output_size());
  Scope body{.graph = scope.graph};
  body.arguments = &arguments;
  body.function_depth = scope.function_depth + 1;
  for (const auto& o : function.opset_import()) body.opsets[plain_domain(o.domain())] = o.version();
  for (const auto& [domain, v] : scope.opsets) body.opsets.emplace(domain, v);
  body.opsets.emplace("", kCanonicalOpset);
  std::string tag = call.name();
  for (int i = 0; tag.empty() && i < call.output_size(); ++i) tag = call.output(i);
  body.prefix = scope.prefix + tag + "/";
  if (static_cast<int64_t>(body.prefix.size()) > onnx_limits::kNameBytes) return invalid(label_of(call), ": names inside nested functions grow too long");
  for (int i = 0; i < function.input_size(); ++i) {
    ENG_ASSIGN(const ValueId v, find(i < call.input_size() ? call.input(i) : "", scope));
    body.names[function.input(i)] = v;
  }
  std::vector<ValueId> results;
  for (int i = 0; i < call.output_size(); ++i) {
    results.push_back(output(call.output(i), scope));
    if (results.back() != kNoValue) body.results[function.output(i)] = results.back();
  }
  for (const auto& n : function.node()) ENG_TRY(emit(n, body).in(label_of(call)));
  for (int i = 0; i < call.output_size(); ++i) {  // an output that is an input or a constant of the function
    if (results[static_cast<size_t>(i)] == kNoValue) continue;
    ENG_ASSIGN(const ValueId made, find(function.output(i), body));
    if (made == results[static_cast<size_t>(i)] || made == kNoValue) continue;
    Node copy;
    copy.op_type = "Identity";
    copy.inputs = {made};
    copy.outputs = {results[static_cast<size_t>(i)]};
    scope.graph.value(results[static_cast<size_t>(i)]).dtype = scope.graph.value(made).dtype;
    scope.graph.add_node(std::move(copy));
  }
  return {};
}

}  // namespace eng
