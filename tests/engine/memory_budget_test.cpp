// Training within a given amount of memory: weights after several steps must have the bits of a run that keeps everything, the real
// program must stay within the limit, estimates must be what programs report and what the device hands out.
#include <doctest/doctest.h>

#include "engine/exec/estimate.h"
#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "engine/memory/budget.h"
#include "graph/passes/recompute.h"
#include "graph/surgery/training_step.h"
#include "tests/support/counting_backend.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

ValueId conv_norm_relu(ModelBuilder& m, ValueId x, const std::string& name, int64_t in, int64_t out, int64_t kernel = 3) {
  const int64_t pad = kernel / 2;
  ValueId y = m.op("Conv", {x, m.weight(name + "/kernel", {out, in, kernel, kernel}, 0.3)}, attrs({{"pads", std::vector<int64_t>{pad, pad, pad, pad}}}), name);
  y = m.op("BatchNormalization",
           {y, m.tensor(name + "/scale", {out}, std::vector<double>(static_cast<size_t>(out), 1)), m.weight(name + "/bias", {out}),
            m.tensor(name + "/mean", {out}, std::vector<double>(static_cast<size_t>(out), 0), Role::kState),
            m.tensor(name + "/var", {out}, std::vector<double>(static_cast<size_t>(out), 1), Role::kState)},
           {}, name + "_norm");
  return m.op("Relu", {y}, {}, name + "_relu");
}

// Blocks of three branches (pool, short, long), joined; dropout and a dense layer behind.
Graph inception(int blocks) {
  ModelBuilder m;
  ValueId y = conv_norm_relu(m, m.input("x", {3, 12, 12}), "stem", 3, 16);
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "b" + std::to_string(i);
    ValueId pool = m.op("AveragePool", {y}, attrs({{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}), name + "_pool");
    ValueId a = conv_norm_relu(m, pool, name + "_a", 16, 4, 1);
    ValueId b = conv_norm_relu(m, y, name + "_b", 16, 4, 1);
    ValueId c = conv_norm_relu(m, conv_norm_relu(m, y, name + "_c", 16, 8, 1), name + "_d", 8, 8);
    y = m.op("Concat", {a, b, c}, attrs({{"axis", int64_t{1}}}), name + "_join");
  }
  y = m.op("MaxPool", {y}, attrs({{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}}));
  y = m.op("Dropout", {m.op("Flatten", {y}), m.tensor("ratio", {}, {0.4}, Role::kConstant)});
  m.output(m.op("Gemm", {y, m.weight("dense/kernel", {576, 5}), m.weight("dense/bias", {5})}), "scores");
  return m.g;
}

// Two recurrent layers with dropout and tanh between, over [N, 7, 6].
Graph recurrent() {
  ModelBuilder m;
  auto layer = [&](ValueId x, const std::string& name, int64_t in) {
    ValueId y = m.op("LSTM", {x, m.weight(name + "/w", {1, 32, in}), m.weight(name + "/r", {1, 32, 8}), m.weight(name + "/b", {1, 64})},
                     attrs({{"hidden_size", int64_t{8}}}), name);
    return m.op("Squeeze", {y, m.g.add_tensor(name + "/axis", Tensor::ints({1}), Role::kConstant)});
  };
  ValueId x = m.op("Transpose", {m.input("x", {7, 6})}, attrs({{"perm", std::vector<int64_t>{1, 0, 2}}}));
  ValueId y = m.op("Dropout", {layer(x, "first", 6), m.tensor("ratio", {}, {0.3}, Role::kConstant)});
  y = layer(m.op("Mul", {m.op("Tanh", {y}), y}), "second", 8);
  y = m.op("ReduceMean", {y, m.g.add_tensor("axes", Tensor::ints({0}), Role::kConstant)}, attrs({{"keepdims", int64_t{0}}}));
  m.output(m.op("Gemm", {y, m.weight("dense/kernel", {8, 4}), m.weight("dense/bias", {4})}), "scores");
  return m.g;
}

