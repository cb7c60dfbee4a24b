// See node_desc.h.
#include "engine/plugin/node_desc.h"

#include <algorithm>

namespace eng {
namespace {

eb_string str(const std::string& s) { return {s.data(), s.size()}; }

eb_tensor describe(DType type, const Shape& shape, const std::vector<int64_t>& strides) {
  eb_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = static_cast<int32_t>(type);
  t.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), t.dims);
  std::copy(strides.begin(), strides.end(), t.strides);
  return t;
}

}  // namespace

NodeDesc::NodeDesc(const Graph& graph, const Node& n, const std::vector<std::vector<int64_t>>& strides) {
  size_t position = 0;
  auto add = [&](ValueId id, std::vector<eb_tensor>& list) {
    const size_t at = position++;
    if (id == kNoValue) {
      eb_tensor absent{};
      absent.struct_size = sizeof absent;
      list.push_back(absent);
      return;
    }
    const Value& v = graph.value(id);
    if (at < strides.size() && !strides[at].empty()) list.push_back(describe(v.dtype, v.shape, strides[at]));
    else list.push_back(describe(v.dtype, v.shape, v.layout == Layout::kChannelsLast ? channels_last_strides(v.shape) : row_major_strides(v.shape)));
  };
  for (ValueId v : n.inputs) {
    add(v, inputs_);
    const Tensor* t = graph.constant(v);
    host_.push_back(t ? t->bytes() : nullptr);
  }
  for (ValueId v : n.outputs) add(v, outputs_);
  for (const auto& [name, value] : n.attributes) {
    eb_attribute a{};
    a.struct_size = sizeof a;
    a.name = str(name);
    if (auto* i = std::get_if<int64_t>(&value)) a.kind = EB_ATTR_INT, a.i = *i;
    else if (auto* f = std::get_if<float>(&value)) a.kind = EB_ATTR_FLOAT, a.f = static_cast<double>(*f);
    else if (auto* s = std::get_if<std::string>(&value)) a.kind = EB_ATTR_STRING, a.s = str(*s);
    else if (auto* is = std::get_if<std::vector<int64_t>>(&value)) a.kind = EB_ATTR_INTS, a.count = is->size(), a.ints = is->data();
    else if (auto* fs = std::get_if<std::vector<float>>(&value)) a.kind = EB_ATTR_FLOATS, a.count = fs->size(), a.floats = fs->data();
    else if (auto* ss = std::get_if<std::vector<std::string>>(&value)) {
      auto& list = string_lists_.emplace_back();
      for (const std::string& text : *ss) list.push_back(str(text));
      a.kind = EB_ATTR_STRINGS, a.count = list.size(), a.strings = list.data();
    } else if (auto* t = std::get_if<Tensor>(&value)) {
      tensors_.push_back(describe(t->dtype(), t->shape(), row_major_strides(t->shape())));
      a.kind = EB_ATTR_TENSOR, a.tensor = &tensors_.back(), a.tensor_data = t->bytes();
    } else continue;  // sub-graphs do not reach a backend
    attributes_.push_back(a);
  }
  node_.struct_size = sizeof node_;
  auto version = graph.opsets.find(n.domain);
  node_.opset = n.domain.empty() ? static_cast<int32_t>(kCanonicalOpset) : version == graph.opsets.end() ? 1 : static_cast<int32_t>(version->second);
  node_.domain = str(n.domain);
  node_.op_type = str(n.op_type);
  node_.name = str(n.name);
  node_.input_count = static_cast<uint32_t>(inputs_.size());
  node_.output_count = static_cast<uint32_t>(outputs_.size());
  node_.attribute_count = static_cast<uint32_t>(attributes_.size());
  node_.inputs = inputs_.data();
  node_.outputs = outputs_.data();
  node_.attributes = attributes_.data();
  node_.host_inputs = host_.data();
}

}  // namespace eng
