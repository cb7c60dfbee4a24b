// Old forms of operators, raised to the canonical opset. Expected values were computed by ONNX Runtime from the old form.
#include "tests/importers/run_model.h"

namespace eng {
namespace {

using namespace eng::test;

// One node of `opset`; data inputs x, then constants as initializers c1, c2, ...; outputs y, y1, ...
struct OneNode {
  ModelProto model;
  OneNode(const std::string& op, int64_t opset, const std::vector<int64_t>& x, int outputs = 1, const std::vector<TensorProto>& constants = {})
      : model(empty_model(opset, opset < 9 ? 3 : 8)) {
    GraphProto& g = *model.mutable_graph();
    add_input(g, "x", x);
    std::vector<std::string> in{"x"}, out;
    for (const TensorProto& c : constants) {
      *g.add_initializer() = c;
      in.push_back(c.name());
      if (opset < 9) set_value(*g.add_input(), c.name(), {c.dims().begin(), c.dims().end()}, c.data_type());
    }
    for (int i = 0; i < outputs; ++i) out.push_back(i ? "y" + std::to_string(i) : "y");
    add_node(g, op, in, out).set_name("the node");
    for (const std::string& o : out) {
      g.add_output()->set_name(o);
      g.mutable_output()->rbegin()->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    }
  }
  NodeProto& node() { return *model.mutable_graph()->mutable_node(0); }
};

// Shapes of the outputs are not declared above, so that they do not help; ONNX's checker wants them.
std::vector<Tensor> run_raised(const ModelProto& model, const Tensor& x) { return run_graph(import_model(model), {{"x", x}}); }

const std::vector<double> kFlatSoftmax = {0.04533, 0.050097, 0.055366, 0.061189, 0.067624, 0.074737, 0.082597, 0.091283, 0.100884, 0.111494, 0.12322, 0.136179,
                                          0.04533, 0.050097, 0.055366, 0.061189, 0.067624, 0.074737, 0.082597, 0.091283, 0.100884, 0.111494, 0.12322, 0.136179};

}  // namespace

TEST_CASE("Softmax below opset 13 flattens at its axis, with a symbolic batch too") {
  const Tensor x = ramp({2, 3, 4}, 0.1f);
  for (int64_t opset : {7, 11, 12})
    for (bool written : {false, true})
      for (int64_t first : {2, -1}) {
        OneNode m("Softmax", opset, {first, 3, 4});
        if (written) set_int(m.node(), "axis", 1);
        check_near(run_raised(m.model, x)[0], {2, 3, 4}, kFlatSoftmax);
      }
  OneNode log("LogSoftmax", 11, {-1, 3, 4});
  set_int(log.node(), "axis", 1);
  const std::vector<double> y = numbers(run_raised(log.model, x)[0]);
  CHECK(y[0] == doctest::Approx(-3.093786).epsilon(1e-4));
  CHECK(y[23] == doctest::Approx(-1.993786).epsilon(1e-4));
}

TEST_CASE("Softmax below opset 13 stays one node where flattening changes nothing") {
  auto raised = [](const std::vector<int64_t>& dims, int64_t axis) {
    OneNode m("Softmax", 11, dims);
    set_int(m.node(), "axis", axis);
    return import_model(m.model);
  };
  const Graph rows = raised({-1, 5}, 1), last = raised({-1, 3, 4}, 2), negative = raised({-1, 3, 4}, -1), channels = raised({-1, 5, 1, 1}, 1);
  for (const Graph* g : {&rows, &last, &negative}) {
    CHECK(g->live_nodes().size() == 1);
    CHECK(only_node(*g, "Softmax").attributes.get_int("axis", 0) == -1);
    CHECK(only_node(*g, "Softmax").name == "the node");
  }
  CHECK(channels.live_nodes().size() == 1);
  CHECK(only_node(channels, "Softmax").attributes.get_int("axis", 0) == 1);
  // From opset 13 on the axis is one axis, and the default is the last.
  CHECK(only_node(import_model(OneNode("Softmax", 13, {-1, 3, 4}).model), "Softmax").attributes.has("axis") == false);
}

TEST_CASE("axes of reductions become an input") {
  const std::vector<std::pair<const char*, std::vector<double>>> rows = {
      {"ReduceMean", {1, 4}}, {"ReduceMax", {2, 5}}, {"ReduceSum", {3, 12}}, {"ReduceL2", {2.236068, 7.071068}}, {"ReduceMin", {0, 3}}, {"ReduceProd", {0, 60}}};
  for (const auto& [op, wanted] : rows)
    for (int64_t opset : {7, 11}) {
      OneNode m(op, opset, {-1, 3});
      set_ints(m.node(), "axes", {1});
      set_int(m.node(), "keepdims", 0);
      const Graph g = import_model(m.model);
      const Node& n = only_node(g, op);
      CHECK_FALSE(n.attributes.has("axes"));
      REQUIRE(n.inputs.size() == 2);
      CHECK(constant_ints(g, n.inputs[1]) == std::vector<int64_t>{1});
      check_near(run_graph(g, {{"x", ramp({2, 3})}})[0], {2}, wanted);
    }
  check_near(run_raised(OneNode("ReduceSum", 11, {2, 3}).model, ramp({2, 3}))[0], {1, 1}, {15});
}

TEST_CASE("Pad, Slice, Split, Clip: attributes become inputs") {
  const Tensor x = ramp({2, 3});
  OneNode pad("Pad", 7, {2, 3});
  set_ints(pad.node(), "pads", {0, 1, 1, 0});
  set_float(pad.node(), "value", 1.5f);
  check_near(run_raised(pad.model, x)[0], {3, 4}, {1.5, 0, 1, 2, 1.5, 3, 4, 5, 1.5, 1.5, 1.5, 1.5});
  OneNode slice("Slice", 9, {2, 3});
  set_ints(slice.node(), "starts", {0, 1});
  set_ints(slice.node(), "ends", {1, 1000});
  check_near(run_raised(slice.model, x)[0], {1, 2}, {1, 2});
  OneNode columns("Slice", 7, {2, 3});
  set_ints(columns.node(), "starts", {-2});
  set_ints(columns.node(), "ends", {3});
  set_ints(columns.node(), "axes", {1});
  check_near(run_raised(columns.model, x)[0], {2, 2}, {1, 2, 4, 5});
  OneNode split("Split", 11, {2, 3}, 2);
  set_int(split.node(), "axis", 1);
  set_ints(split.node(), "split", {1, 2});
  const auto parts = run_raised(split.model, x);
  check_near(parts[0], {2, 1}, {0, 3});
  check_near(parts[1], {2, 2}, {1, 2, 4, 5});
  OneNode halves("Split", 13, {2, 3}, 2);
  const auto rows = run_raised(halves.model, x);
  check_near(rows[0], {1, 3}, {0, 1, 2});
  check_near(rows[1], {1, 3}, {3, 4, 5});
  OneNode clip("Clip", 7, {2, 3});
  set_float(clip.node(), "min", 1);
  set_float(clip.node(), "max", 3);
  check_near(run_raised(clip.model, x)[0], {2, 3}, {1, 1, 2, 3, 3, 3});
  OneNode upper("Clip", 10, {2, 3});
  set_float(upper.node(), "max", 3);
  check_near(run_raised(upper.model, x)[0], {2, 3}, {0, 1, 2, 3, 3, 3});
}

TEST_CASE("Upsample and the first Resize become today's Resize") {
  const Tensor x = ramp({1, 1, 2, 2});
  const std::vector<double> nearest = {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3};
  const std::vector<double> linear = {0, .5, 1, 1, 1, 1.5, 2, 2, 2, 2.5, 3, 3, 2, 2.5, 3, 3};
  for (const char* mode : {"nearest", "linear"}) {
    const std::vector<double>& wanted = mode[0] == 'n' ? nearest : linear;
    OneNode seven("Upsample", 7, {1, 1, 2, 2});
    set_floats(seven.node(), "scales", {1, 1, 2, 2});
    OneNode nine("Upsample", 9, {1, 1, 2, 2}, 1, {float_tensor("s", {4}, {1, 1, 2, 2})});
    OneNode ten("Resize", 10, {1, 1, 2, 2}, 1, {float_tensor("s", {4}, {1, 1, 2, 2})});
    for (OneNode* m : {&seven, &nine, &ten}) {
      set_string(m->node(), "mode", mode);
      const Graph g = import_model(m->model);
      CHECK(only_node(g, "Resize").attributes.get_string("coordinate_transformation_mode", "") == "asymmetric");
      if (find_op("", "Resize")) check_near(run_graph(g, {{"x", x}})[0], {1, 1, 4, 4}, wanted);
      else CHECK(only_node(g, "Resize").inputs.size() == 3);
    }
  }
  OneNode both("Resize", 10, {1, 1, 2, 2}, 1, {float_tensor("s", {4}, {1, 1, 2, 0.5f})});
  const std::string bytes = both.model.SerializeAsString();
  CHECK(import_onnx_bytes(bytes.data(), bytes.size(), "").status().message().find("enlarges one axis and shrinks another") != std::string::npos);
}

TEST_CASE("BatchNormalization: five outputs meant training, spatial=0 is refused") {
  const std::vector<TensorProto> statistics = {float_tensor("s", {3}, {1, 1, 1}), float_tensor("b", {3}, {0, 0, 0}), float_tensor("m", {3}, {0, 0, 0}), float_tensor("v", {3}, {1, 1, 1})};
  OneNode inference("BatchNormalization", 7, {-1, 3, 2, 2}, 1, statistics);
  set_int(inference.node(), "spatial", 1);
  const Graph g = import_model(inference.model);
  CHECK_FALSE(only_node(g, "BatchNormalization").attributes.has("spatial"));
  CHECK(only_node(g, "BatchNormalization").attributes.get_int("training_mode", 0) == 0);
  OneNode training("BatchNormalization", 9, {-1, 3, 2, 2}, 5, statistics);
  training.model.mutable_graph()->mutable_output()->DeleteSubrange(1, 4);
  const Graph t = import_model(training.model);
  CHECK(only_node(t, "BatchNormalization").attributes.get_int("training_mode", 0) == 1);
  CHECK(only_node(t, "BatchNormalization").outputs.size() == 3);
  set_int(inference.node(), "epsilon", 0);
  inference.node().mutable_attribute()->RemoveLast();
  inference.node().mutable_attribute(0)->set_i(0);
  const std::string bytes = inference.model.SerializeAsString();
  CHECK(import_onnx_bytes(bytes.data(), bytes.size(), "").status().message().find("spatial=0") != std::string::npos);
}

TEST_CASE("Dropout: the ratio becomes an input, an old mask keeps its type") {
  OneNode one("Dropout", 7, {2, 3});
  set_float(one.node(), "ratio", 0.25f);
  const Graph g = import_model(one.model);
  REQUIRE(only_node(g, "Dropout").inputs.size() == 2);
  CHECK(g.constant(only_node(g, "Dropout").inputs[1])->at(0) == 0.25);
  const Graph two = import_model(OneNode("Dropout", 7, {2, 3}, 2).model);
  CHECK(two.node(two.value(two.find_value("y1")).producer).op_type == "Cast");
  CHECK(two.value(only_node(two, "Dropout").outputs[1]).dtype == DType::kBool);
}

TEST_CASE("TopK, Scatter, GridSample, RoiAlign: small changes of form") {
  OneNode top("TopK", 7, {2, 3}, 2);
  set_int(top.node(), "k", 2);
  const Graph g = import_model(top.model);
  CHECK(constant_ints(g, only_node(g, "TopK").inputs[1]) == std::vector<int64_t>{2});
  OneNode scatter("Scatter", 9, {2, 3}, 1, {int_tensor("i", {0}), float_tensor("u", {1}, {1})});
  CHECK(only_node(import_model(scatter.model), "ScatterElements").inputs.size() == 3);
  OneNode grid("GridSample", 16, {1, 1, 2, 2}, 1, {float_tensor("grid", {1, 1, 1, 2}, {0, 0})});
  CHECK(only_node(import_model(grid.model), "GridSample").attributes.get_string("mode", "") == "linear");
}

TEST_CASE("GroupNormalization 18: scale and bias by group are repeated over the channels") {
  OneNode m("GroupNormalization", 18, {-1, 4, 2}, 1, {float_tensor("s", {2}, {1, 2}), float_tensor("b", {2}, {3, 4})});
  set_int(m.node(), "num_groups", 2);
  Graph g = import_model(m.model);
  const ValueId scale = only_node(g, "GroupNormalization").inputs[1];
  g.outputs = {scale};
  if (find_op("", "Expand")) check_near(run_graph(g, {{"x", ramp({1, 4, 2})}})[0], {4}, {1, 1, 2, 2});
  else CHECK(g.node(g.value(scale).producer).op_type == "Reshape");
}

TEST_CASE("forms before opset 7: broadcasting along an axis, is_test, consumed_inputs; others are refused by name") {
  OneNode add("Add", 6, {2, 3, 4}, 1, {float_tensor("c", {3}, {10, 20, 30})});
  set_int(add.node(), "broadcast", 1);
  set_int(add.node(), "axis", 1);
  const Tensor y = run_raised(add.model, Tensor(DType::kFloat32, {2, 3, 4}))[0];
  CHECK(y.shape() == Shape{2, 3, 4});
  CHECK(y.at(0) == 10);
  CHECK(y.at(4) == 20);
  CHECK(y.at(23) == 30);
  OneNode relu("Relu", 1, {2});
  set_ints(relu.node(), "consumed_inputs", {0});
  check_near(run_raised(relu.model, floats({2}, {-1, 2}))[0], {2}, {0, 2});
  OneNode tile("Tile", 1, {2}, 1, {float_tensor("t", {}, {2}), float_tensor("a", {}, {0})});
  const std::string bytes = tile.model.SerializeAsString();
  CHECK(import_onnx_bytes(bytes.data(), bytes.size(), "").status().message().find("its form of opset 1 is too old") != std::string::npos);
}

TEST_CASE("a raised model imports the canonical opset and passes ONNX's checker") {
  ModelProto m = empty_model(9, 3);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 3, 2});
  set_ints(add_node(g, "Squeeze", {"s"}, {"y"}), "axes", {0});
  set_ints(add_node(g, "Unsqueeze", {"x"}, {"s"}), "axes", {0});
  g.mutable_node()->SwapElements(0, 1);
  NodeProto& soft = add_node(g, "Softmax", {"y"}, {"p"});
  soft.set_name("soft");
  add_output(g, "p", {-1, 3, 2});
  const Graph graph = import_model(m);
  CHECK(graph.opsets.at("") == kCanonicalOpset);
  const ModelProto out = export_checked(graph);
  CHECK(out.opset_import(0).version() == kCanonicalOpset);
  CHECK(out.ir_version() >= 10);
}

}  // namespace eng
