// Training on another device (tests/support/device_nets.h) against the CPU: the same steps give nearly the same losses, weights and running statistics.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/exec/evaluate.h"
#include "engine/exec/program.h"
#include "graph/surgery/training_step.h"
#include "tests/support/backend_conformance.h"
#include "tests/support/device_nets.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

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
  compare(mlp_net().g, {.kind = "adam", .clip_norm = 0.5});
}
TEST_CASE("training on another device: convolutions, batch normalisation and pools, momentum") {
  compare(cnn_net().g, {.momentum = 0.9, .nesterov = true});
}
TEST_CASE("training on another device: depthwise convolution, squeeze-and-excite, RMSprop") { compare(mobile_net().g, {.kind = "rmsprop"}); }

TEST_CASE("conformance: the backend of ENGINE_TEST_DEVICE") { run_backend_conformance(&other_device()->backend()); }
