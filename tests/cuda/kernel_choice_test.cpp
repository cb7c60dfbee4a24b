// Which nodes cuDNN is given and which go to the plugin's own kernels, with what reason; and what happens where cuDNN refuses a node when it runs. That the kernels
// compute what the operators define is tested by tests/ops and by the ABI's conformance, once for each kernel.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backends/abi/backend.hpp"
#include "engine/plugin/node_desc.h"
#include "graph/ops/op.h"
#include "tests/support/cuda_emulation/emulation.h"
#include "tests/support/op_check.h"

extern "C" const eb_backend_table* eb_get_backend(void);

using namespace eng;
using namespace eng::test;

namespace {

using Ints = std::vector<int64_t>;
enum class Last { kNo, kYes, kInputOnly };

struct Choice {
  const char* says;  // part of cuDNN's refusal; null where it takes the node
  const char *domain, *op;
  std::vector<Shape> inputs;
  Attributes attributes;
  std::vector<bool> outputs{true};
  DType type = DType::kFloat32;
  Last last = Last::kNo;  // channels-last: none, the tensors of X's rank, the input alone
};

Attributes window(Ints kernel, Ints pads, std::initializer_list<std::pair<const char*, Attribute>> more = {}) {
  Attributes a = attrs({{"kernel_shape", kernel}, {"pads", pads}, {"strides", Ints(kernel.size(), 2)}});
  for (const auto& [name, value] : more) a.set(name, value);
  return a;
}

// Why "cudnn" refuses the node, "" where it takes it; the own kernels must take it in any case.
std::string refusal(const Choice& c) {
  Graph g;
  Node n;
  n.domain = c.domain;
  n.op_type = c.op;
  n.attributes = c.attributes;
  for (const Shape& shape : c.inputs) {
    n.inputs.push_back(g.add_value("x", c.type, shape));
    if (c.last != Last::kNo && shape.size() == c.inputs[0].size() && shape.size() > 2) g.value(n.inputs.back()).layout = Layout::kChannelsLast;
  }
  for (const bool wanted : c.outputs) n.outputs.push_back(wanted ? g.add_value("y") : kNoValue);
  const NodeId id = g.add_node(n);
  const Status inferred = infer_node(g, id);
  REQUIRE_MESSAGE(inferred.ok(), inferred.message());
  for (const ValueId v : g.node(id).outputs)
    if (v != kNoValue && c.last == Last::kYes && g.value(v).shape.size() == c.inputs[0].size()) g.value(v).layout = Layout::kChannelsLast;
  const NodeDesc desc(g, g.node(id), {});
  const eb_backend_table* b = eb_get_backend();
  std::string cudnn = "there is no kernel by cuDNN";
  bool other = false;
  for (uint32_t i = 0; i < b->kernel_count; ++i) {
    const eb_kernel_desc* d = b->kernels[i];
    if (eb::view(d->op_type) != c.op || eb::view(d->domain) != c.domain) continue;
    eb_error error{sizeof(eb_error), 0, {0}};
    const bool takes = d->can_run(d, nullptr, &desc.get(), &error) == EB_OK;
    if (eb::view(d->name) == "cudnn") {
      CHECK_MESSAGE(!other, "the own kernel stands before cuDNN's");
      cudnn = takes ? "" : error.message;
    } else {
      other = other || takes;
    }
  }
  CHECK_MESSAGE(other, "no own kernel takes it");
  return cudnn;
}

const std::vector<Shape> kNorm{{2, 3, 4, 5}, {3}, {3}, {3}, {3}}, kNormGrad{{2, 3, 4, 5}, {2, 3, 4, 5}, {3}, {3}, {3}, {3}};
constexpr const char* kOwn = "ai.engine";

}  // namespace

