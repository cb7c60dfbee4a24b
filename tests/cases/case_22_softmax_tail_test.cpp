// Case 22: whatever a model ends in (Softmax, LogSoftmax, logits), cross-entropy is computed once, from the logits.
#include <cmath>

#include "engine/io/safetensors.h"
#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

// Gemm with identity weights and the tail; one sample, its logits as input.
struct Head {
  TempFolder folder;
  std::string model;
  explicit Head(const std::string& tail) {
    ModelBuilder m;
    ValueId v = m.op("Gemm", {m.input("x", {3}), m.tensor("w", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}), m.tensor("b", {3}, {0, 0, 0})});
    if (!tail.empty()) {
      Attributes a;
      a.set("axis", int64_t{-1});
      v = m.op(tail, {v}, a);
    }
    m.output(v, "out");
    model = write_model(folder, "net.onnx", m.g);
  }
  double loss(const std::vector<float>& logits, int64_t label, std::map<std::string, Tensor>* gradients = nullptr) const {
    const std::string data = write_arrays(folder, "d.npz", {{"x", Tensor::of<float>({1, 3}, logits)}, {"y", Tensor::ints({label})}});
    const std::string out = folder.path() + "/out", file = folder.path() + "/g.safetensors";
    REQUIRE(train({model, "--data", data, "--batch", "1", "--lr", "0.5", "--out", out, "--write-gradients", file, "--metrics-every-step"}) == 0);
    if (gradients) {
      auto read = read_safetensors(file);
      REQUIRE(read.ok());
      *gradients = read->tensors;
    }
    return metrics(out, "step").at(0)["loss"].get<double>();
  }
};

}  // namespace

TEST_CASE("case 22: the three heads give the same loss and weight gradient") {
  std::map<std::string, Tensor> first;
  for (const char* tail : {"", "Softmax", "LogSoftmax"}) {
    CAPTURE(tail);
    const Head head(tail);
    std::map<std::string, Tensor> g;
    CHECK(head.loss({2, 0, 0}, 0, &g) == doctest::Approx(0.239545).epsilon(1e-5));
    CHECK(head.loss({10, 0, 0}, 0) == doctest::Approx(0.0000907957).epsilon(1e-4));
    // dW = x^T (p - onehot)
    const double e2 = std::exp(2.0), p0 = e2 / (e2 + 2), p1 = 1 / (e2 + 2);
    REQUIRE(g.count("w") == 1);
    CHECK(g["w"].at(0) == doctest::Approx(2 * (p0 - 1)).epsilon(1e-5));
    CHECK(g["w"].at(1) == doctest::Approx(2 * p1).epsilon(1e-5));
    CHECK(g["b"].at(2) == doctest::Approx(p1).epsilon(1e-5));
  }
}

TEST_CASE("case 22: a wrong answer of full certainty has a finite loss and gradient") {
  for (const char* tail : {"", "Softmax", "LogSoftmax"}) {
    CAPTURE(tail);
    const Head head(tail);
    std::map<std::string, Tensor> g;
    CHECK(head.loss({200, 0, 0}, 1, &g) == doctest::Approx(200).epsilon(1e-6));
    CHECK(g["b"].at(0) == doctest::Approx(1));
    CHECK(g["b"].at(1) == doctest::Approx(-1));
    CHECK(g["b"].at(2) == doctest::Approx(0));
  }
}

TEST_CASE("case 22: the exported model keeps its Softmax") {
  const Head head("Softmax");
  head.loss({2, 0, 0}, 0);
  auto graph = import_onnx(head.folder.path() + "/out/last.onnx");
  REQUIRE(graph.ok());
  int softmax = 0;
  for (NodeId id : graph->live_nodes()) softmax += graph->node(id).op_type == "Softmax";
  CHECK(softmax == 1);
  CHECK(graph->value(graph->outputs[0]).name == "out");
}