// Dense layers with layer normalisation and residual connections.
Graph residual() {
  ModelBuilder m;
  ValueId y = m.op("Gemm", {m.input("x", {10}), m.weight("in", {10, 24}), m.weight("in_bias", {24})});
  for (int i = 0; i < 4; ++i) {
    const std::string name = "r" + std::to_string(i);
    ValueId n = m.op("LayerNormalization", {y, m.tensor(name + "/scale", {24}, std::vector<double>(24, 1)), m.weight(name + "/shift", {24})});
    ValueId h = m.op("Gelu", {m.op("Gemm", {n, m.weight(name + "/w1", {24, 48}), m.weight(name + "/b1", {48})})});
    y = m.op("Add", {y, m.op("Gemm", {h, m.weight(name + "/w2", {48, 24}), m.weight(name + "/b2", {24})})});
  }
  m.output(m.op("Gemm", {m.op("Sigmoid", {y}), m.weight("out", {24, 5}), m.weight("out_bias", {5})}), "scores");
  return m.g;
}

Step step_of(const Graph& model, const std::string& optimizer, int64_t batch = 8) {
  auto step = build_training_step(model, {.batch = batch}, {.loss = LossKind::kSparseCategorical, .optimizer = {.kind = optimizer, .momentum = optimizer == "sgd" ? 0.9 : 0}, .seed = 5},
                                  evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  return std::move(*step);
}

struct Trained {
  std::map<std::string, std::string> states;  // bytes
  std::vector<std::string> losses;
  uint64_t total = 0;
};

std::string bytes_of(const Tensor& t) { return {reinterpret_cast<const char*>(t.bytes()), t.byte_count()}; }

Trained train(const Step& step, const Graph& graph, int steps = 5) {
  auto store = std::make_shared<StateStore>(cpu_device());
  auto program = Program::compile(graph, cpu_device(), store, {step.loss});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  Trained result;
  result.total = (*program)->memory().total();
  Random random(17);
  for (int s = 0; s < steps; ++s) {
    const Value& in = graph.value(step.inputs[0]);
    Tensor x(in.dtype, in.shape), labels(DType::kInt64, graph.value(step.labels).shape), rate(DType::kFloat32, {}), loss;
    for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, random.uniform(-1, 1));
    for (int64_t i = 0; i < labels.element_count(); ++i) labels.set(i, static_cast<double>(random.between(0, step.classes - 1)));
    rate.set(0, 0.05);
    REQUIRE((*program)->feed(step.inputs[0], x).ok());
    REQUIRE((*program)->feed(step.labels, labels).ok());
    REQUIRE((*program)->feed(step.learning_rate, rate).ok());
    REQUIRE((*program)->run().ok());
    REQUIRE((*program)->fetch(step.loss, loss).ok());
    result.losses.push_back(bytes_of(loss));
  }
  for (const auto& [state, next] : graph.updates) {
    auto t = store->get(graph.value(state).name);
    REQUIRE(t.ok());
    result.states[graph.value(state).name] = bytes_of(*t);
  }
  return result;
}

void check_same_bits(const Trained& a, const Trained& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.states.size() == b.states.size());
  for (const auto& [name, bytes] : a.states) CHECK_MESSAGE(b.states.at(name) == bytes, name);
}

}  // namespace

TEST_CASE("recomputation changes no bit of weights, slots, statistics and losses") {
  const std::pair<Graph, std::string> models[] = {{inception(3), "sgd"}, {recurrent(), "adam"}, {residual(), "rmsprop"}};
  for (const auto& [model, optimizer] : models) {
    CAPTURE(optimizer);
    const Step step = step_of(model, optimizer);
    const Trained whole = train(step, step.graph);
    CHECK(whole.losses.front() != whole.losses.back());  // something is learnt
    for (uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      std::vector<char> kept(static_cast<size_t>(step.graph.value_count()), 0);
      for (char& k : kept) k = seed > 0 ? static_cast<char>(random.between(kAgain, kEachTime)) : char{kAgain};
      Graph g = step.graph;
      auto copies = recompute(g, kept);
      REQUIRE_MESSAGE(copies.ok(), copies.status().message());
      CHECK(*copies > 0);
      check_same_bits(whole, train(step, g));
    }
  }
}

