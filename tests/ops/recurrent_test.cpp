// LSTM, GRU, RNN and their gradients.
#include <doctest/doctest.h>

#include "graph/ops/op.h"
#include "graph/passes/training_form_rnn.h"
#include "tests/support/op_check.h"

using namespace eng;
using namespace eng::test;

namespace {

OpInput lengths(const std::vector<double>& values) { return given({static_cast<int64_t>(values.size())}, values, DType::kInt32); }

struct Draw {
  std::string op;
  int64_t gates, activations, steps, batch, input, hidden;
  bool bias, lens, h0, c0, peepholes;
  std::vector<bool> outputs;
};

OpCase make(const Draw& d, Attributes a, uint64_t seed, Random& r) {
  OpCase c;
  c.op = d.op;
  c.seed = seed;
  c.outputs = d.outputs;
  const int64_t directions = a.get_string("direction", "forward") == "bidirectional" ? 2 : 1, rows = d.gates * d.hidden;
  const bool batch_first = a.get_int("layout", 0) == 1;
  const Shape state = batch_first ? Shape{d.batch, directions, d.hidden} : Shape{directions, d.batch, d.hidden};
  c.inputs = {real(batch_first ? Shape{d.batch, d.steps, d.input} : Shape{d.steps, d.batch, d.input}), real({directions, rows, d.input}), real({directions, rows, d.hidden}),
              d.bias ? real({directions, 2 * rows}) : absent()};
  std::vector<double> lens;
  for (int64_t b = 0; b < d.batch; ++b) lens.push_back(static_cast<double>(r.between(b ? 0 : 1, d.steps)));
  c.inputs.push_back(d.lens ? lengths(lens) : absent());
  c.inputs.push_back(d.h0 ? real(state) : absent());
  if (d.op == "LSTM") {
    c.inputs.push_back(d.c0 ? real(state) : absent());
    c.inputs.push_back(d.peepholes ? real({directions, 3 * d.hidden}) : absent());
  }
  a.set("hidden_size", d.hidden);
  c.attributes = std::move(a);
  return c;
}

// Every option of one operator, drawn at random.
void check_family(const std::string& op, int64_t gates, int64_t activations, size_t outputs) {
  Random r(gates);
  const std::vector<std::string> smooth = {"Tanh", "Sigmoid", "Softsign", "Softplus", "ScaledTanh", "Affine", "Elu", "tanh"};
  for (uint64_t i = 0; i < 36; ++i) {
    Draw d{op, gates, activations, r.between(1, 4), r.between(1, 3), r.between(1, 3), r.between(1, 3), i % 3 != 0, i % 4 == 1, i % 2 == 0, i % 3 == 1, i % 5 == 2, std::vector<bool>(outputs, true)};
    if (i % 6 == 5) d.outputs[static_cast<size_t>(r.between(0, static_cast<int64_t>(outputs) - 1))] = false;
    Attributes a;
    const std::string direction = r.pick(std::vector<std::string>{"forward", "reverse", "bidirectional"});
    a.set("direction", direction);
    if (i % 7 == 3) a.set("layout", int64_t{1});
    if (op == "GRU") a.set("linear_before_reset", int64_t(i / 2 % 2));
    if (op == "LSTM" && i % 6 == 4) a.set("input_forget", int64_t{1});
    if (i % 9 == 4) a.set("clip", 0.7f);
    if (i % 4 == 3) {
      std::vector<std::string> names;
      for (int64_t k = 0; k < activations * (direction == "bidirectional" ? 2 : 1); ++k) names.push_back(r.pick(smooth));
      a.set("activations", names);
      a.set("activation_alpha", std::vector<float>(names.size(), 0.7f));
      a.set("activation_beta", std::vector<float>(names.size(), 0.6f));
    }
    check_op(make(d, a, i, r));
  }
}

}  // namespace

TEST_CASE("LSTM follows ONNX in every option, forward and backward") { check_family("LSTM", 4, 3, 3); }
TEST_CASE("GRU follows ONNX in every option, forward and backward") { check_family("GRU", 3, 2, 2); }
TEST_CASE("RNN follows ONNX in every option, forward and backward") { check_family("RNN", 1, 1, 2); }

TEST_CASE("recurrent networks are right at sizes that use the threads") {
  Random r(1);
  for (const auto& [op, gates, outputs] : {std::tuple{"LSTM", 4, 3}, {"GRU", 3, 2}, {"RNN", 1, 2}}) {
    Draw d{op, gates, 0, 5, 130, 40, 48, true, true, true, true, false, std::vector<bool>(static_cast<size_t>(outputs), true)};
    OpCase c = make(d, attrs({{"direction", std::string("bidirectional")}}), 3, r);
    for (size_t i = 1; i < 4; ++i) c.inputs[i].low = -0.2, c.inputs[i].high = 0.2;
    check_forward(c);
    c.rtol = 5e-5;
    check_backward(c);
  }
}