TEST_CASE("cuda kernels: what goes to cuDNN, and why not") {
  eng_emulation::reset();
  const std::vector<bool> five(5, true), three(3, true);
  const Attributes relu = attrs({{"activation", std::string("Relu")}}), three_axes = attrs({{"kernel_shape", Ints{2, 2, 2}}});
  const Attributes grad = window({3, 3}, {1, 1, 1, 1}, {{"input_shape", Ints{2, 3, 7, 7}}}), overhang = window({3, 3}, {0, 0, 1, 1});
  const std::vector<Choice> choices = {
      // batch normalisation
      {nullptr, "", "BatchNormalization", kNorm, {}},
      {nullptr, "", "BatchNormalization", kNorm, {}, {true}, DType::kFloat32, Last::kYes},
      {nullptr, "", "BatchNormalization", {{2, 3}, {3}, {3}, {3}, {3}}, {}},
      {nullptr, "", "BatchNormalization", {{2, 3, 4, 5, 2}, {3}, {3}, {3}, {3}}, {}},
      {"2 to 5 axes", "", "BatchNormalization", {{2, 3, 4, 5, 2, 2}, {3}, {3}, {3}, {3}}, {}},
      {"2 to 5 axes", "", "BatchNormalization", {{2}, {1}, {1}, {1}, {1}}, {}},
      {"more than 65535 samples", "", "BatchNormalization", {{65536, 3}, {3}, {3}, {3}, {3}}, {}},
      {"float32", "", "BatchNormalization", kNorm, {}, {true}, DType::kFloat64},
      {"empty", "", "BatchNormalization", {{0, 3, 4, 5}, {3}, {3}, {3}, {3}}, {}},
      {"epsilon", "", "BatchNormalization", kNorm, attrs({{"epsilon", -1e-9f}})},
      {"ReLU is fused", "", "BatchNormalization", kNorm, relu},
      {"lie neither", "", "BatchNormalization", kNorm, {}, {true}, DType::kFloat32, Last::kInputOnly},
      {nullptr, kOwn, "BatchNormTraining", kNorm, {}, five},
      {nullptr, kOwn, "BatchNormTraining", kNorm, {}, {true, false, false, false, false}},
      {"Y is not wanted", kOwn, "BatchNormTraining", kNorm, {}, {false, true, true, true, true}},
      {"one value", kOwn, "BatchNormTraining", {{1, 3, 1, 1}, {3}, {3}, {3}, {3}}, {}, five},
      {"ReLU is fused", kOwn, "BatchNormTraining", kNorm, relu, five},
      {nullptr, kOwn, "BatchNormGrad", kNormGrad, {}, three},
      {nullptr, kOwn, "BatchNormGrad", kNormGrad, {}, {true, false, false}},
      {"gradient of X is not wanted", kOwn, "BatchNormGrad", kNormGrad, {}, {false, true, true}},
      {"frozen", kOwn, "BatchNormGrad", kNormGrad, attrs({{"frozen", int64_t{1}}}), three},
      {"ReLU is fused", kOwn, "BatchNormGrad", kNormGrad, relu, three},
      // pools
      {nullptr, "", "MaxPool", {{2, 3, 7}}, window({3}, {1, 1})},
      {nullptr, "", "MaxPool", {{2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1})},
      {nullptr, "", "MaxPool", {{2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1}), {true}, DType::kFloat32, Last::kYes},
      {nullptr, "", "MaxPool", {{2, 3, 4, 4, 4}}, three_axes},
      {nullptr, "", "MaxPool", {{2, 3, 7, 7}}, window({3, 3}, {0, 0, 0, 0}, {{"ceil_mode", int64_t{1}}})},                 // nothing to round
      {nullptr, "", "MaxPool", {{2, 3, 8, 8}}, window({3, 3}, {1, 1, 0, 0})},                                           // no window meets the last pad
      {nullptr, "", "AveragePool", {{2, 3, 8, 8}}, window({3, 3}, {1, 1, 0, 0}, {{"count_include_pad", int64_t{1}}})},
      {"channels-last operands", "", "MaxPool", {{2, 3, 4, 4, 4}}, three_axes, {true}, DType::kFloat32, Last::kYes},
      {"Indices", "", "MaxPool", {{2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1}), {true, true}},
      {"dilated", "", "MaxPool", {{2, 3, 7, 7}}, window({2, 2}, {0, 0, 0, 0}, {{"dilations", Ints{2, 1}}})},
      {"another extent", "", "MaxPool", {{2, 3, 6, 6}}, overhang},
      {"another extent", "", "MaxPool", {{2, 3, 6, 6}}, window({3, 3}, {0, 0, 0, 0}, {{"ceil_mode", int64_t{1}}})},
      {"another extent", "", "AveragePool", {{2, 3, 6, 6}}, overhang},
      {"float32", "", "MaxPool", {{2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1}), {true}, DType::kFloat64},
      {nullptr, "", "AveragePool", {{2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1}, {{"count_include_pad", int64_t{1}}})},
      // The last window ends behind the pads, and what is there does not count.
      {"passes their end", "", "AveragePool", {{2, 3, 5, 5}}, window({3, 3}, {1, 1, 0, 0}, {{"count_include_pad", int64_t{1}}, {"ceil_mode", int64_t{1}}})},
      {nullptr, "", "AveragePool", {{2, 3, 5, 5}}, window({3, 3}, {1, 1, 0, 0}, {{"ceil_mode", int64_t{1}}})},
      {nullptr, kOwn, "AveragePoolGrad", {{2, 3, 4, 4}}, grad},
      {"there is no kernel by cuDNN", kOwn, "MaxPoolGrad", {{2, 3, 4, 4}, {2, 3, 7, 7}}, window({3, 3}, {1, 1, 1, 1})},
      {"there is no kernel by cuDNN", "", "GlobalAveragePool", {{2, 3, 4, 4}}, {}},
      // softmax
      {nullptr, "", "Softmax", {{5}}, {}},
      {nullptr, "", "LogSoftmax", {{2, 3, 4, 5, 2, 2}}, attrs({{"axis", int64_t{2}}})},
      {nullptr, "", "Softmax", {{2, 3, 4, 5}}, {}, {true}, DType::kFloat32, Last::kYes},
      {nullptr, kOwn, "SoftmaxGrad", {{2, 3, 4}, {2, 3, 4}}, {}},
      {nullptr, kOwn, "LogSoftmaxGrad", {{2, 3, 4}, {2, 3, 4}}, {}},
      {"lie neither", "", "Softmax", {{2, 3, 4, 5}}, {}, {true}, DType::kFloat32, Last::kInputOnly},
      {"float32", kOwn, "SoftmaxGrad", {{2, 3, 4}, {2, 3, 4}}, {}, {true}, DType::kFloat64},
      {"empty", "", "Softmax", {{0, 3}}, {}},
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& c = choices[i];
    CAPTURE(i);
    const std::string op = c.op;
    CAPTURE(op);
    const std::string got = refusal(c);
    if (!c.says) CHECK_MESSAGE(got.empty(), got);
    else CHECK_MESSAGE(got.find(c.says) != std::string::npos, "'", std::string(c.says), "' is not in '", got, "'");
  }
}

