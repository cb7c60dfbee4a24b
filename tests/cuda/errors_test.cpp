// What a user meets when CUDA cannot do what is asked: engine-train and engine-graph as processes of their own, with the plugin over the emulation, which plays
// the machines that are not here, and with the real plugin where it was built and there is no driver. Errors have status 4 and say what to do.
// Plugin files that are cut short or damaged: tests/engine/plugin_damage_test.cpp.
#include <filesystem>

#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

using namespace eng;
using namespace eng::test;

namespace {

std::string bin() { return std::getenv("ENGINE_BIN"); }
std::string emulated() { return bin() + "/plugins/libengine_backend_cuda_emulated.so"; }

struct Setting {
  TempFolder folder;
  std::string model, data;
  Setting() {
    ModelBuilder m;
    const ValueId c = m.op("Relu", {m.op("Conv", {m.input("x", {2, 4, 4}), m.weight("k", {3, 2, 3, 3})})});
    const ValueId h = m.op("Relu", {m.op("Gemm", {m.op("Flatten", {c}), m.weight("w1", {12, 6}), m.weight("b1", {6})})});
    m.output(m.op("Gemm", {h, m.weight("w2", {6, 3}), m.weight("b2", {3})}), "logits");
    model = write_model(folder, "net.onnx", m.g);
    Tensor x(DType::kFloat32, {20, 2, 4, 4});
    std::vector<int64_t> y;
    for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, std::sin(static_cast<double>(3 * i)));
    for (int64_t i = 0; i < 20; ++i) y.push_back(i % 3);
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(y)}});
  }
  std::string out() const { return folder.path() + "/out"; }
  CommandResult command(const std::string& environment, const std::string& words) const {
    const std::string line = "env -u ENGINE_BACKEND_PATH -u CUDA_EMULATION_DEVICES " + environment + " timeout 120 " + bin() + "/" + words + " >" + folder.path() + "/stdout.txt 2>" + folder.path() + "/stderr.txt";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(folder.path() + "/stdout.txt"), text_of_file(folder.path() + "/stderr.txt")};
  }
  // engine-train for ten steps of four samples with a checkpoint after each.
  CommandResult train(const std::string& environment, const std::string& words) const {
    return command(environment, "engine-train " + model + " --data " + data + " --batch 4 --epochs 2 --lr 0.1 --momentum 0.9 --threads 1 --checkpoint-every 1steps --verbose 0 --out " + out() + " " + words);
  }
  CommandResult on_emulation(const std::string& environment, const std::string& words = "--devices cuda:0") const { return train(environment, "--backend-path " + emulated() + " " + words); }
  // The last checkpoint is whole, of a step before the failure, and a run goes on from it.
  void check_usable() const {
    const Checkpoint c = checkpoint(out() + "/last.ckpt");
    CHECK(c.state.step >= 1);
    CHECK(c.state.step < 10);
    const CommandResult again = on_emulation("CUDA_EMULATION_ABORT=1", "--devices cuda:0 --resume");
    CHECK_MESSAGE(again.status == 0, again.err);
    CHECK(checkpoint(out() + "/last.ckpt").state.step == 10);
  }
};

// A failed run says each part, once, with status 4, and leaves no output folder behind.
void refuses(const Setting& s, const CommandResult& r, const std::vector<std::string>& parts) {
  CHECK_MESSAGE(r.status == 4, r.err);
  for (const std::string& part : parts) CHECK_MESSAGE(r.says(part), "'", part, "' is not in: ", r.err);
  CHECK(r.err.find("error: ") == r.err.rfind("error: "));
  CHECK(file_info(s.out() + "/last.ckpt").kind == FileKind::kMissing);
}

bool real_plugin_without_driver() { return std::filesystem::exists(bin() + "/libengine_backend_cuda.so") && !std::filesystem::exists("/dev/nvidiactl"); }

}  // namespace