TEST_CASE("the kinked activations give ONNX's values") {
  for (const char* name : {"Relu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid"}) {
    Random r(2);
    Draw d{"RNN", 1, 1, 3, 2, 2, 3, true, false, true, false, false, {true, true}};
    check_op(make(d, attrs({{"activations", std::vector<std::string>{name}}}), 5, r));
  }
}

// Values of a reverse LSTM over padded sequences, computed by ONNX's reference evaluator on each sample alone.
TEST_CASE("the reverse direction starts at each sample's last valid step") {
  OpCase c;
  c.op = "LSTM";
  c.outputs = {true, true, true};
  const std::vector<double> x = {0.313, -0.724, -0.607, -0.263, 0.642, -0.806, 0.676, -0.808, 0.953, -0.063, 0.954, 0.21,
                                 0.479, -0.922, -0.434, -0.76, -0.408, -0.763, -0.364, -0.171, -0.872, 0.385, 0.133, -0.469};
  const std::vector<double> w = {0.049, 0.215, 0.103, 0.045, -0.076, 0.146, -0.062, 0.392, 0.464, -0.117, 0.292, 0.029,
                                 0.068, 0.426, -0.429, -0.413, -0.48, 0.333, 0.278, 0.37, 0.479, 0.299, -0.039, 0.281};
  const std::vector<double> rec = {-0.382, 0.14, -0.357, 0.445, 0.022, -0.085, -0.235, 0.274, -0.044, 0.068, -0.481, 0.118, 0.112, 0.117, 0.444, 0.182};
  const std::vector<double> bias = {-0.028, -0.013, 0.04, -0.088, 0.033, 0.034, -0.058, -0.074, -0.037, -0.027, 0.014, -0.012, 0.098, -0.08, -0.058, -0.068};
  c.inputs = {given({4, 2, 3}, x), given({1, 8, 3}, w), given({1, 8, 2}, rec), given({1, 16}, bias), lengths({4, 2})};
  auto near = [](const Tensor& t, int64_t i, double wanted) { CHECK(t.at(i) == doctest::Approx(wanted).epsilon(1e-4)); };
  auto run = run_on_cpu(c);
  const double forward[] = {-.151083, -.098112, .037967, -.091579};
  for (int64_t i = 0; i < 4; ++i) near(run[1], i, forward[i]);
  for (int64_t t = 2; t < 4; ++t) for (int64_t j = 0; j < 2; ++j) CHECK(run[0].at((t * 2 + 1) * 2 + j) == 0);
  c.attributes.set("direction", std::string("reverse"));
  run = run_on_cpu(c);
  const double reverse[] = {-.088727, -.029215, -.020216, -.101737}, sample[] = {-.020216, -.101737, .104150, -.036188};
  for (int64_t i = 0; i < 4; ++i) near(run[1], i, reverse[i]);
  for (int64_t t = 0; t < 2; ++t) for (int64_t j = 0; j < 2; ++j) near(run[0], (t * 2 + 1) * 2 + j, sample[t * 2 + j]);
  // Padded steps of X have no effect.
  const Tensor dx = gradient_on_cpu(c, 0, std::vector<double>(16, 1.0));
  for (int64_t t = 2; t < 4; ++t) for (int64_t i = 0; i < 3; ++i) CHECK(dx.at((t * 2 + 1) * 3 + i) == 0);
  for (const char* direction : {"forward", "reverse"}) {
    c.attributes.set("direction", std::string(direction));
    check_op(c);
  }
}

TEST_CASE("the training form replaces LSTM and GRU and leaves RNN alone") {
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, {3, 2, 4});
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  auto tensor = [&](Shape s) { return g.add_tensor("w", Tensor(DType::kFloat32, std::move(s)), Role::kParameter); };
  Builder b(g);
  const ValueId lstm_h = b.ops("", "LSTM", {x, tensor({1, 20, 4}), tensor({1, 20, 5})}, {false, true})[1];
  b.ops("", "GRU", {x, tensor({1, 15, 4}), tensor({1, 15, 5})}, {true, true});
  b.ops("", "RNN", {x, tensor({1, 5, 4}), tensor({1, 5, 5})}, {true});
  REQUIRE(b.status().ok());
  REQUIRE(rnn_training_form(g).ok());
  const auto nodes = g.live_nodes();
  CHECK(g.node(nodes[0]).op_type == "LstmTraining");
  CHECK(g.node(nodes[0]).outputs.size() == 4);
  CHECK(g.node(nodes[0]).outputs[1] == lstm_h);
  CHECK(g.value(g.node(nodes[0]).outputs[3]).shape == Shape{1, 3 * 2 * 5 * 5});
  CHECK(g.node(nodes[1]).op_type == "GruTraining");
  CHECK(g.value(g.node(nodes[1]).outputs[2]).shape == Shape{1, 3 * 2 * 4 * 5});
  CHECK(g.node(nodes[2]).op_type == "RNN");
  CHECK(verify(g).ok());
}

// "LstmTraining", "LstmGrad", "GruTraining", "GruGrad" and "RnnGrad" are reached through the gradients above.
