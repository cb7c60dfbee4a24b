// See adapters.h: the table, and the helpers of its functions.
#include "importers/onnx/adapters.h"

#include <cstring>

namespace eng::onnx_adapters {
namespace {

constexpr int64_t kAlways = INT64_MAX;

struct Row {
  const char* op_type;
  int64_t below;  // the function applies to opsets below this one
  Status (*apply)(Raise&);
};

constexpr Row kRows[] = {
    // Before opset 7: what old files hold in practice. Other old forms are refused by reads_old_form().
    {"Add", 7, old_broadcast},                        // broadcast, axis: attributes
    {"And", 7, old_broadcast},
    {"AveragePool", 7, same_form},
    {"BatchNormalization", 7, old_batch_normalization},  // is_test
    {"Cast", 6, old_cast},                            // to: a name
    {"Concat", 4, old_concat},                        // axis 1 where none is given
    {"Div", 7, old_broadcast},
    {"Dropout", 7, old_dropout},                      // is_test
    {"Equal", 7, old_broadcast},
    {"GRU", 7, old_recurrent},                        // output_sequence
    {"Gemm", 7, old_gemm},                            // broadcast
    {"Greater", 7, old_broadcast},
    {"LSTM", 7, old_recurrent},
    {"Less", 7, old_broadcast},
    {"Mul", 7, old_broadcast},
    {"Or", 7, old_broadcast},
    {"PRelu", 7, old_prelu},                          // slope by channel
    {"Pad", 2, old_pad},                              // paddings
    {"Pow", 7, old_broadcast},
    {"RNN", 7, old_recurrent},
    {"Reshape", 5, old_reshape},                      // shape: attribute
    {"Sub", 7, old_broadcast},
    {"Xor", 7, old_broadcast},
    // Opset 7 and newer: every old form.
    {"BatchNormalization", 14, batch_normalization},  // spatial; five outputs instead of training_mode
    {"Clip", 11, clip},                               // min, max: attributes
    {"DFT", 20, dft},                                 // axis: attribute
    {"Dropout", 10, dropout_mask},                    // mask of the data's type
    {"Dropout", 12, dropout},                         // ratio: attribute
    {"GridSample", 20, grid_sample},                  // names of the modes
    {"GroupNormalization", 21, group_normalization},  // scale and bias by group
    {"Hardmax", 13, softmax},                         // flattens to a matrix
    {"LogSoftmax", 13, softmax},
    {"Pad", 11, pad},                                 // pads, value: attributes
    {"ReduceL1", 18, reduce},                         // axes: attribute
    {"ReduceL2", 18, reduce},
    {"ReduceLogSum", 18, reduce},
    {"ReduceLogSumExp", 18, reduce},
    {"ReduceMax", 18, reduce},
    {"ReduceMean", 18, reduce},
    {"ReduceMin", 18, reduce},
    {"ReduceProd", 18, reduce},
    {"ReduceSum", 13, reduce},
    {"ReduceSumSquare", 18, reduce},
    {"Upsample", 10, upsample},                       // becomes Resize
    {"Resize", 11, resize_10},                        // two inputs, asymmetric
    {"Resize", kAlways, resize_inputs},               // empty roi, scales or sizes are omitted ones
    {"RoiAlign", 16, roi_align},                      // half-pixel shift
    {"Scatter", 11, scatter},                         // becomes ScatterElements
    {"Slice", 10, slice},                             // starts, ends, axes: attributes
    {"Softmax", 13, softmax},
    {"Split", 13, split_sizes},                       // split: attribute
    {"Split", 18, split_count},                       // num_outputs not written
    {"Squeeze", 13, squeeze},                         // axes: attribute
    {"TopK", 10, top_k},                              // k: attribute
    {"Unsqueeze", 13, squeeze},
};

}  // namespace

bool has_adapter(const std::string& op_type, int64_t opset) {
  for (const Row& row : kRows)
    if (op_type == row.op_type && opset < row.below) return true;
  return false;
}

bool reads_old_form(const std::string& op_type, int64_t opset, int64_t form, int64_t form_at_7) {
  if (opset >= 7 || form == form_at_7 || has_adapter(op_type, opset)) return true;
  return form_at_7 == 6 && op_type != "Cast" && op_type != "Tile";  // the rest of opset 6 only dropped consumed_inputs
}

Status raise(Raise& r) {
  if (r.opset < 6) r.node.attributes.erase("consumed_inputs");
  for (const Row& row : kRows)
    if (r.opset < row.below && r.node.op_type == row.op_type) ENG_TRY(row.apply(r));
  return {};
}

void Raise::set_input(size_t i, ValueId v) {
  if (node.inputs.size() <= i) node.inputs.resize(i + 1, kNoValue);
  node.inputs[i] = v;
}

DType Raise::data_type() const {
  const ValueId v = input(0);
  return v != kNoValue && graph.value(v).dtype != DType::kUndefined ? graph.value(v).dtype : DType::kFloat32;
}

std::string Raise::base() const {
  for (ValueId v : node.outputs)
    if (v != kNoValue) return graph.value(v).name;
  return node.name.empty() ? node.op_type : node.name;
}

ValueId Raise::constant(const char* suffix, Tensor content) {
  return graph.add_tensor(base() + "/" + suffix, std::move(content), Role::kConstant);
}

ValueId Raise::before(const char* op_type, std::vector<ValueId> inputs, const char* suffix, Attributes attributes) {
  Node n;
  n.op_type = op_type;
  n.name = node.name.empty() ? "" : node.name + "/" + suffix;
  n.inputs = std::move(inputs);
  n.attributes = std::move(attributes);
  n.outputs = {graph.add_value(base() + "/" + suffix)};
  return graph.node(graph.add_node(std::move(n))).outputs[0];
}

ValueId Raise::divert_output(size_t i, const char* suffix) {
  const DType type = node.outputs[i] == kNoValue ? DType::kUndefined : graph.value(node.outputs[i]).dtype;
  const ValueId helper = graph.add_value(base() + "/" + suffix, type);
  node.outputs[i] = helper;
  return helper;
}

void Raise::behind(const char* op_type, std::vector<ValueId> inputs, ValueId output, Attributes attributes) {
  if (output == kNoValue) return;
  Node n;
  n.op_type = op_type;
  n.name = node.name.empty() ? "" : node.name + "/" + op_type;
  n.inputs = std::move(inputs);
  n.outputs = {output};
  n.attributes = std::move(attributes);
  after.push_back(std::move(n));
}

Status Raise::error(const std::string& what) const { return invalid(graph.label(node), " (opset ", opset, "): ", what); }

void ints_to_input(Raise& r, const char* attribute, size_t i) {
  const std::vector<int64_t> values = r.node.attributes.get_ints(attribute);
  r.node.attributes.erase(attribute);
  if (!values.empty()) r.set_input(i, r.ints(attribute, values));
}

}  // namespace eng::onnx_adapters