TEST_CASE("cuda errors: the real plugin without a driver says so, for a run and in the list of devices") {
  if (!real_plugin_without_driver()) return;
  const Setting s;
  const std::string plugin = "--backend-path " + bin() + "/libengine_backend_cuda.so";
  const std::string reason = "no NVIDIA driver is installed (libcuda.so.1 is missing)";
  refuses(s, s.train("", "--devices cuda:0 " + plugin), {"device cuda:0 cannot be used: " + reason, "engine-graph devices"});
  refuses(s, s.train("", "--devices cuda:3 " + plugin), {"device cuda:3: there is none: " + reason});
  const CommandResult list = s.command("", "engine-graph devices " + plugin);
  CHECK(list.status == 0);
  CHECK(list.out.find("cpu:0  ") != std::string::npos);
  CHECK_MESSAGE(list.out.find("not usable: " + reason) != std::string::npos, list.out);
}

TEST_CASE("cuda errors: no driver, one that is too old, no device, one of too low compute capability") {
  const Setting s;
  refuses(s, s.on_emulation("CUDA_EMULATION_DRIVER=0"), {"device cuda:0 cannot be used: no NVIDIA driver is installed"});
  refuses(s, s.on_emulation("CUDA_EMULATION_DRIVER=12040"), {"the NVIDIA driver is too old: it supports CUDA 12.4, this plugin needs 13.", "update the driver"});
  refuses(s, s.on_emulation("CUDA_EMULATION_DEVICES=0"), {"the NVIDIA driver sees no device", "CUDA_VISIBLE_DEVICES"});
  refuses(s, s.on_emulation("CUDA_EMULATION_CAPABILITY=75"), {"it has compute capability 7.5, at least 8.0 is needed", "engine-graph devices"});
}

TEST_CASE("cuda errors: the list of devices holds those of all backends and says why one cannot be used") {
  const Setting s;
  const auto list = [&](const std::string& environment) {
    const CommandResult r = s.command(environment, "engine-graph devices --format json --backend-path " + emulated());
    REQUIRE_MESSAGE(r.status == 0, r.err);
    std::map<std::string, nlohmann::json> devices;
    for (const auto& d : nlohmann::json::parse(r.out)) devices[d["name"].get<std::string>()] = d;
    CHECK(devices.count("cpu:0") == 1);
    return devices;
  };
  auto three = list("CUDA_EMULATION_DEVICES=3 CUDA_EMULATION_MEMORY=1000000000");
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2"}) {
    CHECK(three[name]["unavailable"] == "");
    CHECK(three[name]["total_memory"] == 1000000000);
    CHECK(three[name]["free_memory"] == 1000000000);
    CHECK(three[name]["description"].get<std::string>().find("compute capability 9.0") != std::string::npos);
  }
  CHECK(three.count("cuda:3") == 0);
  CHECK(list("CUDA_EMULATION_CAPABILITY=75")["cuda:1"]["unavailable"] == "it has compute capability 7.5, at least 8.0 is needed");
  CHECK(list("CUDA_EMULATION_DRIVER=12040")["cuda:0"]["unavailable"].get<std::string>().find("the NVIDIA driver is too old") == 0);
}

TEST_CASE("cuda errors: a device that is not there, and names of no known form") {
  const Setting s;
  refuses(s, s.on_emulation("", "--devices cuda:7"), {"device cuda:7: there are cuda:0 to cuda:1"});
  refuses(s, s.on_emulation("", "--devices cuda:0,cuda:2"), {"device cuda:2: there are cuda:0 to cuda:1"});
  refuses(s, s.on_emulation("CUDA_EMULATION_DEVICES=1", "--devices cuda:1"), {"device cuda:1: there is cuda:0 alone"});
  refuses(s, s.on_emulation("", "--devices cuda:rank,cuda:2"), {"device cuda:2: there are cuda:0 to cuda:1", "for 'rank' stands 0"});
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:0:1", "cuda:00", "cuda:0x1", "CUDA:0", "gpu:0", ":0", "cuda:0,", "cuda:0,cuda:0", "cuda:rank,cuda:0", "cuda:ranks", "cuda:rank:1", ":rank"}) {
    CAPTURE(name);
    const CommandResult r = s.on_emulation("", std::string("--devices ") + name);
    CHECK_MESSAGE(r.status == 2, r.err);
    CHECK(r.says("device"));
  }
}

TEST_CASE("cuda errors: out of device memory says what was asked, what is free and what helps") {
  const Setting s;
  for (const char* environment : {"CUDA_EMULATION_FAIL_ALLOCATION=1", "CUDA_EMULATION_FAIL_ALLOCATION=2", "CUDA_EMULATION_FAIL_ALLOCATION=3", "CUDA_EMULATION_MEMORY=2000"}) {
    CAPTURE(environment);
    refuses(s, s.on_emulation(environment), {"cuda:0: cannot allocate ", " bytes of device memory; cuda:0 has ", " bytes free", "--batch", "--memory"});
  }
}

