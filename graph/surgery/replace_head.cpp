// See replace_head.h.
#include "graph/surgery/replace_head.h"

#include <algorithm>
#include <cmath>

#include "graph/ops/op.h"
#include "graph/passes/dead_code.h"
#include "graph/surgery/training_step.h"

namespace eng {
namespace {

// Uniform in [-limit, limit), element by element from a counter (splitmix64), so the same seed gives the same weights.
Tensor glorot(DType type, const Shape& shape, double fan_in, double fan_out, uint64_t seed) {
  Tensor t(type, shape);
  const double limit = std::sqrt(6.0 / (fan_in + fan_out));
  for (int64_t i = 0; i < t.element_count(); ++i) {
    uint64_t z = seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(i + 1) * 0xd1b54a32d192ed03ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    t.set(i, (2 * (static_cast<double>(z >> 11) * 0x1p-53) - 1) * limit);
  }
  return t;
}

bool from_file(const Graph& g, ValueId v) { return v != kNoValue && g.value(v).data && g.value(v).producer == kNoNode; }

struct Head {
  NodeId node = kNoNode;             // Gemm, MatMul or Conv
  NodeId bias_add = kNoNode;         // Add behind a MatMul
  std::vector<NodeId> reshapes;      // between head and output
  NodeId activation = kNoNode;       // Softmax, LogSoftmax or Sigmoid there
  std::string path;                  // "MatMul -> Add -> Softmax"
};

// Walks back from the output to the last node that bears weights.
Result<Head> find_head(const Graph& g, ValueId target) {
  static const char* const kPassed[] = {"Softmax", "LogSoftmax", "Sigmoid", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
                                        "Cast", "Relu", "GlobalAveragePool", "AveragePool", "Dropout"};
  Head head;
  ValueId v = target;
  auto refuse = [&](const std::string& what) {
    return unsupported("the classifier in front of output '", g.value(target).name, "' was not recognised: ", what,
                       head.path.empty() ? "" : " (behind it: " + head.path + ")", ". Name the node behind which the model is to be cut: --cut-at NODE");
  };
  for (;;) {
    const NodeId p = g.value(v).producer;
    if (p == kNoNode) return refuse("the walk from the output reaches '" + g.value(v).name + "' without meeting a weight");
    const Node& n = g.node(p);
    head.path = n.op_type + (head.path.empty() ? "" : " -> " + head.path);
    if (!n.domain.empty()) return refuse(g.label(p) + " stands there");
    if (n.op_type == "Gemm" || n.op_type == "MatMul" || n.op_type == "Conv") {
      ValueId w = n.inputs[1];
      while (!from_file(g, w) && g.value(w).producer != kNoNode && (g.node(g.value(w).producer).op_type == "Transpose" || g.node(g.value(w).producer).op_type == "Identity"))
        w = g.node(g.value(w).producer).inputs[0];
      if (!from_file(g, w)) return refuse(g.label(p) + " has no weights of its own");
      head.node = p;
      return head;
    }
    if (n.op_type == "Add") {
      const bool second = from_file(g, n.inputs[1]);
      if (!second && !from_file(g, n.inputs[0])) return refuse(g.label(p) + " joins two branches");
      if (head.bias_add != kNoNode) return refuse("two additions follow the weights");
      head.bias_add = p;
      v = n.inputs[second ? 0 : 1];
      continue;
    }
    if (std::find(std::begin(kPassed), std::end(kPassed), n.op_type) == std::end(kPassed)) return refuse(g.label(p) + " stands there");
    if (n.op_type == "Reshape") head.reshapes.push_back(p);
    if (n.op_type == "Softmax" || n.op_type == "LogSoftmax" || n.op_type == "Sigmoid") head.activation = p;
    v = n.inputs[0];
  }
}

// `old`'s shape with the extent `from` on `axis` replaced.
Shape with_extent(Shape shape, size_t axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

void drop_if_unused(Graph& g, ValueId v) {
  if (v == kNoValue || !from_file(g, v) || !g.uses()[static_cast<size_t>(v)].empty() || g.is_output(v)) return;
  g.value(v).role = Role::kActivation;
  g.value(v).data = nullptr;
}

ValueId insert_dropout(Graph& g, ValueId v, double ratio) {
  const ValueId r = g.add_tensor("head/dropout_ratio", Tensor::scalar(DType::kFloat32, ratio), Role::kConstant);
  return g.node(g.add_node("", "Dropout", {v, r}, 1, {}, "head/dropout")).outputs[0];
}

void declare_output(Graph& g, ValueId target, const Shape& before, const Shape& after) {
  Value& v = g.value(target);
  if (v.declared_dims.size() != after.size()) {
    v.declared_dims.assign(after.begin(), after.end());
    v.declared_dims[0] = -1;
    v.declared_dim_names.assign(after.size(), "");
    v.declared_dim_names[0] = "N";
    return;
  }
  for (size_t i = 1; i < after.size(); ++i)
    if (i >= before.size() || before[i] != after[i]) v.declared_dims[i] = after[i];
}

Result<Graph> probe(const Graph& model, ValueId target, const ShapeBinding& binding, const Evaluator& evaluator) {
  ENG_ASSIGN(Step step, build_prediction_step(model, binding, model.value(target).name, evaluator));
  return std::move(step.graph);
}

// One score has a sigmoid, several that had been one have a softmax; what several had stays. What was changed, for the report.
std::string refit_activation(Graph& g, const Head& head, int64_t old_classes, int64_t classes) {
  if (head.activation == kNoNode || (old_classes == 1) == (classes == 1)) return "";
  Node& n = g.node(head.activation);
  const std::string wanted = classes == 1 ? "Sigmoid" : "Softmax";
  if (n.op_type == wanted) return "";
  const std::string before = n.op_type;
  n.op_type = wanted;
  n.attributes = {};
  return cat(", ", wanted, " instead of ", before);
}

// Fresh weights in the node that was found.
Status refit(Graph& g, const Head& head, const Graph& sizes, const HeadOptions& options, HeadReport& report) {
  const Node n = g.node(head.node);
  const Shape w = sizes.value(n.inputs[1]).shape;
  const DType type = sizes.value(n.inputs[1]).dtype;
  const bool convolution = n.op_type == "Conv", transposed = n.op_type == "Gemm" && n.attributes.get_int("transB", 0) != 0;
  if (w.size() < 2) return unsupported(g.label(head.node), ": its weights have shape ", w, "; at least two dimensions were expected");
  if (convolution && n.attributes.get_int("group", 1) != 1) return unsupported(g.label(head.node), ": a grouped convolution cannot be replaced as a head; use --cut-at");
  const size_t axis = convolution || transposed ? 0 : w.size() - 1;
  report.old_classes = w[axis];
  const Shape fresh = with_extent(w, axis, options.classes);
  const double per_class = static_cast<double>(element_count(w)) / static_cast<double>(w[axis]);
  const ValueId kernel = g.add_tensor("head/kernel", glorot(type, fresh, per_class, static_cast<double>(options.classes), options.seed), Role::kParameter);
  report.new_parameters.push_back(g.value(kernel).name);
  std::vector<ValueId> old{n.inputs[1]};
  g.node(head.node).inputs[1] = kernel;

  auto fresh_bias = [&](NodeId node, size_t input) {
    const ValueId before = g.node(node).inputs[input];
    Shape shape = sizes.value(before).shape;
    for (int64_t& d : shape)
      if (d == report.old_classes) d = options.classes;
    const ValueId bias = g.add_tensor("head/bias", Tensor(sizes.value(before).dtype, shape), Role::kParameter);
    report.new_parameters.push_back(g.value(bias).name);
    old.push_back(before);
    g.node(node).inputs[input] = bias;
  };
  if (n.op_type != "MatMul" && n.inputs.size() > 2 && n.inputs[2] != kNoValue) fresh_bias(head.node, 2);
  if (head.bias_add != kNoNode) fresh_bias(head.bias_add, from_file(g, g.node(head.bias_add).inputs[1]) ? 1 : 0);
  for (NodeId r : head.reshapes) {
    const Tensor* shape = g.constant(g.node(r).inputs[1]);
    if (!shape) continue;
    std::vector<int64_t> dims = shape->to_ints();
    for (int64_t& d : dims)
      if (d == report.old_classes) d = options.classes;
    g.node(r).inputs[1] = g.add_tensor("head/shape", Tensor::ints(dims), Role::kConstant);
  }
  if (options.dropout > 0) g.node(head.node).inputs[0] = insert_dropout(g, n.inputs[0], options.dropout);
  for (ValueId v : old) {
    report.old_parameters.push_back(g.value(v).name);
    drop_if_unused(g, v);
  }
  const std::string activation = refit_activation(g, head, report.old_classes, options.classes);
  report.found = cat("the classifier ", head.path, " at ", g.label(head.node), " with ", report.old_classes, " classes");
  report.cut = cat("weights ", w, head.bias_add != kNoNode || (n.op_type != "MatMul" && n.inputs.size() > 2) ? " and bias" : "", " of ", report.old_classes, " classes");
  report.put = cat("fresh weights ", fresh, " for ", options.classes, options.classes == 1 ? " class" : " classes", " (Glorot uniform, seed ", options.seed, ")", activation, options.dropout > 0 ? cat(", dropout ", options.dropout, " in front") : "");
  return {};
}

// A new dense head behind a named node.
Status append(Graph& g, ValueId target, const Graph& sizes, const HeadOptions& options, HeadReport& report) {
  ValueId v = g.find_value(options.cut_at);
  for (NodeId n : g.live_nodes())
    if (g.node(n).name == options.cut_at && !g.node(n).outputs.empty()) v = g.node(n).outputs[0];
  if (v == kNoValue || g.value(v).producer == kNoNode) return not_found("--cut-at '", options.cut_at, "': the model has no node and no computed value of that name; engine-graph draw shows them");
  if (!sizes.value(v).has_shape) return invalid("--cut-at '", options.cut_at, "': output '", g.value(target).name, "' does not depend on it");
  const Shape shape = sizes.value(v).shape;
  const DType type = sizes.value(v).dtype;
  if (v == target) {  // cut behind the last node: its result gets a name of its own, the output is the new head's
    Node& last = g.node(g.value(v).producer);
    const NodeId id = g.value(v).producer;
    const ValueId features = g.add_value(g.value(v).name + "/features");
    std::replace(last.outputs.begin(), last.outputs.end(), v, features);
    g.replace_uses(v, features);
    std::replace(g.outputs.begin(), g.outputs.end(), features, v);
    g.value(features).producer = id;
    g.value(features).producer_output = g.value(v).producer_output;
    g.value(v).producer = kNoNode;
    v = features;
  }
  if (shape.size() < 2) return invalid("--cut-at '", options.cut_at, "': its result has shape ", shape, "; a batch of features is needed");
  const std::string where = g.label(g.value(v).producer);
  ValueId x = v;
  if (shape.size() > 2 && element_count(shape) != shape[0] * shape[1]) x = g.node(g.add_node("", "GlobalAveragePool", {x}, 1, {}, "head/pool")).outputs[0];
  if (shape.size() > 2) {
    Attributes axis;
    axis.set("axis", int64_t{1});
    x = g.node(g.add_node("", "Flatten", {x}, 1, axis, "head/flatten")).outputs[0];
  }
  if (options.dropout > 0) x = insert_dropout(g, x, options.dropout);
  const ValueId kernel = g.add_tensor("head/kernel", glorot(type, {shape[1], options.classes}, static_cast<double>(shape[1]), static_cast<double>(options.classes), options.seed), Role::kParameter);
  const ValueId bias = g.add_tensor("head/bias", Tensor(type, {options.classes}), Role::kParameter);
  const ValueId scores = g.node(g.add_node("", "Gemm", {x, kernel, bias}, 1, {}, "head/dense")).outputs[0];
  if (g.value(target).producer != kNoNode) g.remove_node(g.value(target).producer);
  Node last;
  last.op_type = options.classes == 1 ? "Sigmoid" : "Softmax";
  if (options.classes > 1) last.attributes.set("axis", int64_t{-1});
  last.name = "head/scores";
  last.inputs = {scores};
  last.outputs = {target};
  const std::string activation = last.op_type;
  g.add_node(std::move(last));
  report.new_parameters = {g.value(kernel).name, g.value(bias).name};
  report.found = cat(where, " with result ", shape);
  report.put = cat(shape.size() > 2 ? "average pool, " : "", options.dropout > 0 ? cat("dropout ", options.dropout, ", ") : "", "dense layer [", shape[1], ",", options.classes, "] (Glorot uniform, seed ", options.seed, "), ", activation);
  return {};
}

}  // namespace

Result<HeadReport> replace_head(Graph& model, const HeadOptions& options, const ShapeBinding& binding, const Evaluator& evaluator) {
  if (options.classes < 1) return usage_error("--replace-head ", options.classes, ": at least one class is needed");
  ENG_ASSIGN(ValueId target, find_target(model, options.target));
  ENG_ASSIGN(Graph sizes, probe(model, target, binding, evaluator));
  const Shape before = sizes.value(target).shape;
  Graph g = model;
  HeadReport report;
  const int nodes_before = static_cast<int>(g.live_nodes().size());
  if (options.cut_at.empty()) {
    ENG_ASSIGN(Head head, find_head(g, target));
    ENG_TRY(refit(g, head, sizes, options, report));
  } else {
    ENG_TRY(append(g, target, sizes, options, report));
    ENG_ASSIGN(int removed, dead_code(g));
    const auto uses = g.uses();
    for (ValueId v = 0; v < g.value_count(); ++v) {
      if (!from_file(g, v) || !uses[static_cast<size_t>(v)].empty() || g.is_output(v)) continue;
      if (g.value(v).role == Role::kParameter) report.old_parameters.push_back(g.value(v).name);
      drop_if_unused(g, v);
    }
    report.cut = cat(removed + 1, " of ", nodes_before, " nodes behind it, with ", report.old_parameters.size(), " weights");
  }
  auto after = probe(g, target, binding, evaluator);
  if (!after.ok()) return after.status().in("the model with the new head does not work out (try --cut-at)");
  const Shape shape = after->value(target).shape;
  if (shape.size() < 2 || element_count(shape) != shape[0] * options.classes)
    return unsupported("with the new head, output '", model.value(target).name, "' has shape ", shape, " instead of one row of ", options.classes, " scores a sample; use --cut-at NODE");
  declare_output(g, target, before, shape);
  ENG_TRY(g.compact());
  model = std::move(g);
  return report;
}

}  // namespace eng
