// Adapters of the forms before opset 7: broadcasting asked for by attributes, is_test, consumed_inputs.
#include <map>

#include "importers/onnx/adapters.h"

namespace eng::onnx_adapters {
namespace {

// B gets trailing axes so that its first one meets axis `axis` of A.
Status align(Raise& r, int64_t axis) {
  const auto a = r.dims_of(r.input(0)), b = r.dims_of(r.input(1));
  if (!a || !b) return r.error("broadcasting along an axis needs inputs of known rank");
  const auto missing = static_cast<int64_t>(a->size()) - axis - static_cast<int64_t>(b->size());
  if (axis < 0 || missing < 0) return r.error(cat("an input of rank ", b->size(), " cannot start at axis ", axis, " of one of rank ", a->size()));
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < missing; ++i) axes.push_back(static_cast<int64_t>(b->size()) + i);
  if (!axes.empty()) r.set_input(1, r.before("Unsqueeze", {r.input(1), r.ints("axes", axes)}, "aligned"));
  return {};
}

}  // namespace

Status same_form(Raise&) { return {}; }

Status old_broadcast(Raise& r) {
  const int64_t* axis = r.node.attributes.find<int64_t>("axis");
  const bool aligned = r.node.attributes.get_int("broadcast", 0) != 0 && axis;
  if (aligned) ENG_TRY(align(r, *axis));
  r.node.attributes.erase("axis");
  r.node.attributes.erase("broadcast");
  return {};
}

Status old_batch_normalization(Raise& r) {
  const bool training = r.node.attributes.get_int("is_test", 0) == 0 && r.node.outputs.size() > 1;
  r.node.attributes.erase("is_test");
  if (!training) r.node.outputs.resize(1);
  return {};
}

Status old_cast(Raise& r) {
  static const std::map<std::string, int64_t> types = {{"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3}, {"UINT16", 4}, {"INT16", 5}, {"INT32", 6}, {"INT64", 7},
                                                       {"BOOL", 9}, {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
  const auto type = types.find(r.node.attributes.get_string("to", ""));
  if (type == types.end()) return r.error(cat("cannot cast to '", r.node.attributes.get_string("to", ""), "'"));
  r.node.attributes.set("to", type->second);
  return {};
}

Status old_concat(Raise& r) {
  if (!r.node.attributes.has("axis")) r.node.attributes.set("axis", int64_t{1});
  return {};
}

Status old_dropout(Raise& r) {
  r.node.attributes.erase("is_test");
  return {};
}

Status old_gemm(Raise& r) {
  r.node.attributes.erase("broadcast");
  return {};
}

Status old_pad(Raise& r) {
  if (const auto* pads = r.node.attributes.find<std::vector<int64_t>>("paddings")) r.node.attributes.set("pads", Attribute(std::vector<int64_t>(*pads)));
  r.node.attributes.erase("paddings");
  return {};
}

// One slope, or one for each channel (axis 1).
Status old_prelu(Raise& r) {
  const auto slope = r.dims_of(r.input(1));
  if (slope && slope->size() == 1 && (*slope)[0] != 1) return align(r, 1);
  return {};
}

Status old_recurrent(Raise& r) {
  r.node.attributes.erase("output_sequence");
  return {};
}

Status old_reshape(Raise& r) {
  ints_to_input(r, "shape", 1);
  if (r.input(1) == kNoValue) r.set_input(1, r.ints("shape", {}));
  return {};
}

}  // namespace eng::onnx_adapters