// What cuDNN does not support, and says so only when it is called, its own kernel does, in the same run and in those that follow.
TEST_CASE("cuda kernels: the own kernel takes over where cuDNN refuses a node when it runs") {
  for (const std::string& refusing : {std::string(), std::string("cudnnSoftmaxForward,cudnnPoolingForward")}) {
    eng_emulation::reset({.unsupported = refusing});
    const eb_backend_table* b = eb_get_backend();
    eb_error error{sizeof(eb_error), 0, {0}};
    eb_device* device = nullptr;
    eb_stream* stream = nullptr;
    REQUIRE(b->core->open_device(0, nullptr, &device, &error) == EB_OK);
    REQUIRE(b->streams->create(device, &stream, &error) == EB_OK);
    struct Case {
      const char* op;
      Attributes attributes;
      std::vector<float> wanted;
    };
    const float e = std::exp(1.0f);
    for (const Case& c : {Case{"Softmax", attrs({{"axis", int64_t{2}}}), {1 / (1 + e), e / (1 + e), 0.5f, 0.5f}},
                          Case{"MaxPool", attrs({{"kernel_shape", Ints{1}}}), {0, 1, 3, 3}}}) {
      const std::string op = c.op;
      CAPTURE(op);
      Graph g;
      Node n;
      n.op_type = c.op;
      n.attributes = c.attributes;
      n.inputs = {g.add_value("x", DType::kFloat32, {1, 2, 2})};
      n.outputs = {g.add_value("y")};
      const NodeId id = g.add_node(n);
      REQUIRE(infer_node(g, id).ok());
      const NodeDesc desc(g, g.node(id), {});
      const eb_kernel_desc* cudnn = nullptr;
      for (uint32_t i = 0; i < b->kernel_count; ++i)
        if (eb::view(b->kernels[i]->op_type) == c.op && eb::view(b->kernels[i]->name) == "cudnn") cudnn = b->kernels[i];
      REQUIRE(cudnn);
      eb_kernel* kernel = nullptr;
      REQUIRE(cudnn->create(cudnn, device, &desc.get(), &kernel, &error) == EB_OK);
      uint64_t bytes = 0;
      REQUIRE(cudnn->workspace(kernel, &bytes, &error) == EB_OK);
      void *x = nullptr, *y = nullptr, *space = nullptr;
      for (void** p : {&x, &y}) REQUIRE(b->memory->allocate(device, 16, p, &error) == EB_OK);
      REQUIRE(b->memory->allocate(device, bytes + 256, &space, &error) == EB_OK);
      const float values[4] = {0, 1, 3, 3};
      REQUIRE(b->memory->copy_to_device(stream, x, values, sizeof values, &error) == EB_OK);
      for (int run = 0; run < 2; ++run) {
        const void* in[1] = {x};
        void* out[1] = {y};
        float got[4] = {};
        const uint64_t before = eng_emulation::counts().kernels;
        REQUIRE_MESSAGE(cudnn->run(kernel, stream, in, out, space, &error) == EB_OK, error.message);
        REQUIRE(b->memory->copy_to_host(stream, got, y, sizeof got, &error) == EB_OK);
        REQUIRE(b->streams->synchronize(stream, -1, &error) == EB_OK);
        for (size_t i = 0; i < 4; ++i) CHECK(got[i] == doctest::Approx(c.wanted[i]));
        CHECK((eng_emulation::counts().kernels > before) == !refusing.empty());
      }
      cudnn->destroy(kernel);
      for (void* p : {x, y, space}) b->memory->release(device, p);
    }
    b->streams->destroy(stream);
    b->core->close_device(device);
    CHECK(eng_emulation::violations().empty());
    CHECK(eng_emulation::leaks().empty());
  }
  eng_emulation::reset();
}
