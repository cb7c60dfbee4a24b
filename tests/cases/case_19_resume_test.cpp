// Case 19: a resumed run continues to the bit: weights, optimiser slots, rate, shuffle, best value; at an epoch's end and inside one.
#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

// x [N,4] -> Gemm -> Relu -> Dropout -> Gemm: dropout makes the random state count.
Graph small_net() {
  ModelBuilder m;
  const ValueId x = m.input("x", {4});
  ValueId h = m.op("Relu", {m.op("Gemm", {x, m.weight("w1", {4, 8}), m.weight("b1", {8})})});
  h = m.op("Dropout", {h, m.tensor("ratio", {}, {0.25}, Role::kConstant)});
  m.output(m.op("Gemm", {h, m.weight("w2", {8, 3}), m.weight("b2", {3})}), "logits");
  return m.g;
}

std::map<std::string, Tensor> arrays() {
  Tensor x(DType::kFloat32, {22, 4});
  std::vector<int64_t> y;
  for (int64_t i = 0; i < 22; ++i) {
    for (int64_t k = 0; k < 4; ++k) x.set(i * 4 + k, std::sin(static_cast<double>(3 * i + 7 * k)));
    y.push_back(i % 3);
  }
  return {{"x", x}, {"y", Tensor::ints(y)}};
}

struct Setting {
  TempFolder folder;
  std::vector<std::string> words;
  explicit Setting(const std::vector<std::string>& more = {}) {
    words = {write_model(folder, "net.onnx", small_net()), "--data", write_arrays(folder, "d.npz", arrays()), "--batch", "4", "--momentum", "0.9",
             "--lr", "0.1", "--schedule", "step:0.5,1", "--val-split", "0.2", "--metrics-every-step"};
    words.insert(words.end(), more.begin(), more.end());
  }
  int run(const std::string& out, std::vector<std::string> more) const {
    more.insert(more.begin(), words.begin(), words.end());
    more.insert(more.end(), {"--out", folder.path() + "/" + out});
    return train(more);
  }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
};

// Losses and rates of all steps; times differ from run to run.
std::string trace(const std::string& out) {
  std::string text;
  for (const auto& j : metrics(out, "step")) text += j["step"].dump() + " " + j["loss"].dump() + " " + j["lr"].dump() + "\n";
  for (const auto& j : metrics(out, "epoch")) {
    if (j.value("complete", true)) text += j["epoch"].dump() + " " + j["loss"].dump() + " " + j["val_loss"].dump() + " " + j["best"].dump() + "\n";
  }
  return text;
}

void check_same(const Setting& s, const std::string& a, const std::string& b) {
  const Checkpoint left = checkpoint(s.file(a + "/last.ckpt")), right = checkpoint(s.file(b + "/last.ckpt"));
  CHECK(left.tensors.count("w1/momentum") == 1);
  CHECK(left.tensors.count("random/state") == 1);
  CHECK(same_bits(left.tensors, right.tensors));
  CHECK(left.state.step == right.state.step);
  CHECK(left.state.epoch == right.state.epoch);
  CHECK(left.state.monitor.best == right.state.monitor.best);
  CHECK(left.state.monitor.best_epoch == right.state.monitor.best_epoch);
  CHECK(trace(s.file(a)) == trace(s.file(b)));
}

}  // namespace

TEST_CASE("case 19: two epochs, stop, resume to four gives the bits of four epochs") {
  const Setting s;
  REQUIRE(s.run("a", {"--epochs", "4"}) == 0);
  REQUIRE(s.run("b", {"--epochs", "2"}) == 0);
  REQUIRE(s.run("b", {"--epochs", "4", "--resume"}) == 0);
  check_same(s, "a", "b");
  const auto epochs = metrics(s.file("b"), "epoch");
  REQUIRE(epochs.size() == 4);
  CHECK(epochs[2]["epoch"] == 3);
  CHECK(epochs[2]["lr"].get<double>() == 0.1 * 0.25);
  CHECK(weights_of(s.file("a/last.onnx")).size() > 3);
  CHECK(same_bits(weights_of(s.file("a/last.onnx")), weights_of(s.file("b/last.onnx"))));
  CHECK(same_bits(weights_of(s.file("a/best.onnx")), weights_of(s.file("b/best.onnx"))));
}

