// Writes the shared-LSTM network as ONNX: one LSTM encodes two sequences, the two codes are concatenated and classified.
//   a, b [N, steps, features] -> LSTM(hidden), the same weights for both -> last hidden state -> Concat -> dense -> softmax,
// or a sigmoid where there is one class. The two LSTM nodes read the same initializers lstm_1/*, so a gradient step sums both uses.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "models/common/tail.h"

namespace {

using namespace eng;          // NOLINT: a program, not a header
using namespace eng::models;  // NOLINT

struct Options {
  std::string path;
  int64_t steps = 140, features = 256, hidden = 64, classes = 2, batch = kSymbolicBatch;
  uint64_t seed = 0;
  bool activation = true;
};

struct LstmWeights {
  ValueId w, r, b;
};

// Keras's first weights in ONNX's layout: W [1, 4h, features] Glorot uniform, R [1, 4h, h] from h orthonormal rows of length 4h, B [1, 8h]
// zero but for the forget gate's 1. Gates lie in the order i, o, f, c; B holds the input's and the recurrent bias.
LstmWeights lstm_weights(Graph& graph, Random& random, int64_t features, int64_t hidden) {
  const int64_t gates = 4 * hidden;
  const std::vector<double> rows = orthonormal_vectors(random, gates, hidden);  // Keras's [hidden, 4h], row by row
  Tensor r(DType::kFloat32, {1, gates, hidden});
  for (int64_t gate = 0; gate < gates; ++gate)
    for (int64_t unit = 0; unit < hidden; ++unit)
      r.mutable_data<float>()[gate * hidden + unit] = static_cast<float>(rows[static_cast<size_t>(unit * gates + gate)]);
  Tensor b(DType::kFloat32, {1, 2 * gates});
  for (int64_t unit = 0; unit < hidden; ++unit) b.mutable_data<float>()[2 * hidden + unit] = 1;
  LstmWeights weights;
  weights.w = graph.add_tensor("lstm_1/kernel", glorot_uniform(random, {1, gates, features}, features, gates), Role::kParameter);
  weights.r = graph.add_tensor("lstm_1/recurrent_kernel", std::move(r), Role::kParameter);
  weights.b = graph.add_tensor("lstm_1/bias", std::move(b), Role::kParameter);
  return weights;
}

// x [N, steps, features] -> the last hidden state [N, hidden].
ValueId encode(Graph& graph, ValueId x, const LstmWeights& weights, int64_t hidden, ValueId direction_axis, const std::string& branch) {
  Attributes time_first;
  time_first.set("perm", std::vector<int64_t>{1, 0, 2});
  const ValueId steps = add_named_node(graph, "Transpose", {x}, branch + "/transpose", time_first);
  Node lstm;
  lstm.op_type = "LSTM";
  lstm.name = branch + "/lstm_1";
  lstm.inputs = {steps, weights.w, weights.r, weights.b};
  const ValueId last = graph.add_value(branch + "/last_hidden", DType::kFloat32);
  lstm.outputs = {kNoValue, last};
  lstm.attributes.set("hidden_size", hidden);
  graph.add_node(std::move(lstm));
  return add_named_node(graph, "Squeeze", {last, direction_axis}, branch + "/code");
}

void build(Graph& graph, const Options& o) {
  graph.name = "shared_lstm";
  Random random(o.seed);
  const ValueId a = add_input(graph, "a", o.batch, {o.steps, o.features}), b = add_input(graph, "b", o.batch, {o.steps, o.features});
  const LstmWeights weights = lstm_weights(graph, random, o.features, o.hidden);
  const ValueId axis = graph.add_tensor("direction_axis", Tensor::ints({0}), Role::kConstant);
  Attributes features;
  features.set("axis", int64_t{1});
  const ValueId code_a = encode(graph, a, weights, o.hidden, axis, "encoder_a"), code_b = encode(graph, b, weights, o.hidden, axis, "encoder_b");
  ValueId y = add_named_node(graph, "Concat", {code_a, code_b}, "concatenate_1", features);
  y = dense(graph, random, y, 2 * o.hidden, o.classes, "dense_1");
  if (o.activation && o.classes == 1) y = add_named_node(graph, "Sigmoid", {y}, "sigmoid_1");
  if (o.activation && o.classes > 1) {
    Attributes last;
    last.set("axis", int64_t{-1});
    y = add_named_node(graph, "Softmax", {y}, "softmax_1", last);
  }
  graph.rename_value(y, o.activation ? "probabilities" : "logits");
  declare(graph, y, o.batch, {o.classes});
  graph.outputs = {y};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Writes the shared-LSTM network with freshly initialised weights as an ONNX file (opset 21)."};
  const auto size = CLI::Range(int64_t{1}, int64_t{1} << 20);
  app.add_option("OUT", o.path, "the file to write")->required();
  app.add_option("--steps", o.steps, "length of a sequence")->check(size)->capture_default_str();
  app.add_option("--features", o.features, "numbers a step")->check(size)->capture_default_str();
  app.add_option("--hidden", o.hidden, "units of the LSTM")->check(CLI::Range(int64_t{1}, int64_t{4096}))->capture_default_str();
  app.add_option("--classes", o.classes, "outputs of the last layer; 1 ends in a sigmoid")->check(size)->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the first weights")->capture_default_str();
  app.add_option("--batch", o.batch, "fixed batch size; 0: symbolic (N)")->check(CLI::Range(int64_t{0}, int64_t{1} << 20))->capture_default_str();
  app.add_flag("--softmax,!--no-softmax", o.activation, "end in a softmax or sigmoid (default) or in the logits");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  eng::Graph graph;
  build(graph, o);
  return finish(graph, o.path);
}
