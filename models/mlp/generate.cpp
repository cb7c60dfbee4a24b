// Writes a multi-layer perceptron as ONNX: x [N, features] -> dense -> ReLU (as often as there are hidden sizes) -> dense -> softmax.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "models/common/tail.h"

namespace {

using namespace eng;          // NOLINT: a program, not a header
using namespace eng::models;  // NOLINT

struct Options {
  std::string path;
  int64_t features = 784, classes = 10, batch = kSymbolicBatch;
  std::vector<int64_t> hidden{64};
  uint64_t seed = 0;
};

void build(Graph& graph, const Options& o) {
  graph.name = "mlp";
  Random random(o.seed);
  ValueId y = add_input(graph, "x", o.batch, {o.features});
  int64_t width = o.features;
  for (size_t i = 0; i < o.hidden.size(); ++i) {
    y = dense(graph, random, y, width, o.hidden[i], "dense_" + std::to_string(i + 1));
    y = add_named_node(graph, "Relu", {y}, "relu_" + std::to_string(i + 1));
    width = o.hidden[i];
  }
  y = dense(graph, random, y, width, o.classes, "dense_" + std::to_string(o.hidden.size() + 1));
  Attributes last;
  last.set("axis", int64_t{-1});
  y = add_named_node(graph, "Softmax", {y}, "softmax_1", last);
  graph.rename_value(y, "probabilities");
  declare(graph, y, o.batch, {o.classes});
  graph.outputs = {y};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Writes a multi-layer perceptron with freshly initialised weights as an ONNX file (opset 21)."};
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 20);
  app.add_option("OUT", o.path, "the file to write")->required();
  app.add_option("--features", o.features, "numbers a sample")->check(size)->capture_default_str();
  app.add_option("--hidden", o.hidden, "units of the hidden layers")->delimiter(',')->check(size)->capture_default_str();
  app.add_option("--classes", o.classes, "outputs")->check(CLI::Range(int64_t{2}, int64_t{1} << 20))->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the first weights")->capture_default_str();
  app.add_option("--batch", o.batch, "fixed batch size; 0: symbolic (N)")->check(CLI::Range(int64_t{0}, int64_t{1} << 20))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  eng::Graph graph;
  build(graph, o);
  return finish(graph, o.path);
}
