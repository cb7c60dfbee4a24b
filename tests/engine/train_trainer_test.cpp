// The training loop as a user sees it: Keras's formulas on a scalar, short last batches, validation, early stopping, freezing, divergence,
// checkpoints to keep. Whole runs of engine-train on small models.
#include <cmath>

#include "engine/train/trainer.h"
#include "tests/support/train_run.h"

namespace eng::test {
namespace {

// out = x w, w one number: with x = 1, t = 0 and mean squared error the gradient is 2 w.
struct Scalar {
  TempFolder folder;
  std::string model, data;
  explicit Scalar(int64_t samples = 1) {
    ModelBuilder m;
    m.output(m.op("Gemm", {m.input("x", {1}), m.tensor("w", {1, 1}, {1})}), "out");
    model = write_model(folder, "w.onnx", m.g);
    Tensor ones(DType::kFloat32, {samples, 1}), zeros(DType::kFloat32, {samples, 1});
    for (int64_t i = 0; i < samples; ++i) ones.set(i, 1);
    data = write_arrays(folder, "d.npz", {{"x", ones}, {"y", zeros}});
  }
  std::string out() const { return folder.path() + "/out"; }
  int run(std::vector<std::string> more) const {
    more.insert(more.begin(), {model, "--data", data, "--loss", "mean_squared_error", "--metrics-every-step", "--out", out()});
    return train(more);
  }
  double weight() const { return checkpoint(out() + "/last.ckpt").tensors.at("w").at(0); }
};

TEST_CASE("time decay divides the rate by 1 + decay * steps, as Keras does") {
  const Scalar s;
  REQUIRE(s.run({"--batch", "1", "--epochs", "3", "--lr", "0.1", "--decay", "0.5"}) == 0);
  double w = 1;
  for (int t = 0; t < 3; ++t) w -= 0.1 / (1 + 0.5 * t) * 2 * w;
  CHECK(s.weight() == doctest::Approx(w).epsilon(1e-6));
}

TEST_CASE("the epoch's loss weighs a short last batch by its samples") {
  const Scalar s(5);  // batches of 4 and 1
  REQUIRE(s.run({"--batch", "4", "--epochs", "1", "--lr", "0.25"}) == 0);
  // w: 1 -> 0.5 -> 0.25; losses 1 and 0.25
  const auto steps = metrics(s.out(), "step");
  REQUIRE(steps.size() == 2);
  CHECK(steps[0]["loss"].get<double>() == doctest::Approx(1));
  CHECK(steps[1]["loss"].get<double>() == doctest::Approx(0.25));
  CHECK(metrics(s.out(), "epoch").at(0)["loss"].get<double>() == doctest::Approx((4 * 1 + 1 * 0.25) / 5));
  CHECK(s.weight() == doctest::Approx(0.25));
}

TEST_CASE("a loss that is no number ends the run with status 3 and leaves the last good checkpoint") {
  const Scalar s(4);
  CHECK(s.run({"--batch", "1", "--epochs", "30", "--lr", "1e9", "--checkpoint-every", "1steps"}) == 3);
  const double w = s.weight();
  CHECK(std::isfinite(w));
}

TEST_CASE("weights that are no finite numbers are never saved, in the last step neither") {
  const Scalar s;
  REQUIRE(s.run({"--batch", "1", "--epochs", "1", "--lr", "0.1"}) == 0);
  const double good = s.weight();
  const Tensor best = weights_of(s.out() + "/best.onnx").at("w");
  CHECK(s.run({"--batch", "1", "--epochs", "2", "--lr", "3e38", "--weight-decay", "1e9", "--resume"}) == 3);  // the loss is computed before the update
  CHECK(s.weight() == good);
  CHECK(same_bits(weights_of(s.out() + "/best.onnx").at("w"), best));
  const Scalar fresh;
  CHECK(fresh.run({"--batch", "1", "--epochs", "1", "--lr", "3e38", "--weight-decay", "1e9"}) == 3);
  for (const char* name : {"best.onnx", "last.onnx", "best.ckpt", "last.ckpt"}) CHECK(file_info(join_path(fresh.out(), name)).kind == FileKind::kMissing);
}

TEST_CASE("the first tensor that is not finite is named with its place") {
  CHECK(not_finite({{"a", Tensor::of<float>({2}, {1, -3e38f})}, {"n", Tensor::ints({1})}}) == "");
  CHECK(not_finite({{"a", Tensor::of<float>({2}, {1, 2})}, {"b", Tensor::of<float>({1, 3}, {0, 1, -INFINITY})}}) == "'b' [1,3] holds -inf at 2");
  CHECK(not_finite({{"d", Tensor::of<double>({2}, {std::nan(""), 2})}}) == "'d' [2] holds nan at 0");
}

TEST_CASE("early stopping ends the run when the loss has not improved for so many epochs") {
  const Scalar s;
  REQUIRE(s.run({"--batch", "1", "--epochs", "50", "--lr", "0", "--patience", "3", "--early-stop"}) == 0);
  const auto epochs = metrics(s.out(), "epoch");
  CHECK(epochs.size() == 4);  // the first is the best, three more are waited for
  CHECK(epochs[0]["best"] == true);
  CHECK(epochs[1]["best"] == false);
}

TEST_CASE("so many numbered checkpoints are kept, and best.ckpt is the best epoch's") {
  const Scalar s;
  REQUIRE(s.run({"--batch", "1", "--epochs", "5", "--lr", "0.1", "--keep", "2"}) == 0);
  CHECK(file_info(s.out() + "/epoch-0003.ckpt").kind == FileKind::kMissing);
  CHECK(checkpoint(s.out() + "/epoch-0004.ckpt").state.epoch == 4);
  CHECK(checkpoint(s.out() + "/epoch-0005.ckpt").tensors.at("w").at(0) == s.weight());
  CHECK(checkpoint(s.out() + "/best.ckpt").state.epoch == 5);
  for (const char* name : {"config.toml", "metrics.jsonl", "classes.json", "report.html", "best.onnx", "last.onnx"}) {
    CHECK_MESSAGE(file_info(join_path(s.out(), name)).kind == FileKind::kRegular, name);
  }
}

TEST_CASE("frozen weights keep their bits until --unfreeze-at") {
  TempFolder folder;
  ModelBuilder m;
  ValueId h = m.op("Gemm", {m.input("x", {2}), m.weight("body", {2, 4})});
  m.output(m.op("Gemm", {m.op("Relu", {h}), m.weight("head", {4, 2})}), "out");
  const std::string model = write_model(folder, "n.onnx", m.g);
  const std::string data = write_arrays(folder, "d.npz", {{"x", Tensor::of<float>({4, 2}, {1, 2, -1, 3, 2, -2, 1, 1})}, {"y", Tensor::ints({0, 1, 1, 0})}});
  const std::string out = folder.path() + "/out";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {model, "--data", data, "--batch", "2", "--lr", "0.1", "--momentum", "0.9", "--freeze", "body", "--unfreeze-at", "3", "--out", out});
    return train(more);
  };
  const Tensor start = weights_of(model).at("body");
  REQUIRE(run({"--epochs", "2"}) == 0);
  const Checkpoint two = checkpoint(out + "/last.ckpt");
  CHECK(same_bits(two.tensors.at("body"), start));
  CHECK_FALSE(same_bits(two.tensors.at("head"), weights_of(model).at("head")));
  CHECK(two.tensors.count("body/momentum") == 0);
  REQUIRE(run({"--epochs", "4", "--resume"}) == 0);
  const Checkpoint four = checkpoint(out + "/last.ckpt");
  CHECK_FALSE(same_bits(four.tensors.at("body"), start));
  REQUIRE(run({"--epochs", "5", "--resume"}) == 0);  // and across a stop behind the change
  CHECK(checkpoint(out + "/last.ckpt").state.unfrozen);
}

