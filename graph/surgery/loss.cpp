// See loss.h. A new loss: a row in kNames, its operator in graph/ops, a branch in attach_loss.
#include "graph/surgery/loss.h"

#include "graph/ops/op.h"

namespace eng {
namespace {

struct NamedLoss {
  const char* name;
  LossKind kind;
};
constexpr NamedLoss kNames[] = {
    {"auto", LossKind::kAuto},
    {"sparse_categorical_crossentropy", LossKind::kSparseCategorical},
    {"categorical_crossentropy", LossKind::kCategorical},
    {"binary_crossentropy", LossKind::kBinary},
    {"mean_squared_error", LossKind::kMeanSquaredError},
};

bool is_view(const std::string& op) {
  return op == "Identity" || op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze" || op == "Cast";
}

// Rows x columns where every other axis is 1: [N,C], [N,C,1,1], [N,1,C]; classes = 0 where the value has another form.
int64_t columns(const Graph& g, ValueId v) {
  const Shape& s = g.value(v).shape;
  if (s.empty() || s[0] == 0) return 0;
  int64_t wide = 0;
  for (size_t i = 1; i < s.size(); ++i)
    if (s[i] != 1) ++wide;
  return wide <= 1 ? element_count(s) / s[0] : 0;
}

struct Tail {
  std::string activation;  // "Softmax", "LogSoftmax", "Sigmoid" or ""
  ValueId logits = kNoValue;
};

// Whether the node gives its first input's elements unchanged and in their order: a view, or a reduction over axes of extent 1.
bool keeps_elements(const Graph& g, const Node& n) {
  if (n.op_type.rfind("Reduce", 0) == 0 && n.op_type != "ReduceMean" && n.op_type != "ReduceSum" && n.op_type != "ReduceMax" && n.op_type != "ReduceMin") return false;
  if (n.op_type.rfind("Reduce", 0) != 0 && !is_view(n.op_type)) return false;
  return is_floating(g.value(n.inputs[0]).dtype) && element_count(g.value(n.inputs[0]).shape) == element_count(g.value(n.outputs[0]).shape);
}

// Walks back from the output through such nodes to a closing activation. Sigmoid is taken wherever it stands; a softmax must run over
// all classes of a sample, sample by sample as the output has them.
Tail find_tail(const Graph& g, ValueId output) {
  const Shape& rows = g.value(output).shape;
  for (ValueId v = output; g.value(v).producer != kNoNode;) {
    const Node& n = g.node(g.value(v).producer);
    if (!n.domain.empty()) break;
    if (n.op_type == "Sigmoid") return {n.op_type, n.inputs[0]};
    if (n.op_type == "Softmax" || n.op_type == "LogSoftmax") {
      const Shape& s = g.value(n.inputs[0]).shape;
      const int64_t rank = static_cast<int64_t>(s.size());
      int64_t axis = n.attributes.get_int("axis", -1);
      if (axis < 0) axis += rank;
      if (rank >= 2 && !rows.empty() && s[0] == rows[0] && columns(g, n.inputs[0]) == s[static_cast<size_t>(axis)]) return {n.op_type, n.inputs[0]};
      break;
    }
    if (!keeps_elements(g, n)) break;
    v = n.inputs[0];
  }
  return {"", output};
}

ValueId add_labels(Graph& g, DType type, Shape shape) {
  ValueId v = g.add_value("labels", type, shape);
  g.value(v).role = Role::kInput;
  g.value(v).declared_dims = shape;
  g.value(v).declared_dim_names.resize(shape.size());
  g.inputs.push_back(v);
  return v;
}

}  // namespace

Result<LossKind> parse_loss(const std::string& name) {
  std::string known;
  for (const NamedLoss& l : kNames) {
    if (name == l.name) return l.kind;
    known += (known.empty() ? "" : ", ") + std::string(l.name);
  }
  return usage_error("--loss '", name, "' is not known; known are: ", known);
}

std::string name_of(LossKind kind) {
  for (const NamedLoss& l : kNames)
    if (l.kind == kind) return l.name;
  return "?";
}

Result<AttachedLoss> attach_loss(Graph& g, ValueId output, LossKind kind) {
  const std::string output_name = g.value(output).name;
  const Shape output_shape = g.value(output).shape;
  if (!is_floating(g.value(output).dtype))
    return invalid("output '", output_name, "' is ", name_of(g.value(output).dtype), "; a loss needs floating-point scores. Choose another output or cut the model before it (--cut-at)");
  const Tail tail = find_tail(g, output);
  AttachedLoss out;
  out.classes = columns(g, output);
  if (kind == LossKind::kAuto) kind = tail.activation == "Sigmoid" || out.classes == 1 ? LossKind::kBinary : LossKind::kSparseCategorical;
  out.kind = kind;
  const std::string ending = tail.activation.empty() ? "the model ends without an activation, its output '" + output_name + "' is taken as logits"
                                                     : "the model ends in " + tail.activation;
  Builder b(g, Phase::kLoss);
  b.set_name_hint("loss");

  if (kind == LossKind::kMeanSquaredError) {
    out.labels = add_labels(g, g.value(output).dtype, output_shape);
    out.loss = b.engine_op("MeanSquaredError", {output, out.labels});
    out.note = "mean squared error on output '" + output_name + "'";
    return b.status().ok() ? Result<AttachedLoss>(out) : b.status();
  }
  if (out.classes == 0)
    return invalid("output '", output_name, "' has shape ", output_shape, "; a classification loss needs one score a class and sample ([N, classes]). Cut the model where features end (--cut-at) and give it a head (--replace-head)");
  const int64_t batch = output_shape[0];
  ValueId logits = tail.logits;
  if (g.value(logits).dtype != DType::kFloat32 && g.value(logits).dtype != DType::kFloat64) {
    Attributes to;
    to.set("to", static_cast<int64_t>(DType::kFloat32));
    logits = b.op("Cast", {logits}, to);
  }
  if (g.value(logits).shape != Shape{batch, out.classes}) logits = b.op("Reshape", {logits, b.ints({batch, out.classes})});

  if (kind == LossKind::kBinary) {
    if (tail.activation == "Softmax" || tail.activation == "LogSoftmax")
      return invalid("binary_crossentropy was asked for, but the model ends in ", tail.activation, " over ", out.classes, " classes; use sparse_categorical_crossentropy, or --replace-head with one output");
    out.labels = add_labels(g, g.value(logits).dtype, {batch, out.classes});
    out.loss = b.engine_op("SigmoidBinaryCrossEntropy", {logits, out.labels});
    out.correct = b.engine_op("BinaryCorrectCount", {logits, out.labels}, [] { Attributes a; a.set("threshold", 0.0F); return a; }());
    out.note = ending + "; binary cross-entropy is computed from the logits '" + g.value(tail.logits).name + "' (fused, stable)";
  } else {
    if (tail.activation == "Sigmoid")
      return invalid(name_of(kind), " was asked for, but the model ends in Sigmoid over ", out.classes, " column(s); use binary_crossentropy, or --replace-head");
    if (out.classes < 2) return invalid(name_of(kind), " needs at least two classes; output '", output_name, "' has ", out.classes, ". Use binary_crossentropy or --replace-head");
    out.labels = kind == LossKind::kSparseCategorical ? add_labels(g, DType::kInt64, {batch}) : add_labels(g, g.value(logits).dtype, {batch, out.classes});
    out.loss = b.engine_op("SoftmaxCrossEntropy", {logits, out.labels});
    out.correct = b.engine_op("CorrectCount", {logits, out.labels});
    out.note = ending + "; softmax and cross-entropy are computed together from the logits '" + g.value(tail.logits).name + "' (fused, stable)";
  }
  return b.status().ok() ? Result<AttachedLoss>(out) : b.status();
}

}  // namespace eng
