// Adapters of operators that move or select data: attributes that became inputs, Upsample and the first Resize.
#include <algorithm>

#include "importers/onnx/adapters.h"

namespace eng::onnx_adapters {

// Squeeze and Unsqueeze below 13.
Status squeeze(Raise& r) {
  ints_to_input(r, "axes", 1);
  return {};
}

Status slice(Raise& r) {
  ints_to_input(r, "starts", 1);
  ints_to_input(r, "ends", 2);
  ints_to_input(r, "axes", 3);
  for (size_t i : {1, 2})
    if (r.input(i) == kNoValue) r.set_input(i, r.ints(i == 1 ? "starts" : "ends", {}));
  return {};
}

Status split_sizes(Raise& r) {
  ints_to_input(r, "split", 1);
  return {};
}

// Equal parts were implied by the number of outputs; from 18 on they are written down.
Status split_count(Raise& r) {
  if (r.input(1) == kNoValue && !r.node.attributes.has("num_outputs"))
    r.node.attributes.set("num_outputs", static_cast<int64_t>(r.node.outputs.size()));
  return {};
}

Status pad(Raise& r) {
  const float value = r.node.attributes.get_float("value", 0);
  r.node.attributes.erase("value");
  ints_to_input(r, "pads", 1);
  if (r.input(1) == kNoValue) r.set_input(1, r.ints("pads", {}));
  if (value != 0) r.set_input(2, r.constant("value", Tensor::scalar(r.data_type(), value)));
  return {};
}

Status top_k(Raise& r) {
  const int64_t k = r.node.attributes.get_int("k", 0);
  r.node.attributes.erase("k");
  r.set_input(1, r.ints("k", {k}));
  return {};
}

Status scatter(Raise& r) {
  r.node.op_type = "ScatterElements";
  return {};
}

// Upsample 7 (scales: attribute) and 9 (scales: input): Resize that maps output x to input x / scale.
Status upsample(Raise& r) {
  if (r.node.attributes.has("scales")) {
    const std::vector<float> scales = r.node.attributes.get_floats("scales");
    r.node.attributes.erase("scales");
    r.set_input(1, r.constant("scales", Tensor::of<float>({static_cast<int64_t>(scales.size())}, scales)));
  }
  if (r.node.attributes.get_string("mode", "nearest") == "bilinear") r.node.attributes.set("mode", std::string("linear"));
  r.node.op_type = "Resize";
  r.opset = 10;
  return {};
}

// Resize 10: inputs (X, scales); asymmetric; nearest takes the floor where an axis grows and the ceiling where it shrinks.
Status resize_10(Raise& r) {
  const ValueId scales = r.input(1);
  r.set_input(1, kNoValue);
  r.set_input(2, scales);
  r.node.attributes.set("coordinate_transformation_mode", std::string("asymmetric"));
  if (r.node.attributes.get_string("mode", "nearest") != "nearest") return {};
  bool grows = false, shrinks = false;
  if (const Tensor* t = r.graph.constant(scales))
    for (int64_t i = 0; i < t->element_count(); ++i) (t->at(i) < 1 ? shrinks : grows) |= t->at(i) != 1;
  if (grows && shrinks) return r.error("nearest-neighbour resizing that enlarges one axis and shrinks another has no form in newer opsets");
  r.node.attributes.set("nearest_mode", std::string(shrinks ? "ceil" : "floor"));
  return {};
}

Status resize_inputs(Raise& r) {
  for (size_t i = 1; i < r.node.inputs.size(); ++i)
    if (const Tensor* t = r.graph.constant(r.node.inputs[i]); t && t->element_count() == 0) r.node.inputs[i] = kNoValue;
  while (!r.node.inputs.empty() && r.node.inputs.back() == kNoValue) r.node.inputs.pop_back();
  return {};
}

Status roi_align(Raise& r) {
  r.node.attributes.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return {};
}

Status grid_sample(Raise& r) {
  const std::string mode = r.node.attributes.get_string("mode", "bilinear");
  r.node.attributes.set("mode", std::string(mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode));
  return {};
}

}  // namespace eng::onnx_adapters