TEST_CASE("data that do not fit the model are refused before training, naming what was wanted") {
  const Scalar s;
  CHECK(s.run({"--batch", "1", "--data", s.model}) == 3);
  const std::string wrong = write_arrays(s.folder, "wrong.npz", {{"z", Tensor::of<float>({1, 1}, {1})}, {"y", Tensor::of<float>({1, 1}, {1})}});
  CHECK(s.run({"--data", wrong}) == 3);
  CHECK(s.run({"--data", s.folder.path() + "/missing"}) == 3);
  CHECK(s.run({"--monitor", "val_loss"}) == 2);
  CHECK(s.run({"--replace-head", "auto"}) == 2);
  CHECK(file_info(s.out() + "/last.ckpt").kind == FileKind::kMissing);
}

TEST_CASE("a label beyond the model's outputs never reaches the loss") {
  TempFolder folder;
  ModelBuilder m;
  m.output(m.op("Gemm", {m.input("x", {2}), m.weight("w", {2, 3})}), "out");
  const std::string model = write_model(folder, "n.onnx", m.g);
  const std::string data = write_arrays(folder, "d.npz", {{"x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})}, {"y", Tensor::ints({0, 3})}});
  CHECK(train({model, "--data", data, "--out", folder.path() + "/out"}) == 3);
  const std::string negative = write_arrays(folder, "e.npz", {{"x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})}, {"y", Tensor::ints({0, -1})}});
  CHECK(train({model, "--data", negative, "--out", folder.path() + "/out"}) == 3);
}

}  // namespace
}  // namespace eng::test
