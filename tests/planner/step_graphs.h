// A small step graph with all that matters for placing: branches of Conv + BatchNormalization + Relu, a concatenation, a
// residual sum, and a weight matrix that two nodes share.
#pragma once

#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"

namespace eng::test {

inline ValueId conv_bn_relu(ModelBuilder& m, ValueId x, int64_t in, int64_t out, const std::string& name) {
  ValueId y = m.op("Conv", {x, m.weight(name + "/kernel", {out, in, 3, 3})}, attrs({{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}), name);
  y = m.op("BatchNormalization",
           {y, m.weight(name + "/scale", {out}), m.weight(name + "/bias", {out}), m.tensor(name + "/mean", {out}, std::vector<double>(static_cast<size_t>(out), 0), Role::kState),
            m.tensor(name + "/var", {out}, std::vector<double>(static_cast<size_t>(out), 1), Role::kState)},
           attrs({{"epsilon", 1e-3F}}), name + "/bn");
  return m.op("Relu", {y}, {}, name + "/relu");
}

inline Graph branches_model() {
  ModelBuilder m;
  const ValueId x = conv_bn_relu(m, m.input("x", {2, 6, 6}), 2, 4, "stem");
  const ValueId a = conv_bn_relu(m, x, 4, 4, "a"), b = conv_bn_relu(m, conv_bn_relu(m, x, 4, 4, "b1"), 4, 4, "b2");
  ValueId y = m.op("Concat", {a, b}, attrs({{"axis", int64_t{1}}}), "join");
  y = m.op("Add", {y, conv_bn_relu(m, y, 8, 8, "residual")}, {}, "sum");
  y = m.op("Flatten", {m.op("GlobalAveragePool", {y}, {}, "pool")}, {}, "flatten");
  const ValueId w = m.weight("shared/kernel", {8, 8});
  y = m.op("MatMul", {m.op("Tanh", {m.op("MatMul", {y, w}, {}, "first")}, {}, "tanh"), w}, {}, "second");
  m.output(m.op("Softmax", {y}, attrs({{"axis", int64_t{-1}}}), "softmax"), "scores");
  return m.g;
}

inline Step branches_step(double clip_norm = 0, int64_t batch = 4) {
  OptimizerSpec optimizer;
  optimizer.kind = "adam";
  optimizer.clip_norm = clip_norm;
  auto step = build_training_step(branches_model(), {.batch = batch}, {.optimizer = optimizer}, nullptr);
  return step.ok() ? *step : Step{};
}

}  // namespace eng::test
