// See export_model.h.
#include "importers/onnx/export_model.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "importers/onnx/tensor_proto.h"

namespace eng {

namespace {

constexpr int64_t kEngineOpset = 1;

// The oldest IR version that may import an opset (ONNX's version table; 10 carries opset 21).
int64_t ir_for(int64_t opset) { return opset <= 22 ? 10 : opset == 23 ? 11 : opset == 24 ? 12 : opset <= 27 ? 13 : 14; }

// Names that a sub-graph takes from around it: values that nothing inside gives.
void captured_names(const Graph& graph, std::unordered_set<std::string>& out) {
  for (NodeId id : graph.live_nodes())
    for (const auto& [name, attribute] : graph.node(id).attributes) {
      const auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (!inner) continue;
      for (ValueId v = 0; v < (*inner)->value_count(); ++v) {
        const Value& value = (*inner)->value(v);
        if (value.role == Role::kActivation && value.producer == kNoNode) out.insert(value.name);
      }
      captured_names(**inner, out);
    }
}

// Which values are read by a live node, a sub-graph, an output or an update.
std::vector<char> used_values(const Graph& graph) {
  std::vector<char> used(static_cast<size_t>(graph.value_count()), 0);
  auto use = [&](ValueId v) { if (v != kNoValue) used[static_cast<size_t>(v)] = 1; };
  for (NodeId id : graph.live_nodes())
    for (ValueId v : graph.node(id).inputs) use(v);
  for (ValueId v : graph.outputs) use(v);
  for (auto [state, next] : graph.updates) use(state), use(next);
  std::unordered_set<std::string> captured;
  captured_names(graph, captured);
  for (const std::string& name : captured) use(graph.find_value(name));
  return used;
}

bool has_content(const Value& v) { return v.role != Role::kActivation && v.role != Role::kInput; }

class Writer {
 public:
  explicit Writer(const TensorWriter& write) : write_(write) {}
  std::set<std::string> domains;

  Status graph(const Graph& g, bool top, onnx::GraphProto& out) {
    out.set_name(g.name.empty() ? "graph" : g.name);
    if (!top && !g.doc.empty()) out.set_doc_string(g.doc);
    const std::vector<char> used = used_values(g);
    for (ValueId v = 0; v < g.value_count(); ++v) {
      const Value& value = g.value(v);
      if (!has_content(value) || !used[static_cast<size_t>(v)]) continue;
      // A state without content starts at zero (graph/surgery/optimizer.h).
      if (!value.data && (value.role != Role::kState || !value.has_shape)) return internal_error("'", value.name, "' is given with the graph but has no content");
      auto* tensor = out.add_initializer();
      ENG_TRY(write_(value.data ? *value.data : Tensor(value.dtype, value.shape), value.name, *tensor));
      if (!value.doc.empty()) tensor->set_doc_string(value.doc);
    }
    for (ValueId v : g.inputs) ENG_TRY(info(g.value(v), top, *out.add_input()));
    ENG_ASSIGN(const std::vector<NodeId> order, g.topological_order());
    for (NodeId id : order) ENG_TRY(node(g, g.node(id), *out.add_node()).in(g.label(id)));
    std::vector<ValueId> outputs = g.outputs;
    for (auto [state, next] : g.updates)
      if (std::find(outputs.begin(), outputs.end(), next) == outputs.end()) outputs.push_back(next);
    for (ValueId v : outputs) ENG_TRY(info(g.value(v), top, *out.add_output()));
    return {};
  }

 private:
  static Status info(const Value& v, bool top, onnx::ValueInfoProto& out) {
    out.set_name(v.name);
    if (!v.doc.empty()) out.set_doc_string(v.doc);
    if (v.dtype == DType::kUndefined) {
      if (top) return unsupported("'", v.name, "' is an input or output whose element type is not known; the graph cannot be written");
      return {};
    }
    auto* type = out.mutable_type()->mutable_tensor_type();
    type->set_elem_type(static_cast<int32_t>(v.dtype));
    const bool declared = !v.declared_dims.empty() && (!v.has_shape || v.declared_dims.size() == v.shape.size());
    if (!declared && !v.has_shape) return {};
    auto* shape = type->mutable_shape();
    const std::vector<int64_t>& dims = declared ? v.declared_dims : v.shape;
    for (size_t i = 0; i < dims.size(); ++i) {
      auto* dim = shape->add_dim();
      if (dims[i] >= 0) dim->set_dim_value(dims[i]);
      else if (i < v.declared_dim_names.size() && !v.declared_dim_names[i].empty()) dim->set_dim_param(v.declared_dim_names[i]);
    }
    return {};
  }

