// Adapters of operators that compute: reductions, Clip, the flattening Softmax family, Dropout and the normalisations.
#include <algorithm>

#include "importers/onnx/adapters.h"

namespace eng::onnx_adapters {

// Without axes everything is reduced, before and after; so no input is added then.
Status reduce(Raise& r) {
  ints_to_input(r, "axes", 1);
  return {};
}

Status clip(Raise& r) {
  const DType type = r.data_type();
  size_t i = 1;
  for (const char* name : {"min", "max"}) {
    if (const float* bound = r.node.attributes.find<float>(name)) r.set_input(i, r.constant(name, Tensor::scalar(type, *bound)));
    r.node.attributes.erase(name);
    ++i;
  }
  return {};
}

Status dft(Raise& r) {
  const int64_t axis = r.node.attributes.get_int("axis", 1);
  r.node.attributes.erase("axis");
  r.set_input(2, r.constant("axis", Tensor::scalar(DType::kInt64, static_cast<double>(axis))));
  return {};
}

// Below 13 the input is flattened to a matrix at `axis` (default 1) and each row is one distribution. That is today's operator where
// only one dimension from `axis` on is not 1; else Flatten and Reshape stand around it, with Shape so that the batch may stay symbolic.
Status softmax(Raise& r) {
  int64_t axis = r.node.attributes.get_int("axis", 1);
  const auto dims = r.dims_of(r.input(0));
  if (axis == -1) {
    r.node.attributes.set("axis", int64_t{-1});
    return {};
  }
  if (dims) {
    const auto rank = static_cast<int64_t>(dims->size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) return r.error(cat("axis ", r.node.attributes.get_int("axis", 1), " is outside the ", rank, " axes of the input"));
    std::vector<int64_t> wide;
    for (int64_t d = axis; d < rank; ++d)
      if ((*dims)[static_cast<size_t>(d)] != 1) wide.push_back(d);
    if (axis < rank && wide.size() <= 1) {
      r.node.attributes.set("axis", wide.empty() ? axis : wide[0] == rank - 1 ? int64_t{-1} : wide[0]);
      return {};
    }
  }
  const ValueId x = r.input(0), y = r.node.outputs[0];
  Attributes flat;
  flat.set("axis", axis);
  const ValueId shape = r.before("Shape", {x}, "shape");
  const ValueId matrix = r.before("Flatten", {x}, "flat", flat);
  r.set_input(0, matrix);
  r.node.attributes.set("axis", int64_t{-1});
  const ValueId rows = r.divert_output(0, "rows");
  r.behind("Reshape", {rows, shape}, y);
  return {};
}

// Below 10 the mask has the data's type, later it is boolean.
Status dropout_mask(Raise& r) {
  if (r.node.outputs.size() < 2 || r.node.outputs[1] == kNoValue) return {};
  const ValueId mask = r.node.outputs[1];
  Attributes to;
  to.set("to", static_cast<int64_t>(r.data_type()));
  const ValueId boolean = r.divert_output(1, "mask");
  r.graph.value(boolean).dtype = DType::kBool;
  r.behind("Cast", {boolean}, mask, to);
  return {};
}

Status dropout(Raise& r) {
  if (const float* ratio = r.node.attributes.find<float>("ratio")) {
    const float value = *ratio;
    r.node.attributes.erase("ratio");
    r.set_input(1, r.constant("ratio", Tensor::scalar(DType::kFloat32, value)));
  }
  return {};
}

// Five outputs (Y, mean, var, saved_mean, saved_var) meant training. The saved ones, an implementation's own, are dropped.
Status batch_normalization(Raise& r) {
  if (r.node.attributes.get_int("spatial", 1) != 1)
    return unsupported(r.graph.label(r.node), " (opset ", r.opset, "): spatial=0, one statistic for every activation, is not supported");
  r.node.attributes.erase("spatial");
  bool training = false;
  for (size_t i = 1; i < r.node.outputs.size(); ++i) training |= r.node.outputs[i] != kNoValue;
  r.node.outputs.resize(std::min<size_t>(r.node.outputs.size(), training ? 3 : 1));
  if (training) r.node.attributes.set("training_mode", int64_t{1});
  return {};
}

// 18 had one scale and bias for each group, 21 has one for each channel: each is repeated over the channels of its group.
Status group_normalization(Raise& r) {
  const auto dims = r.dims_of(r.input(0));
  const int64_t groups = r.node.attributes.get_int("num_groups", 0);
  if (!dims || dims->size() < 2 || (*dims)[1] < 1 || groups < 1 || (*dims)[1] % groups)
    return unsupported(r.graph.label(r.node), " (opset ", r.opset, "): scale and bias by group need a known number of channels that num_groups divides");
  const ValueId column = r.ints("column", {groups, 1}), size = r.ints("size", {groups, (*dims)[1] / groups}), flat = r.ints("channels", {(*dims)[1]});
  for (size_t i : {1, 2}) {
    const ValueId tall = r.before("Reshape", {r.input(i), column}, i == 1 ? "scale/column" : "bias/column");
    const ValueId wide = r.before("Expand", {tall, size}, i == 1 ? "scale/wide" : "bias/wide");
    r.set_input(i, r.before("Reshape", {wide, flat}, i == 1 ? "scale" : "bias"));
  }
  return {};
}

}  // namespace eng::onnx_adapters