TEST_CASE("a shard's gradients and statistics have the same bits with recomputation") {
  for (const Graph& model : {inception(3), recurrent()}) {
    auto step = build_training_step(model, {.batch = 4}, {.loss = LossKind::kSparseCategorical, .seed = 5, .sharded = true}, evaluator_on(cpu_device()));
    REQUIRE_MESSAGE(step.ok(), step.status().message());
    std::vector<ValueId> results = step->gradients;
    for (const auto& [state, part] : step->statistics) results.push_back(part);
    std::vector<std::vector<std::string>> bits;
    for (Keep keep : {kKept, kAgain, kEachTime}) {
      Graph g = step->graph;
      auto copies = recompute(g, std::vector<char>(static_cast<size_t>(g.value_count()), keep));
      REQUIRE_MESSAGE(copies.ok(), copies.status().message());
      CHECK((*copies > 0) == (keep != kKept));
      auto program = Program::compile(g, cpu_device(), std::make_shared<StateStore>(cpu_device()), results);
      REQUIRE_MESSAGE(program.ok(), program.status().message());
      Random random(3);
      std::vector<Tensor> held;
      for (ValueId v : g.inputs) {
        const Value& in = g.value(v);
        Tensor t(in.dtype, in.shape);
        for (int64_t i = 0; i < t.element_count(); ++i) t.set(i, v == step->share ? 0.25 : in.dtype == DType::kInt64 ? static_cast<double>(random.between(0, 3)) : random.uniform(-1, 1));
        held.push_back(v == step->random_offset ? random_offset_of(2) : t);
      }
      for (size_t i = 0; i < held.size(); ++i) REQUIRE((*program)->feed(g.inputs[i], held[i]).ok());
      REQUIRE((*program)->run().ok());
      std::vector<std::string>& these = bits.emplace_back();
      for (ValueId v : results) {
        Tensor t;
        REQUIRE((*program)->fetch(v, t).ok());
        these.push_back(bytes_of(t));
      }
    }
    CHECK(bits[1] == bits[0]);
    CHECK(bits[2] == bits[0]);
  }
}

TEST_CASE("a step is fitted into what is asked for, and the program stays within it") {
  const Step step = step_of(inception(8), "sgd");
  const Trained whole = train(step, step.graph);
  MemoryEstimate estimate(cpu_device());
  const MemoryEstimator need = estimate.for_fetches({step.loss});
  for (double share : {0.9, 0.75, 0.6, 0.5}) {
    CAPTURE(share);
    const uint64_t limit = static_cast<uint64_t>(share * static_cast<double>(whole.total));
    auto choice = fit_memory(step.graph, limit, need);
    REQUIRE_MESSAGE(choice.ok(), choice.status().message());
    CHECK(choice->bytes_without == whole.total);
    CHECK(choice->bytes <= limit);
    CHECK(choice->recomputed.size() > 0);
    CHECK(choice->copies >= static_cast<int>(choice->recomputed.size()));
    CHECK(choice->slow_down > 1);
    CHECK(choice->slow_down < 1.5);
    const Trained fitted = train(step, choice->graph);
    CHECK(fitted.total == choice->bytes);
    check_same_bits(whole, fitted);
    auto second = fit_memory(step.graph, limit, need);
    REQUIRE(second.ok());
    CHECK(second->recomputed == choice->recomputed);
    CHECK(print(second->graph) == print(choice->graph));
  }
}

TEST_CASE("a step that fits is left as it is") {
  const Step step = step_of(residual(), "sgd");
  MemoryEstimate estimate(cpu_device());
  auto choice = fit_memory(step.graph, uint64_t{1} << 40, estimate.for_fetches({step.loss}));
  REQUIRE(choice.ok());
  CHECK(choice->copies == 0);
  CHECK(choice->recomputed.empty());
  CHECK(choice->slow_down == 1);
  CHECK(print(choice->graph) == print(step.graph));
}