  Status node(const Graph& g, const Node& n, onnx::NodeProto& out) {
    domains.insert(n.domain);
    out.set_op_type(n.op_type);
    if (!n.domain.empty()) out.set_domain(n.domain);
    if (!n.name.empty()) out.set_name(n.name);
    if (!n.doc.empty()) out.set_doc_string(n.doc);
    for (ValueId v : n.inputs) out.add_input(v == kNoValue ? "" : g.value(v).name);
    for (ValueId v : n.outputs) out.add_output(v == kNoValue ? "" : g.value(v).name);
    for (const auto& [name, value] : n.attributes) {
      auto* a = out.add_attribute();
      ENG_TRY(std::visit([&](const auto& x) { return attribute(x, name, *a); }, value));
      a->set_name(name);
    }
    return {};
  }

  using A = onnx::AttributeProto;
  Status attribute(int64_t x, const std::string&, A& a) { a.set_type(A::INT), a.set_i(x); return {}; }
  Status attribute(float x, const std::string&, A& a) { a.set_type(A::FLOAT), a.set_f(x); return {}; }
  Status attribute(const std::string& x, const std::string&, A& a) {
    const std::string mark = kSerializedAttribute;
    if (x.compare(0, mark.size(), mark) == 0 && a.ParseFromString(x.substr(mark.size()))) return {};
    a.Clear();
    a.set_type(A::STRING), a.set_s(x);
    return {};
  }
  Status attribute(const std::vector<int64_t>& x, const std::string&, A& a) { a.set_type(A::INTS), a.mutable_ints()->Add(x.begin(), x.end()); return {}; }
  Status attribute(const std::vector<float>& x, const std::string&, A& a) { a.set_type(A::FLOATS), a.mutable_floats()->Add(x.begin(), x.end()); return {}; }
  Status attribute(const std::vector<std::string>& x, const std::string&, A& a) {
    a.set_type(A::STRINGS);
    for (const std::string& s : x) a.add_strings(s);
    return {};
  }
  Status attribute(const Tensor& x, const std::string& name, A& a) {
    a.set_type(A::TENSOR);
    return encode_tensor(x, name, *a.mutable_t());
  }
  Status attribute(const std::shared_ptr<Graph>& x, const std::string&, A& a) {
    a.set_type(A::GRAPH);
    return graph(*x, false, *a.mutable_g());
  }

  const TensorWriter& write_;
};

}  // namespace

Status build_model(const Graph& g, const TensorWriter& write, onnx::ModelProto& model) {
  ENG_TRY(verify(g));
  Writer writer(write);
  ENG_TRY(writer.graph(g, true, *model.mutable_graph()));
  writer.domains.insert("");
  int64_t opset = kCanonicalOpset;
  for (const std::string& domain : writer.domains) {
    auto version = g.opsets.find(domain);
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    if (version != g.opsets.end()) import->set_version(version->second);
    else if (domain == kEngineDomain) import->set_version(kEngineOpset);
    else if (domain.empty()) import->set_version(kCanonicalOpset);
    else return invalid("the graph has nodes of the domain '", domain, "' but imports no opset of it");
    if (domain.empty()) opset = import->version();
  }
  model.set_ir_version(std::max(g.ir_version, ir_for(opset)));
  if (!g.doc.empty()) model.set_doc_string(g.doc);
  if (!g.producer_name.empty()) model.set_producer_name(g.producer_name);
  if (!g.producer_version.empty()) model.set_producer_version(g.producer_version);
  if (!g.model_domain.empty()) model.set_domain(g.model_domain);
  if (g.model_version) model.set_model_version(g.model_version);
  std::map<std::string, std::string> metadata = g.metadata;
  for (auto [state, next] : g.updates) metadata["update:" + g.value(state).name] = g.value(next).name;
  for (const auto& [key, value] : metadata) {
    auto* pair = model.add_metadata_props();
    pair->set_key(key);
    pair->set_value(value);
  }
  return {};
}

int64_t initializer_bytes(const Graph& graph) {
  const std::vector<char> used = used_values(graph);
  int64_t total = 0;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (used[static_cast<size_t>(v)] && has_content(graph.value(v)) && graph.value(v).data) total += static_cast<int64_t>(graph.value(v).data->byte_count());
  return total;
}

}  // namespace eng