TEST_CASE("case 19: stopped inside an epoch, at every step, the run goes on to the bit") {
  const Setting s;
  REQUIRE(s.run("a", {"--epochs", "2"}) == 0);
  const int64_t steps = checkpoint(s.file("a/last.ckpt")).state.step;
  REQUIRE(steps >= 8);
  for (int64_t stop = 1; stop < steps; ++stop) {
    const std::string out = "b" + std::to_string(stop);
    REQUIRE(s.run(out, {"--epochs", "2", "--steps", std::to_string(stop)}) == 0);
    REQUIRE(s.run(out, {"--epochs", "2", "--steps", "0", "--resume"}) == 0);
    check_same(s, "a", out);
  }
}

TEST_CASE("case 19: epochs that are cut from endless passes resume to the bit too") {
  const Setting s({"--steps-per-epoch", "3", "--optimizer", "adam", "--momentum", "0"});
  REQUIRE(s.run("a", {"--epochs", "5"}) == 0);
  REQUIRE(s.run("b", {"--epochs", "2"}) == 0);
  REQUIRE(s.run("b", {"--epochs", "5", "--resume"}) == 0);
  const Checkpoint left = checkpoint(s.file("a/last.ckpt")), right = checkpoint(s.file("b/last.ckpt"));
  CHECK(left.state.step == 15);
  CHECK(same_bits(left.tensors, right.tensors));
  CHECK(trace(s.file("a")) == trace(s.file("b")));
}

TEST_CASE("case 19: asking for epochs that are done trains nothing") {
  const Setting s;
  REQUIRE(s.run("a", {"--epochs", "2"}) == 0);
  const Checkpoint before = checkpoint(s.file("a/last.ckpt"));
  REQUIRE(s.run("a", {"--epochs", "2", "--resume"}) == 0);
  CHECK(same_bits(before.tensors, checkpoint(s.file("a/last.ckpt")).tensors));
  CHECK(metrics(s.file("a"), "epoch").size() == 2);
}

TEST_CASE("case 19: a checkpoint of another optimiser or seed is refused") {
  const Setting s;
  REQUIRE(s.run("a", {"--epochs", "1"}) == 0);
  CHECK(s.run("a", {"--epochs", "2", "--resume", "--optimizer", "adam"}) == 2);
  CHECK(s.run("a", {"--epochs", "2", "--resume", "--seed", "5"}) == 2);
  CHECK(s.run("none", {"--epochs", "2", "--resume"}) == 3);
}

TEST_CASE("case 19: w^2/2 by momentum, six steps, stopped after three") {
  // loss = mean((x w - t)^2) with x = 1/sqrt(2), t = 0 is w^2/2, gradient w.
  TempFolder folder;
  ModelBuilder m;
  const ValueId x = m.input("x", {1});
  m.output(m.op("Gemm", {x, m.tensor("w", {1, 1}, {1})}), "out");
  const std::string model = write_model(folder, "w.onnx", m.g);
  const std::string data = write_arrays(folder, "w.npz", {{"x", Tensor::of<float>({1, 1}, {0.70710678f})}, {"y", Tensor::of<float>({1, 1}, {0})}});
  const auto run = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), {model, "--data", data, "--batch", "1", "--lr", "0.1", "--momentum", "0.9", "--loss", "mean_squared_error", "--out", folder.path() + "/" + out});
    return train(more);
  };
  REQUIRE(run("b", {"--epochs", "6", "--steps", "3"}) == 0);
  CHECK(checkpoint(folder.path() + "/b/last.ckpt").tensors.at("w").at(0) == doctest::Approx(0.486).epsilon(1e-5));
  REQUIRE(run("b", {"--epochs", "6", "--steps", "0", "--resume"}) == 0);
  CHECK(checkpoint(folder.path() + "/b/last.ckpt").tensors.at("w").at(0) == doctest::Approx(-0.256608).epsilon(1e-5));
}
