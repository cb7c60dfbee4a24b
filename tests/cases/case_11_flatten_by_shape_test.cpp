// A flatten that an exporter wrote as Shape -> Gather -> Unsqueeze -> Concat -> Reshape is the same as Flatten(axis=1): outputs, gradients, any
// batch size; and its integers are never parameters.
#include "graph/autodiff/autodiff.h"
#include "graph/passes/bind_shapes.h"
#include "graph/passes/infer_shapes.h"
#include "tests/importers/run_model.h"

namespace eng {
namespace {

using namespace eng::test;

enum class Form { kFlatten, kIndexInitializer, kIndexConstant };

ModelProto model(int64_t opset, Form form) {
  ModelProto m = empty_model(opset);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2, 2, 2});
  std::vector<float> w(24);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) * 0.25f - 0.5f;
  *g.add_initializer() = float_tensor("W", {3, 8}, w);
  *g.add_initializer() = float_tensor("B", {3}, {0.5f, -1, 2});
  if (form == Form::kFlatten) {
    set_int(add_node(g, "Flatten", {"x"}, {"flat"}), "axis", 1);
  } else {
    TensorProto index = int_tensor("index", {0});
    index.clear_dims();  // rank 0
    if (form == Form::kIndexInitializer) {
      *g.add_initializer() = index;
      *add_attribute(add_node(g, "Constant", {}, {"rest"}), "value", AttributeProto::TENSOR).mutable_t() = int_tensor("", {-1});
    } else {
      *add_attribute(add_node(g, "Constant", {}, {"index"}), "value", AttributeProto::TENSOR).mutable_t() = index;
      *g.add_initializer() = int_tensor("rest", {-1});
    }
    add_node(g, "Shape", {"x"}, {"shape"});
    add_node(g, "Gather", {"shape", "index"}, {"n"});
    if (opset < 13) {
      set_ints(add_node(g, "Unsqueeze", {"n"}, {"n1"}), "axes", {0});
    } else {
      *g.add_initializer() = int_tensor("axes", {0});
      add_node(g, "Unsqueeze", {"n", "axes"}, {"n1"});
    }
    set_int(add_node(g, "Concat", {"n1", "rest"}, {"target"}), "axis", 0);
    add_node(g, "Reshape", {"x", "target"}, {"flat"});
  }
  set_int(add_node(g, "Gemm", {"flat", "W", "B"}, {"y"}), "transB", 1);
  add_output(g, "y", {-1, 3});
  return m;
}

// y, dW and dB for loss = sum(y^2).
std::vector<Tensor> outputs_and_gradients(const ModelProto& m, int64_t batch) {
  Graph g = import_model(m);
  REQUIRE(mark_parameters(g).ok());
  int parameters = 0;
  for (ValueId v = 0; v < g.value_count(); ++v) {
    if (g.value(v).role != Role::kParameter) continue;
    ++parameters;
    CHECK(is_floating(g.value(v).dtype));
  }
  CHECK(parameters == 2);
  REQUIRE(bind_shapes(g, {.batch = batch, .rebatch = true, .shapes = {}}).ok());
  const Status inferred = infer_shapes(g, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(inferred.ok(), inferred.message());
  Builder b(g, Phase::kLoss);
  const ValueId y = g.outputs[0];
  Attributes whole;
  whole.set("keepdims", int64_t{0});
  const ValueId loss = b.op("ReduceSum", {b.op("Mul", {y, y})}, whole);
  REQUIRE_MESSAGE(b.status().ok(), b.status().message());
  auto gradients = differentiate(g, loss, {g.find_value("W"), g.find_value("B")});
  REQUIRE_MESSAGE(gradients.ok(), gradients.status().message());
  auto out = evaluate(cpu_device(), g, {{g.inputs[0], ramp({batch, 2, 2, 2}, 0.125f)}}, {y, (*gradients)[0], (*gradients)[1]});
  REQUIRE_MESSAGE(out.ok(), out.status().message());
  return *out;
}

}  // namespace

TEST_CASE("case 11: flatten by shape arithmetic gives Flatten's outputs and gradients for every batch size") {
  for (int64_t opset : {9, 13})
    for (Form form : {Form::kIndexInitializer, Form::kIndexConstant})
      for (int64_t batch : {1, 4, 3}) {
        CAPTURE(opset);
        CAPTURE(batch);
        const auto wanted = outputs_and_gradients(model(opset, Form::kFlatten), batch), got = outputs_and_gradients(model(opset, form), batch);
        for (size_t i = 0; i < 3; ++i) check_near(got[i], wanted[i].shape(), numbers(wanted[i]), 1e-6);
        // By hand for the twin: y[0] = sum over i of x[i] W[j][i] + B[j].
        if (batch == 1) check_near(got[0], {1, 3}, {1.59375, -0.34375, 2.4375});
      }
}

}  // namespace eng
