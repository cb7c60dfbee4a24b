// Case 18: a last batch with fewer images than devices: idle devices add nothing to sums, divisors or running statistics.
#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

struct Setting {
  TempFolder folder;
  std::string with_norm, without, data;
  Setting() {
    for (bool norm : {true, false}) {
      ModelBuilder m;
      Attributes pads;
      pads.set("pads", std::vector<int64_t>{1, 1, 1, 1});
      ValueId h = m.op("Conv", {m.input("x", {3, 8, 8}), m.weight("k", {4, 3, 3, 3})}, pads);
      if (norm)
        h = m.op("BatchNormalization", {h, m.tensor("scale", {4}, {1, 1, 1, 1}), m.weight("bias", {4}), m.tensor("mean", {4}, {0, 0, 0, 0}), m.tensor("var", {4}, {1, 1, 1, 1})});
      h = m.op("Flatten", {m.op("GlobalAveragePool", {m.op("Relu", {h})})});
      m.output(m.op("Gemm", {h, m.weight("w", {4, 2}), m.weight("b", {2})}), "logits");
      (norm ? with_norm : without) = write_model(folder, norm ? "bn.onnx" : "plain.onnx", m.g);
    }
    Tensor x(DType::kFloat32, {9, 3, 8, 8});
    for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, std::sin(static_cast<double>(i) * 0.37));
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints({0, 1, 0, 1, 1, 0, 0, 1, 1})}});
    Tensor one(DType::kFloat32, {1, 3, 8, 8});
    for (int64_t i = 0; i < one.element_count(); ++i) one.set(i, 0.5);
    write_arrays(folder, "one.npz", {{"x", one}, {"y", Tensor::ints({1})}});
  }
  std::string out(const std::string& name) const { return folder.path() + "/" + name; }
  std::map<std::string, Tensor> run(const std::string& name, const std::string& model, const std::string& devices, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {model, "--data", data, "--batch", "4", "--lr", "0.1", "--devices", devices, "--parallel", "data", "--metrics-every-step", "--out", out(name)});
    REQUIRE(train(more) == 0);
    return checkpoint(out(name) + "/last.ckpt").tensors;
  }
};

void check_finite(const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, t] : tensors)
    for (int64_t i = 0; i < t.element_count(); ++i) CHECK_MESSAGE(std::isfinite(t.at(i)), name);
}

}  // namespace

TEST_CASE("case 18: nine images in batches of four on three devices are each used once, and give one device's weights without batch norm") {
  const Setting s;
  const auto one = s.run("one", s.without, "cpu:0"), three = s.run("three", s.without, "cpu:0,cpu:1,cpu:2");
  for (const auto& [name, t] : one)
    for (int64_t i = 0; i < t.element_count(); ++i) CHECK(three.at(name).at(i) == doctest::Approx(t.at(i)).epsilon(1e-5));
  CHECK(metrics(s.out("three"), "step").size() == 3);
  CHECK(metrics(s.out("three"), "epoch").at(0)["samples"] == 9);
  CHECK(metrics(s.out("three"), "epoch").at(0)["loss"].get<double>() == doctest::Approx(metrics(s.out("one"), "epoch").at(0)["loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("case 18: devices without an image leave running statistics alone; the combined ones follow the documented formula") {
  const Setting s;
  check_finite(s.run("bn", s.with_norm, "cpu:0,cpu:1,cpu:2", {"--epochs", "2"}));
  check_finite(s.run("small", s.with_norm, "cpu:0,cpu:1", {"--batch", "1"}));
  // A batch of one image on two devices is that image on one device.
  const auto one = s.run("batch1-one", s.with_norm, "cpu:0", {"--batch", "1"}), two = s.run("batch1-two", s.with_norm, "cpu:0,cpu:1", {"--batch", "1"});
  CHECK(same_bits(one, two));
  // Rate 0 and one batch of eight: each of two shards has four images; next = sum over shards of share * (0.9 old + 0.1 batch's).
  const auto whole = s.run("first", s.with_norm, "cpu:0", {"--batch", "4", "--lr", "0", "--steps", "2", "--no-shuffle"});
  const auto halves = s.run("halves", s.with_norm, "cpu:0,cpu:1", {"--batch", "8", "--lr", "0", "--steps", "1", "--no-shuffle"});
  // Two steps on one device: mean2 = 0.9 (0.1 m1) + 0.1 m2 from mean 0; the halves give 0.1 (m1 + m2) / 2. Both batches' means follow from a third run.
  const auto half = s.run("half", s.with_norm, "cpu:0", {"--batch", "4", "--lr", "0", "--steps", "1", "--no-shuffle"});
  for (const char* name : {"mean", "var"})
    for (int64_t c = 0; c < 4; ++c) {
      const double start = std::string(name) == "var" ? 1 : 0, after1 = half.at(name).at(c), after2 = whole.at(name).at(c);
      const double b1 = (after1 - 0.9 * start) / 0.1, b2 = (after2 - 0.9 * after1) / 0.1;
      CHECK(halves.at(name).at(c) == doctest::Approx(0.9 * start + 0.1 * (b1 + b2) / 2).epsilon(1e-4));
    }
}

TEST_CASE("case 18: a validation set of one image on three devices") {
  const Setting s;
  s.run("val", s.with_norm, "cpu:0,cpu:1,cpu:2", {"--val", s.out("one.npz")});
  const auto epoch = metrics(s.out("val"), "epoch").at(0);
  CHECK(epoch["val_samples"] == 1);
  CHECK(std::isfinite(epoch["val_loss"].get<double>()));
}

TEST_CASE("synchronised batch norm over shards gives the weights of the batch in one piece") {
  const Setting s;
  const auto one = s.run("one", s.with_norm, "cpu:0"), sync = s.run("sync", s.with_norm, "cpu:0,cpu:1,cpu:2", {"--sync-bn"}), apart = s.run("apart", s.with_norm, "cpu:0,cpu:1,cpu:2");
  // All shards of a lane are under way together: one lane with many shards, and branches on two devices.
  const auto lane = s.run("lane", s.with_norm, "cpu:0", {"--sync-bn", "--shards", "3", "--memory", "1G"});
  CHECK(same_bits(lane, sync));
  CHECK(train({s.with_norm, "--data", s.data, "--batch", "4", "--lr", "0.1", "--devices", "cpu:0,cpu:1", "--parallel", "branch", "--shards", "3", "--sync-bn", "--costs", "estimated", "--out", s.out("branch")}) == 0);
  CHECK(same_bits(checkpoint(s.out("branch") + "/last.ckpt").tensors, sync));
  double furthest = 0;
  for (const auto& [name, t] : one)
    for (int64_t i = 0; i < t.element_count(); ++i) {
      CHECK(std::fabs(sync.at(name).at(i) - t.at(i)) <= 1e-5 * std::max(1.0, std::fabs(t.at(i))));
      furthest = std::max(furthest, std::fabs(apart.at(name).at(i) - t.at(i)));
    }
  CHECK(furthest > 1e-3);  // or the option would make no difference
}
