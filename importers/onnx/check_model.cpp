// See check_model.h.
#include "importers/onnx/check_model.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "importers/onnx/adapters.h"
#include "importers/onnx/limits.h"
#include "importers/onnx/tensor_proto.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace eng {
namespace {

using onnx::OpSchema;
using onnx::OpSchemaRegistry;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Opsets = std::unordered_map<std::string, int64_t>;

class Checker {
 public:
  void model(const onnx::ModelProto& m);
  Status status() const {
    if (count_ == 0) return {};
    std::string text;
    for (const std::string& p : problems_) text += (text.empty() ? "" : "\n  ") + p;
    if (count_ > static_cast<int64_t>(problems_.size())) text += cat("\n  and ", count_ - static_cast<int64_t>(problems_.size()), " more");
    return Status(Code::kInvalid, count_ == 1 ? text : cat(count_, " problems:\n  ", text));
  }
  std::vector<std::string> warnings;

 private:
  // The names that are known at one level; the levels around a sub-graph are readable from inside it.
  struct Level {
    std::unordered_set<std::string_view> names;
    const Level* outer = nullptr;
    bool has(std::string_view name) const { return names.count(name) || (outer && outer->has(name)); }
  };

  template <class... Args>
  void problem(const Args&... args) {
    if (++count_ <= onnx_limits::kReportedProblems) problems_.push_back(cat(args...));
  }
  template <class Imports>
  Opsets read_opsets(const Imports& imports, const std::string& where);
  void graph(const onnx::GraphProto& g, const Level* outer, const Opsets& opsets, const std::string& where);
  void nodes(const Nodes& list, Level& level, const Opsets& opsets, const std::string& where);
  void undefined_inputs(const Nodes& list, const std::vector<std::pair<int, std::string_view>>& undefined, const std::string& where);
  void node(const onnx::NodeProto& n, const Level& level, const Opsets& opsets);
  void call(const onnx::NodeProto& n, const std::string& domain, int64_t version);

