// Whole steps: gradients of loss, shared weights, statistics, freezing, what is refused. Oracle: the float64 reference
// interpreter for values, finite differences of the whole step for gradients.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/exec/evaluate.h"
#include "graph/surgery/freeze.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"
#include "tests/support/reference/reference.h"

using namespace eng;
using namespace eng::test;

namespace {

Attributes conv_attributes() { return attrs({{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}); }

// Conv - BN - Relu - global pool - dense - Softmax, with the dense layer's weight used twice when `shared`.
ModelBuilder small_net(DType type, bool shared = false) {
  ModelBuilder m(type);
  ValueId x = m.input("x", {2, 5, 5});
  ValueId y = m.op("Conv", {x, m.weight("conv/kernel", {3, 2, 3, 3})}, conv_attributes(), "conv");
  y = m.op("BatchNormalization", {y, m.weight("bn/scale", {3}), m.weight("bn/bias", {3}), m.tensor("bn/mean", {3}, {0, 0, 0}, Role::kState), m.tensor("bn/var", {3}, {1, 1, 1}, Role::kState)},
           attrs({{"epsilon", 1e-3F}}), "bn");
  y = m.op("Relu", {y});
  y = m.op("GlobalAveragePool", {y});
  y = m.op("Flatten", {y});
  ValueId w = m.weight("dense/kernel", {3, 3});
  y = m.op("Gemm", {y, w, m.weight("dense/bias", {3})}, {}, "dense");
  if (shared) y = m.op("MatMul", {y, w});
  y = m.op("Softmax", {y}, attrs({{"axis", int64_t{-1}}}));
  m.output(y, "scores");
  return m;
}

std::map<ValueId, RefTensor> feeds_of(const Step& s, uint64_t seed) {
  std::map<ValueId, RefTensor> feeds;
  Random random(seed);
  for (ValueId v : s.inputs) {
    RefTensor t(s.graph.value(v).dtype, s.graph.value(v).shape);
    for (double& d : t.v) d = random.uniform(-1, 1);
    feeds[v] = t;
  }
  RefTensor labels(DType::kInt64, s.graph.value(s.labels).shape);
  for (double& d : labels.v) d = static_cast<double>(random.between(0, s.classes - 1));
  feeds[s.labels] = labels;
  if (s.learning_rate != kNoValue) {
    RefTensor rate(DType::kFloat32, {});
    rate[0] = 0.1;
    feeds[s.learning_rate] = rate;
  }
  for (ValueId v = 0; v < s.graph.value_count(); ++v)  // states that start at zero
    if (s.graph.value(v).role == Role::kState && !s.graph.value(v).data) feeds[v] = RefTensor(s.graph.value(v).dtype, s.graph.value(v).shape);
  return feeds;
}

void check_step_gradients(const Graph& model) {
  auto step = build_training_step(model, {.batch = 4}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  auto feeds = feeds_of(*step, 3);
  auto values = interpret(step->graph, feeds);
  REQUIRE_MESSAGE(values.ok(), values.status().message());
  for (size_t i = 0; i < step->parameters.size(); ++i) {
    const ValueId w = step->parameters[i];
    const RefTensor gradient = (*values)[step->gradients[i]];
    for (int64_t k = 0; k < gradient.count(); ++k) {
      auto moved = feeds;
      moved[w] = to_reference(*step->graph.value(w).data);
      const double base = moved[w][k], h = 1e-5;
      moved[w][k] = base + h;
      const double up = (*interpret(step->graph, moved))[step->loss][0];
      moved[w][k] = base - h;
      const double down = (*interpret(step->graph, moved))[step->loss][0];
      CHECK_MESSAGE(gradient[k] == doctest::Approx((up - down) / (2 * h)).epsilon(1e-5), step->graph.value(w).name, " element ", k);
    }
  }
}

}  // namespace

TEST_CASE("a step's gradients equal finite differences of its loss") { check_step_gradients(small_net(DType::kFloat64).g); }
TEST_CASE("a weight used twice gets the sum of both gradients") { check_step_gradients(small_net(DType::kFloat64, true).g); }

TEST_CASE("running statistics follow the batch and the optimiser moves the weights") {
  auto step = build_training_step(small_net(DType::kFloat64).g, {.batch = 4}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  auto feeds = feeds_of(*step, 3);
  auto values = interpret(step->graph, feeds);
  REQUIRE(values.ok());
  int parameters = 0, statistics = 0;
  for (auto [state, next] : step->graph.updates) {
    const std::string& name = step->graph.value(state).name;
    if (name == "bn/mean" || name == "bn/var") ++statistics;
    for (size_t i = 0; i < step->parameters.size(); ++i) {
      if (step->parameters[i] != state) continue;
      ++parameters;
      const RefTensor w = to_reference(*step->graph.value(state).data);
      for (int64_t k = 0; k < w.count(); ++k)
        CHECK((*values)[next][k] == doctest::Approx(w[k] - 0.1 * (*values)[step->gradients[i]][k]).epsilon(1e-12));
    }
  }
  CHECK(parameters == 5);
  CHECK(statistics == 2);
}

TEST_CASE("frozen weights are left alone and a frozen normalisation keeps its statistics") {
  Graph g = small_net(DType::kFloat32).g;
  auto names = freeze(g, {"conv*", "bn*"});
  REQUIRE_MESSAGE(names.ok(), names.status().message());
  CHECK(*names == std::vector<std::string>{"conv/kernel", "bn/scale", "bn/bias"});
  auto step = build_training_step(g, {.batch = 2}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  CHECK(step->parameters.size() == 2);
  for (NodeId n : step->graph.live_nodes()) {
    CHECK(step->graph.node(n).op_type != "BatchNormTraining");
    CHECK(step->graph.node(n).op_type != "ConvGradWeight");
    CHECK(step->graph.node(n).op_type != "ConvGradInput");
  }
  auto none = freeze(g, {"nothing*"});
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().message().find("nothing*") != std::string::npos);
}

TEST_CASE("all nodes without a gradient are named in one message") {
  ModelBuilder m;
  ValueId x = m.input("x", {4});
  ValueId a = m.op("Gemm", {x, m.weight("w1", {4, 4})}, {}, "first");
  ValueId bad1 = m.op("com.acme.Mystery", {a}, {}, "odd1");
  ValueId bad2 = m.op("Conjure", {bad1}, {}, "odd2");
  ValueId y = m.op("Gemm", {bad2, m.weight("w2", {4, 3})}, {}, "second");
  m.output(y, "y");
  auto step = build_training_step(m.g, {.batch = 2}, {}, evaluator_on(cpu_device()));
  REQUIRE_FALSE(step.ok());
  CHECK(step.status().code() == Code::kUnsupported);
  CHECK(step.status().message().find("'odd1'") != std::string::npos);
  CHECK(step.status().message().find("'odd2'") != std::string::npos);
}

TEST_CASE("an unknown output is refused with the known ones") {
  Graph g = small_net(DType::kFloat32).g;
  auto step = build_training_step(g, {.batch = 2}, {.target = "missing"}, evaluator_on(cpu_device()));
  REQUIRE_FALSE(step.ok());
  CHECK(step.status().message().find("scores") != std::string::npos);
}

TEST_CASE("every optimiser's first update has Keras's value") {
  // One weight w = 1, loss = w^2 / 2 through mean squared error against 0: gradient 2 * w / 1 = 2 (Keras's mean of squares).
  struct Row { OptimizerSpec spec; double expected; };
  const double g = 2, lr = 0.1;
  const Row rows[] = {
      {{.kind = "sgd"}, 1 - lr * g},
      {{.kind = "sgd", .momentum = 0.9}, 1 - lr * g},
      {{.kind = "sgd", .momentum = 0.9, .nesterov = true}, 1 + 0.9 * (-lr * g) - lr * g},
      {{.kind = "rmsprop"}, 1 - lr * g / (std::sqrt(0.1 * g * g) + 1e-7)},
      {{.kind = "adam"}, 1 - lr * std::sqrt(1 - 0.999) / (1 - 0.9) * (0.1 * g) / (std::sqrt(0.001 * g * g) + 1e-7)},
      {{.kind = "adamw", .weight_decay = 0.01}, 1 - lr * std::sqrt(1 - 0.999) / (1 - 0.9) * (0.1 * g) / (std::sqrt(0.001 * g * g) + 1e-7) - lr * 0.01},
      {{.kind = "sgd", .clip_value = 0.5}, 1 - lr * 0.5},
      {{.kind = "sgd", .clip_norm = 1}, 1 - lr * 1},
  };
  for (const Row& row : rows) {
    ModelBuilder m(DType::kFloat64);
    ValueId x = m.input("x", {1});
    m.output(m.op("MatMul", {x, m.tensor("w", {1, 1}, {1})}), "y");
    auto step = build_training_step(m.g, {.batch = 1}, {.loss = LossKind::kMeanSquaredError, .optimizer = row.spec}, evaluator_on(cpu_device()));
    REQUIRE_MESSAGE(step.ok(), row.spec.kind, ": ", step.status().message());
    std::map<ValueId, RefTensor> feeds;
    feeds[step->inputs[0]] = RefTensor(DType::kFloat64, {1, 1});
    feeds[step->inputs[0]][0] = 1;
    feeds[step->labels] = RefTensor(DType::kFloat64, {1, 1});
    feeds[step->learning_rate] = RefTensor(DType::kFloat32, {});
    feeds[step->learning_rate][0] = lr;
    for (ValueId v = 0; v < step->graph.value_count(); ++v)
      if (step->graph.value(v).role == Role::kState && !step->graph.value(v).data) feeds[v] = RefTensor(step->graph.value(v).dtype, step->graph.value(v).shape);
    auto values = interpret(step->graph, feeds);
    REQUIRE_MESSAGE(values.ok(), values.status().message());
    for (auto [state, next] : step->graph.updates)
      if (step->graph.value(state).name == "w") CHECK_MESSAGE((*values)[next][0] == doctest::Approx(row.expected).epsilon(1e-6), row.spec.kind);
  }
}

TEST_CASE("a batch baked into a file's Reshape gives way to the one that is trained with") {
  ModelBuilder m;
  ValueId x = m.input("x", {2, 3});
  m.g.value(x).declared_dims[0] = 1;  // exported with batch 1
  m.g.value(x).declared_dim_names[0] = "";
  ValueId y = m.op("Reshape", {x, m.tensor("shape", {2}, {1, 6}, Role::kConstant, DType::kInt64)});
  y = m.op("Add", {y, m.op("Reshape", {m.weight("row", {6}), m.tensor("row_shape", {2}, {1, 6}, Role::kConstant, DType::kInt64)})});
  y = m.op("Gemm", {y, m.weight("w", {6, 3})});
  m.output(y, "y");
  for (int64_t batch : {1, 4}) {
    auto step = build_training_step(m.g, {.batch = batch}, {}, evaluator_on(cpu_device()));
    REQUIRE_MESSAGE(step.ok(), step.status().message());
    CHECK(step->graph.value(step->inputs[0]).shape == Shape{batch, 2, 3});
    CHECK(step->parameters.size() == 2);
    CHECK(interpret(step->graph, feeds_of(*step, 1)).ok());
  }
}

TEST_CASE("an input without a batch beside one with a batch is kept at zero") {
  ModelBuilder m;
  ValueId x = m.input("x", {3});
  ValueId h = m.input("h", {1, 3});
  m.g.value(h).declared_dims = {1, 1, 3};
  m.g.value(h).declared_dim_names = {"", "", ""};
  ValueId y = m.op("Add", {x, m.op("Reshape", {h, m.tensor("shape", {2}, {1, 3}, Role::kConstant, DType::kInt64)})});
  m.output(m.op("Gemm", {y, m.weight("w", {3, 2})}), "y");
  auto step = build_training_step(m.g, {.batch = 5}, {}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  CHECK(step->inputs == std::vector<ValueId>{x});
}

TEST_CASE("a closing Sigmoid is recognised behind views and reductions of single axes, whatever the batch") {
  for (int64_t batch : {1, 8}) {
    for (bool reduced : {false, true}) {
      ModelBuilder m(DType::kFloat64);
      ValueId y = m.op("Gemm", {m.input("x", {3}), m.weight("w", {3, 1})});
      const ValueId logits = y;
      y = m.op("Sigmoid", {y});
      if (reduced) y = m.op("ReduceMean", {y, m.tensor("axes", {1}, {1}, Role::kConstant, DType::kInt64)}, attrs({{"keepdims", int64_t{0}}}));
      else {
        y = m.op("Reshape", {y, m.tensor("across", {3}, {1, 1, -1}, Role::kConstant, DType::kInt64)});
        y = m.op("Reshape", {y, m.tensor("flat", {1}, {-1}, Role::kConstant, DType::kInt64)});
      }
      m.output(y, "p");
      auto step = build_training_step(m.g, {.batch = batch}, {}, evaluator_on(cpu_device()));
      REQUIRE_MESSAGE(step.ok(), step.status().message());
      CHECK(step->loss_kind == LossKind::kBinary);
      CHECK(step->loss_note.find("ends in Sigmoid") != std::string::npos);
      CHECK(step->loss_note.find(m.g.value(logits).name) != std::string::npos);
    }
  }
}
