// Weights that an exporter stored once because they were equal (Identity of an initializer) are separate parameters and states.
#include "graph/passes/mark_parameters.h"

#include <doctest/doctest.h>

#include "graph/ops/op.h"

using namespace eng;

namespace {

ValueId identity(Graph& g, ValueId x, const std::string& name) {
  const ValueId out = g.add_value(name, DType::kFloat32);
  Node n;
  n.op_type = "Identity";
  n.inputs = {x};
  n.outputs = {out};
  g.add_node(n);
  return out;
}

// Conv(x, w) -> BatchNormalization whose statistics are copies of its scale and bias, as PyTorch's exporter writes a fresh one.
struct Net {
  Graph g;
  ValueId scale, bias, mean, variance;
  Net() {
    const ValueId x = g.add_value("x", DType::kFloat32);
    g.value(x).role = Role::kInput;
    g.inputs = {x};
    scale = g.add_tensor("bn.weight", Tensor::of<float>({2}, {1, 1}), Role::kConstant);
    bias = g.add_tensor("bn.bias", Tensor::of<float>({2}, {0, 0}), Role::kConstant);
    mean = identity(g, bias, "bn.running_mean");
    variance = identity(g, scale, "bn.running_var");
    g.outputs = {g.node(g.add_node("", "BatchNormalization", {x, scale, bias, mean, variance}, 1, {}, "y")).outputs[0]};
  }
};

}  // namespace

TEST_CASE("statistics that an exporter wrote as copies of equal weights are states under their own names") {
  Net net;
  REQUIRE(find_op("", "BatchNormalization") != nullptr);
  REQUIRE(mark_parameters(net.g).ok());
  CHECK(net.g.value(net.scale).role == Role::kParameter);
  CHECK(net.g.value(net.bias).role == Role::kParameter);
  for (ValueId v : {net.mean, net.variance}) {
    CHECK(net.g.value(v).role == Role::kState);
    REQUIRE(net.g.value(v).data != nullptr);
  }
  CHECK(net.g.value(net.mean).data->at(0) == 0);
  CHECK(net.g.value(net.variance).data->at(0) == 1);
  CHECK(net.g.value(net.mean).name == "bn.running_mean");
  CHECK(net.g.live_nodes().size() == 1);
}

TEST_CASE("a copy of a constant-valued weight is a parameter of its own, a copy of any other weight stays the same weight") {
  for (const bool equal : {true, false}) {
    CAPTURE(equal);
    Graph g;
    const ValueId x = g.add_value("x", DType::kFloat32);
    g.value(x).role = Role::kInput;
    g.inputs = {x};
    const ValueId w = g.add_tensor("w", Tensor::of<float>({2, 2}, {1, 1, 1, equal ? 1.0F : 2.0F}), Role::kConstant);
    const ValueId copy = identity(g, w, "copy");
    const ValueId h = g.node(g.add_node("", "MatMul", {x, w}, 1, {}, "h")).outputs[0];
    g.outputs = {g.node(g.add_node("", "MatMul", {h, copy}, 1, {}, "y")).outputs[0]};
    REQUIRE(mark_parameters(g).ok());
    CHECK(g.value(w).role == Role::kParameter);
    CHECK((g.value(copy).role == Role::kParameter) == equal);
    CHECK((g.value(copy).producer == kNoNode) == equal);
  }
}

TEST_CASE("a dense layer with one output keeps its weight and bias trainable, a formula's single constant stays constant") {
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32);
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  const ValueId w = g.add_tensor("w", Tensor::of<float>({1, 1}, {2}), Role::kConstant), b = g.add_tensor("b", Tensor::of<float>({1}, {3}), Role::kConstant);
  const ValueId shift = g.add_tensor("shift", Tensor::of<float>({1}, {3}), Role::kConstant);
  const ValueId product = g.node(g.add_node("", "MatMul", {x, w}, 1)).outputs[0];
  const ValueId dense = g.node(g.add_node("", "Add", {b, product}, 1)).outputs[0];
  const ValueId active = g.node(g.add_node("", "Relu", {dense}, 1)).outputs[0];
  g.outputs = {g.node(g.add_node("", "Add", {active, shift}, 1)).outputs[0]};
  REQUIRE(mark_parameters(g).ok());
  CHECK(g.value(w).role == Role::kParameter);
  CHECK(g.value(b).role == Role::kParameter);
  CHECK(g.value(shift).role == Role::kConstant);
}
