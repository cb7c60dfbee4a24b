// Case 17: what a run on several devices saves has each parameter once, under its ONNX name, and any number of devices goes on from it.
#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

using namespace eng;
using namespace eng::test;

namespace {

struct Setting {
  TempFolder folder;
  std::string model, data;
  Setting() {
    ModelBuilder m;
    const ValueId h = m.op("Relu", {m.op("Gemm", {m.input("x", {4}), m.weight("w1", {4, 6}), m.weight("b1", {6})})});
    m.output(m.op("Gemm", {h, m.weight("w2", {6, 3}), m.weight("b2", {3})}), "logits");
    model = write_model(folder, "net.onnx", m.g);
    Tensor x(DType::kFloat32, {12, 4});
    std::vector<int64_t> y;
    for (int64_t i = 0; i < 48; ++i) x.set(i, std::sin(static_cast<double>(3 * i)));
    for (int64_t i = 0; i < 12; ++i) y.push_back(i % 3);
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(y)}});
  }
  std::string out(const std::string& name) const { return folder.path() + "/" + name; }
  int run(const std::string& name, const std::string& devices, std::vector<std::string> more) const {
    more.insert(more.begin(), {model, "--data", data, "--val", data, "--batch", "4", "--lr", "0.1", "--momentum", "0.9", "--devices", devices, "--parallel", "data", "--out", out(name)});
    return train(more);
  }
};

void check_near(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b, double rtol) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : a) {
    REQUIRE_MESSAGE(b.count(name), name);
    for (int64_t i = 0; i < t.element_count(); ++i) CHECK(b.at(name).at(i) == doctest::Approx(t.at(i)).epsilon(rtol));
  }
}

}  // namespace

TEST_CASE("case 17: one and two devices train the same weights, and no name in a checkpoint tells how many there were") {
  const Setting s;
  REQUIRE(s.run("one", "cpu:0", {"--epochs", "2", "--checkpoint-every", "1", "--keep", "2"}) == 0);
  REQUIRE(s.run("two", "cpu:0,cpu:1", {"--epochs", "2", "--checkpoint-every", "1", "--keep", "2"}) == 0);
  const Checkpoint one = checkpoint(s.out("one") + "/last.ckpt"), two = checkpoint(s.out("two") + "/last.ckpt");
  std::vector<std::string> names;
  for (const auto& [name, t] : two.tensors) names.push_back(name);
  CHECK(names == std::vector<std::string>{"b1", "b1/momentum", "b2", "b2/momentum", "w1", "w1/momentum", "w2", "w2/momentum"});
  check_near(one.tensors, two.tensors, 1e-5);
  CHECK(checkpoint(s.out("two") + "/epoch-0001.ckpt").state.epoch == 1);
  auto exported = import_onnx(s.out("two") + "/last.onnx");
  REQUIRE_MESSAGE(exported.ok(), exported.status().message());
  CHECK(exported->value(exported->inputs.at(0)).name == "x");
  CHECK(exported->value(exported->outputs.at(0)).name == "logits");
}

TEST_CASE("case 17: what two devices saved gives the same loss on one, two and three, and the other way round") {
  for (const char* saved_on : {"cpu:0,cpu:1", "cpu:0"}) {
    for (const char* devices : {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"}) {
      const Setting s;
      REQUIRE(s.run("r", saved_on, {"--epochs", "2"}) == 0);
      const double saved = metrics(s.out("r"), "epoch").back()["val_loss"].get<double>();
      const std::string shards = std::to_string(std::count(devices, devices + std::string(devices).size(), ':'));
      const CommandResult r = run_command(s.folder.path(), "engine-train", {"--resume", "--out", s.out("r"), "--epochs", "0", "--devices", devices, "--shards", shards});
      REQUIRE_MESSAGE(r.status == 0, r.err);
      CHECK(nlohmann::json::parse(r.out)["loss"].get<double>() == doctest::Approx(saved).epsilon(1e-6));
    }
  }
}

TEST_CASE("case 17: with the same shards a run goes on to the bit, whatever it was saved on") {
  const Setting s;
  REQUIRE(s.run("whole", "cpu:0", {"--epochs", "4", "--shards", "4"}) == 0);
  REQUIRE(s.run("parts", "cpu:0,cpu:1,cpu:2,cpu:3", {"--epochs", "1"}) == 0);
  REQUIRE(s.run("parts", "cpu:0", {"--epochs", "2", "--resume"}) == 0);
  REQUIRE(s.run("parts", "cpu:0,cpu:1,cpu:2", {"--epochs", "4", "--resume"}) == 0);
  CHECK(same_bits(checkpoint(s.out("whole") + "/last.ckpt").tensors, checkpoint(s.out("parts") + "/last.ckpt").tensors));
}
