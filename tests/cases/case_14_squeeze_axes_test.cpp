// Squeeze with axes as an attribute (opset 11) and as an input (opset 13, from an initializer and from a Constant node).
#include "tests/importers/run_model.h"

namespace eng {
namespace {

using namespace eng::test;

enum class Axes { kNone, kAttribute, kInitializer, kConstant };

ModelProto model(const char* op, int64_t opset, Axes form, std::vector<int64_t> axes, const std::vector<int64_t>& from) {
  ModelProto m = empty_model(opset);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", from);
  std::vector<std::string> inputs{"x"};
  if (form == Axes::kInitializer) *g.add_initializer() = int_tensor("axes", axes);
  if (form == Axes::kConstant) *add_attribute(add_node(g, "Constant", {}, {"axes"}), "value", AttributeProto::TENSOR).mutable_t() = int_tensor("", axes);
  if (form == Axes::kInitializer || form == Axes::kConstant) inputs.push_back("axes");
  NodeProto& n = add_node(g, op, inputs, {"y"});
  if (form == Axes::kAttribute) set_ints(n, "axes", axes);
  g.add_output()->set_name("y");
  return m;
}

Shape shape_of(const ModelProto& m, const Shape& x) {
  const Graph g = import_model(m);
  return run_graph(g, {{"x", ramp(x)}})[0].shape();
}

}  // namespace

TEST_CASE("case 14: Squeeze and Unsqueeze keep to their axes in every form, and are written in the form of the written opset") {
  const std::vector<std::pair<int64_t, Axes>> forms = {{11, Axes::kAttribute}, {13, Axes::kInitializer}, {13, Axes::kConstant}};
  for (auto [opset, form] : forms) {
    CHECK(shape_of(model("Squeeze", opset, form, {0}, {1, 3, 1, 1}), {1, 3, 1, 1}) == Shape{3, 1, 1});
    CHECK(shape_of(model("Squeeze", opset, form, {-4}, {1, 3, 1, 1}), {1, 3, 1, 1}) == Shape{3, 1, 1});
    CHECK(shape_of(model("Unsqueeze", opset, form, {0, -1}, {3, 2}), {3, 2}) == Shape{1, 3, 2, 1});
    const Graph g = import_model(model("Squeeze", opset, form, {0}, {1, 3, 1, 1}));
    Graph typed = g;
    typed.value(typed.outputs[0]).dtype = DType::kFloat32;
    typed.value(typed.outputs[0]).declared_dims = {3, 1, 1};
    const ModelProto out = export_checked(typed);
    CHECK(out.opset_import(0).version() >= 13);
    CHECK(out.graph().node_size() == 1);
    CHECK(out.graph().node(0).input_size() == 2);
    CHECK(out.graph().node(0).attribute_size() == 0);
    CHECK(run_graph(import_model(out), {{"x", ramp({1, 3, 1, 1})}})[0].shape() == Shape{3, 1, 1});
  }
  for (int64_t opset : {11, 13}) CHECK(shape_of(model("Squeeze", opset, Axes::kNone, {}, {1, 3, 1, 1}), {1, 3, 1, 1}) == Shape{3});
}

}  // namespace eng