  std::unordered_set<std::string> functions_;
  std::vector<std::string> problems_;
  int64_t count_ = 0;
};

void Checker::model(const onnx::ModelProto& m) {
  if (m.ir_version() < onnx_limits::kOldestIr || m.ir_version() > onnx::IR_VERSION) {
    problem("the file has IR version ", m.ir_version(), "; ", onnx_limits::kOldestIr, " to ", static_cast<int>(onnx::IR_VERSION), " are read");
    return;
  }
  const Opsets opsets = read_opsets(m.opset_import(), "");
  for (const auto& f : m.functions())
    if (!functions_.insert(plain_domain(f.domain()) + "::" + f.name() + ":" + f.overload()).second)
      problem("the function ", shown_name(f.domain()), "::", shown_name(f.name()), " is defined twice");
  if (count_) return;  // without sound versions every node would be reported
  graph(m.graph(), nullptr, opsets, "");
  for (const auto& f : m.functions()) {
    const std::string where = cat("function '", shown_name(f.name()), "': ");
    const Opsets own = read_opsets(f.opset_import(), where);
    Level level;
    for (const auto& name : f.input())
      if (!level.names.insert(name).second) problem(where, "two inputs are named '", shown_name(name), "'");
    nodes(f.node(), level, own, where);
    for (const auto& name : f.output())
      if (!level.names.count(name)) problem(where, "output '", shown_name(name), "' is given by no node");
  }
  for (const auto& t : m.training_info()) {  // kept out of the model, but no less suspect
    if (t.has_initialization()) graph(t.initialization(), nullptr, opsets, "training_info: ");
    Level main;
    for (const auto& i : m.graph().input()) main.names.insert(i.name());
    for (const auto& i : m.graph().initializer()) main.names.insert(i.name());
    for (const auto& n : m.graph().node()) main.names.insert(n.output().begin(), n.output().end());
    if (t.has_algorithm()) graph(t.algorithm(), &main, opsets, "training_info: ");
  }
}

template <class Imports>
Opsets Checker::read_opsets(const Imports& imports, const std::string& where) {
  Opsets opsets;
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (const auto& o : imports) {
    const std::string domain = plain_domain(o.domain());
    const std::string shown = domain.empty() ? "ai.onnx" : shown_name(domain);
    if (!opsets.emplace(domain, o.version()).second && opsets[domain] != o.version())
      problem(where, "two opset versions are imported for the domain '", shown, "'");
    auto range = known.find(domain);
    if (o.version() < 1) problem(where, "opset ", o.version(), " of the domain '", shown, "' cannot be");
    else if (range != known.end() && o.version() > range->second.second)
      problem(where, "opset ", o.version(), " of the domain '", shown, "' is not known; the newest known is ", range->second.second,
              ". Export the model for that opset, or use a newer release");
  }
  return opsets;
}

void Checker::graph(const onnx::GraphProto& g, const Level* outer, const Opsets& opsets, const std::string& where) {
  Level level;
  level.outer = outer;
  auto add_initializer = [&](const std::string& name) {
    if (name.empty()) problem(where, "an initializer has no name");
    else if (!level.names.insert(name).second) problem(where, "two initializers are named '", shown_name(name), "'");
  };
  for (const auto& t : g.initializer()) add_initializer(t.name());
  for (const auto& t : g.sparse_initializer()) add_initializer(t.values().name());
  std::unordered_set<std::string_view> inputs;
  for (const auto& i : g.input()) {
    if (i.name().empty()) problem(where, "a graph input has no name");
    else if (!inputs.insert(i.name()).second) problem(where, "two graph inputs are named '", shown_name(i.name()), "'");
    level.names.insert(i.name());
  }
  nodes(g.node(), level, opsets, where);
  if (g.output().empty() && !outer) warnings.push_back(where + "the graph has no outputs");
  for (const auto& o : g.output()) {
    if (!level.has(o.name())) problem(where, "graph output '", shown_name(o.name()), "' is given by no node, input or initializer");
  }
}

void Checker::nodes(const Nodes& list, Level& level, const Opsets& opsets, const std::string& where) {
  std::vector<std::pair<int, std::string_view>> undefined;
  const std::unordered_set<std::string_view> given = level.names;
  for (int i = 0; i < list.size(); ++i) {
    const auto& n = list[i];
    if (n.op_type().empty()) problem(where, "node ", i, " has no operator type");
    for (const auto& name : n.input())
      if (!name.empty() && !level.has(name)) undefined.emplace_back(i, name);
    node(n, level, opsets);
    for (const auto& name : n.output()) {
      if (name.empty() || level.names.insert(name).second) continue;
      if (given.count(name)) problem(where, label_of(n), " writes '", shown_name(name), "', which is also a graph input or an initializer");
      else problem(where, label_of(n), " writes '", shown_name(name), "', which another node writes too");
    }
  }
  if (!undefined.empty()) undefined_inputs(list, undefined, where);
}

// A name that is not known where it is read: nothing makes it, or a later node does. Later nodes are a cycle or a wrong order.
void Checker::undefined_inputs(const Nodes& list, const std::vector<std::pair<int, std::string_view>>& undefined, const std::string& where) {
  std::unordered_map<std::string_view, int> makers;
  for (int i = 0; i < list.size(); ++i)
    for (const auto& name : list[i].output())
      if (!name.empty()) makers.emplace(name, i);
  std::vector<std::vector<int>> readers(static_cast<size_t>(list.size()));
  std::vector<int> waiting(static_cast<size_t>(list.size()), 0), ready;
  for (int i = 0; i < list.size(); ++i) {
    for (const auto& name : list[i].input()) {
      auto maker = makers.find(name);
      if (name.empty() || maker == makers.end()) continue;
      readers[static_cast<size_t>(maker->second)].push_back(i);
      ++waiting[static_cast<size_t>(i)];
    }
    if (waiting[static_cast<size_t>(i)] == 0) ready.push_back(i);
  }
  for (size_t next = 0; next < ready.size(); ++next)
    for (int r : readers[static_cast<size_t>(ready[next])])
      if (--waiting[static_cast<size_t>(r)] == 0) ready.push_back(r);
  std::string cycle;
  int shown = 0;
  for (int i = 0; i < list.size() && shown < 8; ++i)
    if (waiting[static_cast<size_t>(i)] > 0) cycle += (shown++ ? ", " : "") + label_of(list[i]);
  if (!cycle.empty()) problem(where, "the graph has a cycle; it runs through or feeds: ", cycle);
  for (auto [i, name] : undefined) {
    auto maker = makers.find(name);
    const std::string text = shown_name(std::string(name));
    if (maker == makers.end()) problem(where, label_of(list[i]), " reads '", text, "', which no node, input or initializer gives");
    else if (cycle.empty())
      problem(where, "the nodes are not sorted: ", label_of(list[i]), " (node ", i, ") reads '", text, "', which ", label_of(list[maker->second]), " (node ",
              maker->second, ") makes only later. Sort the nodes so that producers come first");
  }
}

void Checker::node(const onnx::NodeProto& n, const Level& level, const Opsets& opsets) {
  const std::string domain = plain_domain(n.domain());
  std::unordered_set<std::string_view> seen;
  for (const auto& a : n.attribute()) {
    if (a.name().empty()) problem(label_of(n), ": an attribute has no name");
    if (!seen.insert(a.name()).second) problem(label_of(n), ": the attribute '", shown_name(a.name()), "' is there twice");
    const std::string where = cat(label_of(n), ", attribute '", shown_name(a.name()), "': ");
    if (a.has_g()) graph(a.g(), &level, opsets, where);
    for (const auto& g : a.graphs()) graph(g, &level, opsets, where);
  }
  if (functions_.count(domain + "::" + n.op_type() + ":" + n.overload())) return;
  auto version = opsets.find(domain);
  if (version == opsets.end()) problem(label_of(n), ": no opset is imported for its domain '", domain.empty() ? "ai.onnx" : shown_name(domain), "'");
  else call(n, domain, version->second);
}

// Inputs, outputs and attributes against the operator's schema. Operators without one stay, to be listed as not supported.
void Checker::call(const onnx::NodeProto& n, const std::string& domain, int64_t version) {
  const OpSchema* schema = OpSchemaRegistry::Schema(n.op_type(), static_cast<int>(version), domain);
  if (!schema) {
    const OpSchema* later = domain.empty() ? OpSchemaRegistry::Schema(n.op_type(), domain) : nullptr;
    if (later) problem(label_of(n), ": the operator does not exist in opset ", version, " (it appears later, version ", later->since_version(), " is the newest)");
    return;
  }
  if (domain.empty() && version < 7) {
    const OpSchema* at_7 = OpSchemaRegistry::Schema(n.op_type(), 7, domain);
    if (at_7 && !onnx_adapters::reads_old_form(n.op_type(), version, schema->since_version(), at_7->since_version())) {
      problem(label_of(n), ": its form of opset ", version, " is too old to be read. Raise the model to opset 7 or newer with onnx.version_converter");
      return;
    }
  }
  if (schema->Deprecated() && n.op_type() == "GroupNormalization") return;  // group-wise scales; its adapter reads them
  try {
    schema->Verify(n);
  } catch (const std::exception& e) {
    problem(label_of(n), ": ", std::string(e.what()).substr(0, 300));
  }
}

}  // namespace

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string label_of(const onnx::NodeProto& n) {
  const std::string domain = plain_domain(n.domain());
  const std::string op = shown_name((domain.empty() ? "" : domain + "::") + n.op_type());
  if (!n.name().empty()) return op + " '" + shown_name(n.name()) + "'";
  for (const auto& o : n.output())
    if (!o.empty()) return op + " with output '" + shown_name(o) + "'";
  return op + " without outputs";
}

Status check_model(const onnx::ModelProto& model, std::vector<std::string>* warnings) {
  Checker checker;
  checker.model(model);
  if (warnings) warnings->insert(warnings->end(), checker.warnings.begin(), checker.warnings.end());
  return checker.status();
}

}  // namespace eng