TEST_CASE("cuda errors: a device that fails in the middle ends the run, and its last checkpoint is good") {
  const Setting s;
  const CommandResult r = s.on_emulation("CUDA_EMULATION_FAIL_OPERATION=300");
  CHECK_MESSAGE(r.status == 4, r.err);
  for (const char* part : {"step ", "cuda:0", "cudaErrorLaunchFailure"}) CHECK_MESSAGE(r.says(part), "'", part, "' is not in: ", r.err);
  s.check_usable();
}

TEST_CASE("cuda errors: going on from the checkpoint of an earlier run than the last one is said") {
  const Setting s;
  REQUIRE(s.on_emulation("", "--devices cuda:0").status == 0);
  const std::string said = "the run that wrote it ended before its first checkpoint";
  CHECK(!s.on_emulation("", "--devices cuda:0 --resume --epochs 3").says(said));
  CHECK(s.on_emulation("CUDA_EMULATION_FAIL_OPERATION=5", "--devices cuda:0 --clip-norm 3").status == 4);
  const CommandResult r = s.on_emulation("", "--devices cuda:0 --resume --epochs 4");
  CHECK_MESSAGE(r.status == 0, r.err);
  CHECK_MESSAGE(r.says(said), r.err);
}

TEST_CASE("cuda errors: a device that never answers is given up after --device-timeout") {
  const Setting s;
  const CommandResult r = s.on_emulation("CUDA_EMULATION_HANG_OPERATION=300 CUDA_EMULATION_HANG_SECONDS=30", "--devices cuda:0 --device-timeout 1");
  CHECK_MESSAGE(r.status == 4, r.err);
  CHECK_MESSAGE(r.says("cuda:0 has not answered for 1 s"), r.err);
  s.check_usable();
}

TEST_CASE("cuda errors: a device that fails while the others wait for its gradients ends the run, whichever work it was") {
  const Setting s;
  for (int operation : {150, 222, 294, 366, 438}) {  // of some 55 a step on two devices
    CAPTURE(operation);
    std::filesystem::remove_all(s.out());
    const CommandResult r = s.on_emulation("CUDA_EMULATION_FAIL_OPERATION=" + std::to_string(operation), "--devices cuda:0,cuda:1 --parallel data --shards 2");
    CHECK_MESSAGE(r.status == 4, r.err);
    for (const char* part : {"cuda:", "cudaErrorLaunchFailure"}) CHECK_MESSAGE(r.says(part), "'", std::string(part), "' is not in: ", r.err);
    s.check_usable();
  }
}

TEST_CASE("cuda errors: a device that never answers does not hold up the others that wait for its gradients") {
  const Setting s;
  for (int operation : {200, 321}) {
    CAPTURE(operation);
    std::filesystem::remove_all(s.out());
    const auto begun = std::chrono::steady_clock::now();
    const CommandResult r = s.on_emulation("CUDA_EMULATION_HANG_OPERATION=" + std::to_string(operation) + " CUDA_EMULATION_HANG_SECONDS=100", "--devices cuda:0,cuda:1 --parallel data --shards 2 --device-timeout 1");
    CHECK_MESSAGE(r.status == 4, r.err);
    CHECK_MESSAGE(r.says(" has not answered for 1 s: "), r.err);
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(20));
    s.check_usable();
  }
}

TEST_CASE("cuda errors: without NCCL gradients are added up in the fixed order, and the run says why") {
  const Setting s;
  const auto run = [&](const std::string& environment, const std::string& words, const std::string& says) {
    std::filesystem::remove_all(s.out());
    const CommandResult r = s.on_emulation("CUDA_EMULATION_ABORT=1 CUDA_EMULATION_DEVICES=3 " + environment, "--devices cuda:0,cuda:1,cuda:2 --parallel data --shards 4 --verbose 2 " + words);
    REQUIRE_MESSAGE(r.status == 0, r.err);
    CHECK_MESSAGE(r.says(says), r.err);
    return weights_of(s.out() + "/last.onnx");
  };
  const auto fixed = run("", "--deterministic", "gradients added up in the fixed order of shards");
  CHECK(same_bits(fixed, run("CUDA_EMULATION_MISSING=NCCL", "", "gradients added up by copies in the fixed order of shards (cuda:0: NCCL is needed but cannot be loaded: the emulation is without it)")));
  run("", "", "gradients added up by cuda's all-reduce");
}