TEST_CASE("a limit that cannot be met is refused with the fewest bytes that can, and those are enough") {
  const Step step = step_of(inception(6), "adam");
  MemoryEstimate estimate(cpu_device());
  const MemoryEstimator need = estimate.for_fetches({step.loss});
  uint64_t smallest = 0, again = 0;
  auto none = fit_memory(step.graph, 1000, need, &smallest);
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == Code::kDevice);
  CHECK(none.status().message().find("does not fit into 1000 bytes") != std::string::npos);
  CHECK(none.status().message().find(std::to_string(smallest)) != std::string::npos);
  CHECK_FALSE(fit_memory(step.graph, smallest / 2, need, &again).ok());
  CHECK(again == smallest);  // does not depend on what was asked for
  auto choice = fit_memory(step.graph, smallest, need);
  REQUIRE_MESSAGE(choice.ok(), choice.status().message());
  CHECK(train(step, choice->graph, 1).total <= smallest);

  auto forward = build_evaluation_step(residual(), {.batch = 4}, {.loss = LossKind::kSparseCategorical}, evaluator_on(cpu_device()));
  REQUIRE(forward.ok());
  auto refused = fit_memory(forward->graph, 100, estimate.for_fetches({forward->loss}), &smallest);
  REQUIRE_FALSE(refused.ok());
  CHECK(smallest > 100);
}

TEST_CASE("estimates are what the compiled program reports") {
  for (const Graph& model : {inception(2), recurrent(), residual()}) {
    const Step step = step_of(model, "sgd");
    Graph g = step.graph;
    REQUIRE(recompute(g, std::vector<char>(static_cast<size_t>(g.value_count()), 0)).ok());
    for (const Graph& graph : {step.graph, g}) {
      for (bool layouts : {true, false}) {
        MemoryEstimate estimate(cpu_device());
        auto program = Program::compile(graph, cpu_device(), std::make_shared<StateStore>(cpu_device()), {step.loss, step.correct}, {.assign_layouts = layouts});
        REQUIRE_MESSAGE(program.ok(), program.status().message());
        const MemoryReport& m = (*program)->memory();
        for (int time = 0; time < 2; ++time) {  // the second from what is known of the nodes
          auto report = estimate.report(graph, {step.loss, step.correct}, {.assign_layouts = layouts});
          REQUIRE_MESSAGE(report.ok(), report.status().message());
          CHECK(report->total() == m.total());
          CHECK(report->arena == m.arena);
          CHECK(report->workspace == m.workspace);
          CHECK(report->activations == m.activations);
          CHECK(report->peak_node == m.peak_node);
          CHECK(report->live == m.live);
        }
      }
    }
  }
}

TEST_CASE("what was planned for a fitted step is what the device hands out") {
  const Step step = step_of(inception(4), "sgd");
  auto device = Device::open(counting_backend(), 0, {.threads = 2});
  REQUIRE(device.ok());
  MemoryEstimate estimate(*device);
  auto whole = estimate.report(step.graph, {step.loss});
  REQUIRE(whole.ok());
  auto choice = fit_memory(step.graph, whole->total() * 6 / 10, estimate.for_fetches({step.loss}));
  REQUIRE_MESSAGE(choice.ok(), choice.status().message());
  for (const Graph* graph : {static_cast<const Graph*>(&step.graph), static_cast<const Graph*>(&choice->graph)}) {
    const uint64_t at_start = device_allocations().bytes;
    auto store = std::make_shared<StateStore>(*device);
    auto program = Program::compile(*graph, *device, store, {step.loss});
    REQUIRE_MESSAGE(program.ok(), program.status().message());
    const double planned = static_cast<double>((*program)->memory().total()), taken = static_cast<double>(device_allocations().bytes - at_start);
    CHECK(std::abs(taken - planned) <= 0.03 * planned);
  }
}
