// Raising a node from the opset of its file to the canonical one. One table (adapters.cpp) lists operator, the opset below which the
// old form applies, and the function that rewrites it; rows of one operator apply from top to bottom. Operators without a row
// have had the same form since opset 7. Functions of a family lie in adapters_*.cpp. A new old form is one row and one function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace eng::onnx_adapters {

// One node on its way into the graph: its output values exist, the node itself is added after the adapters have run.
struct Raise {
  Graph& graph;
  Node& node;
  int64_t opset = 0;
  // Dimensions as far as they are known before shapes are bound, -1 where not; nothing where even the rank is unknown.
  std::function<std::optional<std::vector<int64_t>>(ValueId)> dims_of;
  std::vector<Node> after;  // to be added behind the node

  ValueId input(size_t i) const { return i < node.inputs.size() ? node.inputs[i] : kNoValue; }
  void set_input(size_t i, ValueId v);
  // Type of input 0, float32 where it is not known.
  DType data_type() const;
  // The name that helper values start with: that of the node's first output, which is unique in the file.
  std::string base() const;
  ValueId constant(const char* suffix, Tensor content);
  ValueId ints(const char* suffix, const std::vector<int64_t>& values) { return constant(suffix, Tensor::ints(values)); }
  // A node in front of this one.
  ValueId before(const char* op_type, std::vector<ValueId> inputs, const char* suffix, Attributes attributes = {});
  // The node now writes a helper value; what comes behind writes output i. Returns the helper.
  ValueId divert_output(size_t i, const char* suffix);
  void behind(const char* op_type, std::vector<ValueId> inputs, ValueId output, Attributes attributes = {});
  Status error(const std::string& what) const;
};

// The attribute becomes input i and is erased; nothing where it is absent or empty.
void ints_to_input(Raise& r, const char* attribute, size_t i);

bool has_adapter(const std::string& op_type, int64_t opset);
// Whether a node of an opset below 7 can be read: `form` is the version that its schema has there, form_at_7 the one it has in opset 7.
bool reads_old_form(const std::string& op_type, int64_t opset, int64_t form, int64_t form_at_7);
Status raise(Raise& r);

// adapters_shape.cpp
Status squeeze(Raise&);
Status slice(Raise&);
Status split_sizes(Raise&);
Status split_count(Raise&);
Status pad(Raise&);
Status top_k(Raise&);
Status scatter(Raise&);
Status upsample(Raise&);
Status resize_10(Raise&);
Status resize_inputs(Raise&);
Status roi_align(Raise&);
Status grid_sample(Raise&);
// adapters_math.cpp
Status reduce(Raise&);
Status clip(Raise&);
Status dft(Raise&);
Status softmax(Raise&);
Status dropout_mask(Raise&);
Status dropout(Raise&);
Status batch_normalization(Raise&);
Status group_normalization(Raise&);

// adapters_old.cpp: opsets below 7
Status same_form(Raise&);
Status old_broadcast(Raise&);
Status old_batch_normalization(Raise&);
Status old_cast(Raise&);
Status old_concat(Raise&);
Status old_dropout(Raise&);
Status old_gemm(Raise&);
Status old_pad(Raise&);
Status old_prelu(Raise&);
Status old_recurrent(Raise&);
Status old_reshape(Raise&);

}  // namespace eng::onnx_adapters