TEST_CASE("cuda errors: without cuBLAS and cuDNN the plain kernels compute, and NCCL is not needed on one device") {
  const Setting s;
  const auto loss = [&](const std::string& environment) {
    const CommandResult r = s.on_emulation(environment);
    REQUIRE_MESSAGE(r.status == 0, r.err);
    return nlohmann::json::parse(r.out)["loss"].get<double>();
  };
  const double with = loss("CUDA_EMULATION_ABORT=1");
  for (const char* refused : {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"})
    CHECK(loss(std::string("CUDA_EMULATION_ABORT=1 CUDA_EMULATION_UNSUPPORTED=") + refused) == doctest::Approx(with).epsilon(1e-5));
  for (const char* missing : {"cuBLAS", "cuDNN", "cuBLAS,cuDNN,NCCL"}) CHECK(loss(std::string("CUDA_EMULATION_ABORT=1 CUDA_EMULATION_MISSING=") + missing) == doctest::Approx(with).epsilon(1e-5));
}

TEST_CASE("cuda errors: none for --profile: the trace holds the kernels of a step on each device, in order") {
  const Setting s;
  const CommandResult r = s.on_emulation("CUDA_EMULATION_ABORT=1", "--profile --devices cuda:0,cuda:1 --parallel data");
  REQUIRE_MESSAGE(r.status == 0, r.err);
  const auto trace = nlohmann::json::parse(text_of_file(s.out() + "/trace.json"));
  std::map<int, std::string> rows;
  std::map<std::string, int> products;  // kernels of MatMul, Gemm and Conv by row
  std::map<int, double> last;
  for (const auto& e : trace["traceEvents"]) {
    const int row = e.value("tid", -1);
    if (e["ph"] == "M") {
      if (e["name"] == "thread_name") rows[row] = e["args"]["name"];
      continue;
    }
    const std::string name = e["name"];
    for (const char* op : {"MatMul ", "Gemm ", "Conv "}) products[rows[row]] += name.rfind(op, 0) == 0;
    if (rows[row].rfind("cuda:", 0) != 0) continue;
    CHECK(e["ts"].get<double>() >= last[row] - 1e-3);
    last[row] = e["ts"].get<double>() + e["dur"].get<double>();
  }
  CHECK(products["cuda:0"] >= 3);
  CHECK(products["cuda:1"] >= 3);
}

TEST_CASE("cuda errors: plugins are looked for where a device asks for one") {
  const Setting s;
  const std::string nowhere = "ENGINE_BACKEND_PATH=" + s.folder.path() + "/nowhere";
  CHECK(s.train(nowhere, "--devices cpu:0 --steps 1").status == 0);
  const CommandResult r = s.train(nowhere, "--devices cuda:0");
  CHECK(r.status != 0);
  CHECK_MESSAGE(r.says("nowhere"), r.err);
}

TEST_CASE("cuda errors: a library that cannot be loaded is named with the loader's reason") {
  const TempFolder folder;
  const auto probe = [&](const std::string& what) {
    const std::string out = folder.path() + "/out.txt";
    CHECK(std::system(("LD_LIBRARY_PATH=" + folder.path() + " " + bin() + "/cuda-libraries-probe " + what + " >" + out).c_str()) == 0);
    return text_of_file(out);
  };
  std::string file = probe("file cuDNN");
  CHECK(file.rfind("libcudnn.so.", 0) == 0);
  std::filesystem::copy_file(bin() + "/plugins/fake_backend.so", folder.path() + "/" + file);
  CHECK(probe("missing cuDNN") == "cuDNN: " + file + " has no function cudnnCreate; another version is needed");
  file = probe("file cuBLAS");
  std::ofstream(folder.path() + "/" + file) << std::string(4096, 'x');
  const std::string why = probe("missing cuBLAS");
  CHECK_MESSAGE(why.find("cuBLAS is needed but cannot be loaded: " + folder.path() + "/" + file + ": ") == 0, why);
}
