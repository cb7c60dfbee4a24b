// Head replacement: what is found, cut and put, and what is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/exec/evaluate.h"
#include "graph/surgery/replace_head.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

int64_t output_columns(const Graph& g) {
  auto step = build_prediction_step(g, {.batch = 3}, "", evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  const Shape& s = step->graph.value(step->predictions).shape;
  CHECK(s[0] == 3);
  return element_count(s) / 3;
}

}  // namespace

TEST_CASE("a dense head gets fresh weights for the new classes and keeps its softmax") {
  for (bool transposed : {false, true}) {
    ModelBuilder m;
    ValueId x = m.input("x", {6});
    ValueId y = m.op("Gemm", {x, m.weight("w", transposed ? Shape{5, 6} : Shape{6, 5}), m.weight("b", {5})}, attrs({{"transB", int64_t{transposed}}}), "fc");
    y = m.op("Softmax", {y}, attrs({{"axis", int64_t{-1}}}));
    m.output(y, "scores");
    auto report = replace_head(m.g, {.classes = 3, .seed = 7}, {}, evaluator_on(cpu_device()));
    REQUIRE_MESSAGE(report.ok(), report.status().message());
    CHECK(report->old_classes == 5);
    CHECK(report->old_parameters == std::vector<std::string>{"w", "b"});
    CHECK(output_columns(m.g) == 3);
    CHECK(m.g.value(m.g.outputs[0]).name == "scores");
    CHECK(m.g.node(m.g.value(m.g.outputs[0]).producer).op_type == "Softmax");
  }
}

TEST_CASE("a head with one output has a sigmoid, several outputs that were one have a softmax") {
  for (const auto& [before, from, to, after] : std::vector<std::tuple<const char*, int64_t, int64_t, const char*>>{
           {"Softmax", 5, 1, "Sigmoid"}, {"LogSoftmax", 5, 1, "Sigmoid"}, {"Sigmoid", 1, 4, "Softmax"}, {"Sigmoid", 1, 1, "Sigmoid"}, {"Sigmoid", 5, 3, "Sigmoid"}, {"LogSoftmax", 5, 3, "LogSoftmax"}}) {
    CAPTURE(std::string(before));
    CAPTURE(to);
    ModelBuilder m;
    ValueId y = m.op("Gemm", {m.input("x", {6}), m.weight("w", {6, from})}, {}, "fc");
    y = std::string(before) == "Sigmoid" ? m.op(before, {y}) : m.op(before, {y}, attrs({{"axis", int64_t{1}}}));
    m.output(y, "scores");
    REQUIRE(replace_head(m.g, {.classes = to}, {}, evaluator_on(cpu_device())).ok());
    CHECK(m.g.node(m.g.value(m.g.outputs[0]).producer).op_type == after);
    CHECK(output_columns(m.g) == to);
  }
}

TEST_CASE("MatMul and Add make a head too") {
  ModelBuilder m;
  ValueId x = m.input("x", {6});
  ValueId y = m.op("MatMul", {x, m.weight("w", {6, 4})});
  y = m.op("Add", {y, m.weight("b", {4})});
  m.output(y, "logits");
  auto report = replace_head(m.g, {.classes = 10}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(report.ok(), report.status().message());
  CHECK(output_columns(m.g) == 10);
}

TEST_CASE("a convolution that is only pooled is the head of a fully convolutional net") {
  ModelBuilder m;
  ValueId x = m.input("x", {3, 4, 4});
  ValueId y = m.op("Conv", {x, m.weight("w", {7, 3, 1, 1}), m.weight("b", {7})});
  y = m.op("Relu", {y});
  y = m.op("GlobalAveragePool", {y});
  y = m.op("Reshape", {y, m.tensor("shape", {2}, {-1, 7}, Role::kConstant, DType::kInt64)});
  y = m.op("Softmax", {y}, attrs({{"axis", int64_t{-1}}}));
  m.output(y, "scores");
  auto report = replace_head(m.g, {.classes = 2}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(report.ok(), report.status().message());
  CHECK(report->old_classes == 7);
  CHECK(output_columns(m.g) == 2);
}

TEST_CASE("a tail that is not recognised is refused with advice, and cutting by name works") {
  ModelBuilder m;
  ValueId x = m.input("x", {3, 4, 4});
  ValueId f = m.op("Conv", {x, m.weight("w", {8, 3, 1, 1})}, {}, "features");
  ValueId y = m.op("Transpose", {f}, attrs({{"perm", std::vector<int64_t>{0, 2, 3, 1}}}));
  m.output(y, "map");
  const Graph before = m.g;
  auto refused = replace_head(m.g, {.classes = 2}, {}, evaluator_on(cpu_device()));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("--cut-at") != std::string::npos);
  CHECK(print(m.g) == print(before));
  auto report = replace_head(m.g, {.classes = 2, .cut_at = "features", .dropout = 0.2}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(report.ok(), report.status().message());
  CHECK(output_columns(m.g) == 2);
  CHECK(m.g.value(m.g.outputs[0]).name == "map");
}

TEST_CASE("the same seed gives the same fresh weights, another seed others") {
  auto head = [](uint64_t seed) {
    ModelBuilder m;
    ValueId x = m.input("x", {6});
    m.output(m.op("MatMul", {x, m.weight("w", {6, 4})}), "y");
    REQUIRE(replace_head(m.g, {.classes = 5, .seed = seed}, {}, evaluator_on(cpu_device())).ok());
    const Tensor& t = *m.g.value(m.g.find_value("head/kernel")).data;
    return std::vector<float>(t.data<float>(), t.data<float>() + t.element_count());
  };
  CHECK(head(1) == head(1));
  CHECK(head(1) != head(2));
  for (float w : head(1)) CHECK(std::abs(w) <= std::sqrt(6.0F / 11.0F));
}

TEST_CASE("the model can be cut behind its last node, whose result is the output itself") {
  ModelBuilder m;
  ValueId y = m.op("Gemm", {m.input("x", {6}), m.weight("w", {6, 5})}, {}, "fc");
  y = m.op("Relu", {y}, {}, "last");
  m.output(y, "out");
  auto report = replace_head(m.g, {.classes = 3, .cut_at = "last"}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(report.ok(), report.status().message());
  CHECK(output_columns(m.g) == 3);
  CHECK(m.g.value(m.g.outputs[0]).name == "out");
  CHECK(verify(m.g).ok());
}
