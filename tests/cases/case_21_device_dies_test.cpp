// Case 21: a device that fails, throws or never answers ends the whole run, named, with the last checkpoint usable; five batches on two devices.
// A worker process that is killed: tests/distributed/train_faults_test.cpp. A loader thread that throws:
// tests/engine/data_pipeline_test.cpp.
#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

#include <chrono>

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
    Tensor x(DType::kFloat32, {20, 4});
    std::vector<int64_t> y;
    for (int64_t i = 0; i < 80; ++i) x.set(i, std::sin(static_cast<double>(3 * i)));
    for (int64_t i = 0; i < 20; ++i) y.push_back(i % 3);
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(y)}});
  }
  std::string out() const { return folder.path() + "/out"; }
  // engine-train as a process of its own on two devices, the second of which is made to fail.
  CommandResult run(const std::string& setting, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {model, "--data", data, "--batch", "4", "--epochs", "2", "--lr", "0.1", "--threads", "1", "--parallel", "data", "--checkpoint-every", "1steps", "--verbose", "0", "--out", out()});
    const std::string plugins = std::string(std::getenv("ENGINE_BIN")) + "/plugins/faulty_backend.so";
    std::string line = setting + " timeout 60 '" + std::getenv("ENGINE_BIN") + "/engine-train' --backend-path '" + plugins + "' --devices faulty:0,faulty:1";
    for (const std::string& w : more) line += " '" + w + "'";
    const int status = std::system((line + " >'" + folder.path() + "/stdout.txt' 2>'" + folder.path() + "/stderr.txt'").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(folder.path() + "/stdout.txt"), text_of_file(folder.path() + "/stderr.txt")};
  }
  // Kernels of one step on the second device: found by failing at ever later ones.
  void check_usable() const {
    const Checkpoint c = checkpoint(out() + "/last.ckpt");
    CHECK(c.state.step >= 1);
    CHECK(c.state.step < 10);
    const CommandResult again = run("", {"--resume"});
    CHECK_MESSAGE(again.status == 0, again.err);
    CHECK(checkpoint(out() + "/last.ckpt").state.step == 10);
  }
};

}  // namespace

TEST_CASE("case 21: a plugin device that reports an error ends the run with status 4, device and step named, checkpoint usable") {
  const Setting s;
  const CommandResult r = s.run("FAULTY_ERROR_AT=60");
  CHECK(r.status == 4);
  CHECK_MESSAGE(r.says("faulty:1"), r.err);
  CHECK_MESSAGE(r.says("step "), r.err);
  CHECK(r.says("made to fail at kernel 60"));
  s.check_usable();
}

TEST_CASE("case 21: a plugin device that throws ends the run the same way") {
  const Setting s;
  const CommandResult r = s.run("FAULTY_THROW_AT=60");
  CHECK(r.status == 4);
  CHECK_MESSAGE(r.says("faulty:1"), r.err);
  CHECK(r.says("made to throw at kernel 60"));
  s.check_usable();
}

TEST_CASE("case 21: a device that never answers is given up after --device-timeout") {
  const Setting s;
  const auto start = std::chrono::steady_clock::now();
  const CommandResult r = s.run("FAULTY_HANG_AT=60", {"--device-timeout", "1"});
  CHECK(r.status == 4);
  CHECK_MESSAGE(r.says("faulty:1 has not answered for 1 s"), r.err);
  CHECK(r.says("step "));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  s.check_usable();
}

TEST_CASE("case 21: five batches on two devices: none is lost, nothing hangs") {
  const Setting s;
  const CommandResult r = s.run("", {"--metrics-every-step"});
  CHECK_MESSAGE(r.status == 0, r.err);
  CHECK(metrics(s.out(), "step").size() == 10);
  for (const auto& epoch : metrics(s.out(), "epoch")) CHECK(epoch["samples"] == 20);
}
