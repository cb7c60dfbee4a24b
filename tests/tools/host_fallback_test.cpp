// Devices that lack kernels, played by the fake plugin, which has Identity, Add and MatMul alone: the host's CPU takes what they cannot run.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

namespace eng::test {
namespace {

struct Setting {
  TempFolder folder;
  std::string model, data, plugin = std::string(std::getenv("ENGINE_BIN")) + "/plugins/fake_backend.so";
  Setting() {
    ModelBuilder m;
    const ValueId sum = m.op("Add", {m.input("a", {6}), m.input("b", {6})}, {}, "sum");
    m.output(m.op("Gemm", {m.op("Relu", {sum}, {}, "relu"), m.weight("w", {6, 3}), m.weight("bias", {3})}, {}, "dense"), "scores");
    model = write_model(folder, "net.onnx", m.g);
    Tensor a(DType::kFloat32, {12, 6}), b(DType::kFloat32, {12, 6});
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < 72; ++i) a.set(i, 0.1 * static_cast<double>(i % 7)), b.set(i, 0.2 * static_cast<double>(i % 5) - 0.5);
    for (int64_t i = 0; i < 12; ++i) labels.push_back(i % 3);
    data = write_arrays(folder, "d.npz", {{"a", a}, {"b", b}, {"y", Tensor::ints(labels)}});
  }
  CommandResult run(const std::string& out, const std::string& devices, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{model, "--data", data, "--batch", "4", "--epochs", "2", "--lr", "0.1", "--threads", "1", "--backend-path", plugin, "--devices", devices, "--out", folder / out};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(folder.path(), "engine-train", words);
  }
  std::map<std::string, Tensor> weights(const std::string& out) const { return weights_of(folder / out + "/last.onnx"); }
};

TEST_CASE("nodes that a device cannot run are placed on the CPU, with the reason in the plan") {
  const Setting s;
  const CommandResult r = run_command(s.folder.path(), "engine-graph", {"plan", s.model, "--devices", "fake:0", "--backend-path", s.plugin, "--costs", "estimated", "--format", "json"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK(r.says("fake:0 cannot run are computed by the host's CPU: Relu 'relu'"));
  std::map<std::string, nlohmann::json> forward;
  const auto plan = nlohmann::json::parse(r.out);
  for (const auto& n : plan["nodes"])
    if (n["phase"] == "forward") forward[n["name"]] = n;
  CHECK(forward.at("sum")["device"] == "fake:0");
  CHECK(forward.at("relu")["device"] == "cpu:0");
  CHECK(forward.at("dense")["device"] == "cpu:0");
  CHECK(forward.at("relu")["reason"].get<std::string>().find("fake:0 cannot run it: Relu 'relu': it has no kernel for this operator") != std::string::npos);
}

TEST_CASE("training with nodes on the CPU gives the CPU's bits, on one device and on two") {
  const Setting s;
  const CommandResult one = s.run("one", "fake:0"), two = s.run("two", "fake:0,fake:1", {"--shards", "2", "--parallel", "data"});
  REQUIRE_MESSAGE(one.status == 0, one.err);
  REQUIRE_MESSAGE(two.status == 0, two.err);
  REQUIRE(s.run("cpu", "cpu:0").status == 0);
  REQUIRE(s.run("cpu2", "cpu:0", {"--shards", "2"}).status == 0);
  CHECK(same_bits(s.weights("one"), s.weights("cpu")));
  CHECK(same_bits(s.weights("two"), s.weights("cpu2")));
}

TEST_CASE("where a CPU is named, no other is put beside a device") {
  const Setting s;
  const CommandResult r = run_command(s.folder.path(), "engine-graph", {"plan", s.model, "--devices", "fake:0,cpu:1", "--parallel", "branch", "--backend-path", s.plugin, "--costs", "estimated"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK_FALSE(r.says("host's CPU"));
  CHECK(r.out.find("cpu:0") == std::string::npos);
}

}  // namespace
}  // namespace eng::test
