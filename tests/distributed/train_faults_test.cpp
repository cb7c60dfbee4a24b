// engine-train on several ranks: one that is killed, frozen, fails or hangs at a random step ends all within 15 seconds, named, and the last checkpoint
// goes on; Ctrl-C saves once. ENGINE_TRAIN_FAULTS=50: that many random faults (tests/distributed/faults.sh).
#include <doctest/doctest.h>

#include <dirent.h>

#include <random>

#include "tests/distributed/mpi_run.h"
#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

// A file of /proc, whose process may end meanwhile.
std::string read_proc(const std::string& path) {
  try {
    return read_text(path);
  } catch (const std::exception&) {
    return "";
  }
}

// A small network and data; runs of engine-train under mpirun on it, and their processes.
struct Setting {
  TempFolder folder;
  std::string model, data;
  explicit Setting(bool norm = false) {
    ModelBuilder m;
    ValueId h = m.op("Relu", {m.op("Gemm", {m.input("x", {8}), m.weight("w1", {8, 16}), m.weight("b1", {16})}, {}, "first")});
    if (norm) {
      h = m.op("BatchNormalization", {h, m.tensor("scale", {16}, std::vector<double>(16, 1)), m.weight("shift", {16}), m.tensor("mean", {16}, std::vector<double>(16, 0)),
                                      m.tensor("var", {16}, std::vector<double>(16, 1))});
    }
    m.output(m.op("Gemm", {h, m.weight("w2", {16, 3}), m.weight("b2", {3})}, {}, "second"), "logits");
    model = write_model(folder, "net.onnx", m.g);
    Tensor x(DType::kFloat32, {24, 8});
    std::vector<int64_t> y;
    for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, std::sin(static_cast<double>(3 * i)));
    for (int64_t i = 0; i < 24; ++i) y.push_back(i % 3);
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(y)}});
  }
  std::string out() const { return folder.path() + "/out"; }
  std::string words(const std::string& more) const {
    return model + " --data " + data + (more.find("--batch") == std::string::npos ? " --batch 8" : "") + " --shards 4 --threads 1 --lr 0.01 --momentum 0.9 --checkpoint-every 3steps --verbose 0 --out " + out() + " " + more;
  }
  std::string command(int ranks, const std::string& more, const std::string& settings = "") const {
    return "exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " + settings + " " + kOneHost + " -n " + std::to_string(ranks) + " '" + std::getenv("ENGINE_BIN") + "/engine-train' " + words(more);
  }
  // Rank -> process of the runs on this folder.
  std::map<int, int> processes() const {
    std::map<int, int> found;
    DIR* proc = opendir("/proc");
    while (const dirent* entry = readdir(proc)) {
      const int pid = std::atoi(entry->d_name);
      if (pid <= 0) continue;
      const std::string line = read_proc("/proc/" + std::string(entry->d_name) + "/cmdline");
      if (line.find("engine-train") != line.find_last_of('/', line.find('\0')) + 1 || line.find(out()) == std::string::npos) continue;
      const std::string environment = read_proc("/proc/" + std::string(entry->d_name) + "/environ");
      const size_t at = environment.find("OMPI_COMM_WORLD_RANK=");
      if (at != std::string::npos) found[std::atoi(environment.c_str() + at + 21)] = pid;
    }
    closedir(proc);
    return found;
  }
  // Whether the run has saved a checkpoint and all its ranks are there.
  bool wait_until_training(size_t ranks, double limit = 60) const {
    for (double waited = 0; waited < limit; waited += 0.02) {
      if (processes().size() == ranks && file_info(out() + "/last.ckpt").kind == FileKind::kRegular) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  bool no_process(double limit) const {
    for (double waited = 0; waited < limit; waited += 0.02) {
      if (processes().empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // The checkpoint is whole, and a run on one process goes on from it.
  void check_usable() const {
    const Checkpoint c = checkpoint(out() + "/last.ckpt");
    CHECK(c.state.step >= 3);
    MpiRun again(std::string("exec '") + std::getenv("ENGINE_BIN") + "/engine-train' " + words("--resume --epochs 1000000 --steps " + std::to_string(c.state.step + 2)));
    const int status = again.finish(60);
    CAPTURE(again.err());
    CHECK(status == 0);
    CHECK(checkpoint(out() + "/last.ckpt").state.step == c.state.step + 2);
  }
};

enum class Fault { kKilled, kFrozen, kError, kHang };

void run_with(Fault fault, int ranks, int victim, int milliseconds, bool usable = true) {
  CAPTURE(static_cast<int>(fault));
  CAPTURE(ranks);
  CAPTURE(victim);
  CAPTURE(milliseconds);
  const Setting s;
  const std::string plugin = std::string("--backend-path ") + std::getenv("ENGINE_BIN") + "/plugins/faulty_backend.so --devices faulty:0 --device-timeout 3";
  std::string settings;
  if (fault == Fault::kError || fault == Fault::kHang) {
    const int kernel = 200 + milliseconds * 10;  // a step is a few dozen kernels
    settings = "FAULTY_DEVICE=0 FAULTY_RANK=" + std::to_string(victim) + (fault == Fault::kError ? " FAULTY_ERROR_AT=" : " FAULTY_HANG_AT=") + std::to_string(kernel);
  }
  MpiRun run(s.command(ranks, "--epochs 1000000 " + (settings.empty() ? std::string() : plugin), settings));
  if (settings.empty()) {
    const bool training = s.wait_until_training(static_cast<size_t>(ranks));
    REQUIRE_MESSAGE(training, run.err());
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(s.processes().at(victim), fault == Fault::kKilled ? SIGKILL : SIGSTOP);
  }
  // An injected failure comes by itself: the limit counts from the start then.
  const int status = run.finish(settings.empty() ? 15 : 60);
  const std::string err = run.err();
  CAPTURE(err);
  CHECK_MESSAGE(status > 0, "ended with ", status);
  CHECK_MESSAGE(err.find("rank " + std::to_string(victim)) != std::string::npos, "the rank is not named");
  CHECK_MESSAGE(err.find("step ") != std::string::npos, "the step is not named");
  CHECK(count_of(err, "error: ") == 1);
  CHECK_MESSAGE(s.no_process(3), "a process is left");
  if (usable) s.check_usable();
}

}  // namespace

TEST_CASE("a rank of a training run that is killed ends all, and the last checkpoint is good") { run_with(Fault::kKilled, 2, 1, 150); }
TEST_CASE("rank 0, which writes, is killed: the last checkpoint is good") { run_with(Fault::kKilled, 3, 0, 80); }
TEST_CASE("a rank of a training run that is frozen ends all") { run_with(Fault::kFrozen, 2, 0, 100); }
TEST_CASE("a rank whose device fails ends all") { run_with(Fault::kError, 2, 1, 100); }
TEST_CASE("a rank whose device never answers ends all") { run_with(Fault::kHang, 2, 1, 100); }

TEST_CASE("faults of random kind, rank and moment") {
  const char* count = std::getenv("ENGINE_TRAIN_FAULTS");
  std::mt19937 random(20);
  int done = 0;
  for (int i = 0; count && i < std::atoi(count); ++i, ++done) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    run_with(static_cast<Fault>(random() % 4), ranks, static_cast<int>(random() % static_cast<unsigned>(ranks)), static_cast<int>(random() % 800));
  }
  if (count) MESSAGE(done, " faults");
}

TEST_CASE("ranks that were given other options are refused, each with its value") {
  const Setting s;
  MpiRun run(s.command(1, "--seed 3 --epochs 1") + " : -n 1 '" + std::getenv("ENGINE_BIN") + "/engine-train' " + s.words("--clip-norm 2.5 --epochs 1"));
  const int status = run.finish(60);
  CHECK(status == 2);
  for (const char* part : {"was given other options than rank 0", "seed = 0, not 3", "clip-norm = 2.5, not 0"}) CHECK_MESSAGE(run.err().find(part) != std::string::npos, run.err());
}

TEST_CASE("Ctrl-C on mpirun saves once, and the resumed run has the bits of an uninterrupted one") {
  const Setting s;
  MpiRun run(s.command(2, "--epochs 1000000 --metrics-every-step", "OMPI_MCA_odls_base_sigkill_timeout=3"));
  const bool training = s.wait_until_training(2);
  REQUIRE_MESSAGE(training, run.err());
  kill(run.launcher(), SIGINT);  // mpirun waits so many seconds, sends SIGTERM, waits as many again and kills
  const int status = run.finish(30);
  CAPTURE(run.err());
  CHECK(status > 0);
  CHECK(s.no_process(3));
  CHECK(count_of(run.err(), "is saved, continue with --resume") == 1);
  const int64_t step = checkpoint(s.out() + "/last.ckpt").state.step;
  MpiRun rest(s.command(2, "--resume --epochs 1000000 --steps " + std::to_string(step + 4)));
  CHECK(rest.finish(60) == 0);
  const auto resumed = checkpoint(s.out() + "/last.ckpt").tensors;
  MpiRun whole("rm -r '" + s.out() + "'; " + s.command(1, "--epochs 1000000 --steps " + std::to_string(step + 4)));
  CHECK(whole.finish(60) == 0);
  CHECK(same_bits(resumed, checkpoint(s.out() + "/last.ckpt").tensors));
}

TEST_CASE("several ranks train the bits of one process, a last batch of one row and synchronised batch norm included") {
  for (const char* more : {"--epochs 3", "--epochs 2 --sync-bn --batch 23"}) {
    const Setting s(std::string(more).find("sync") != std::string::npos);
    std::vector<std::map<std::string, Tensor>> trained;
    for (int ranks : {1, 2, 3, 4}) {
      MpiRun run("rm -rf '" + s.out() + "'; " + s.command(ranks, more));
      const int status = run.finish(60);
      CAPTURE(run.err());
      REQUIRE(status == 0);
      trained.push_back(checkpoint(s.out() + "/last.ckpt").tensors);
    }
    for (const auto& t : trained) CHECK(same_bits(t, trained[0]));
  }
}

TEST_CASE("ranks that would place the branches differently all follow rank 0") {
  const Setting s;
  const std::string places = s.folder / "places";
  REQUIRE(write_file_atomic(places + "0", "first = cpu:0\nsecond = cpu:1\n").ok());
  REQUIRE(write_file_atomic(places + "1", "first = cpu:1\nsecond = cpu:0\n").ok());
  MpiRun one(s.command(1, "--epochs 3"));
  REQUIRE(one.finish(60) == 0);
  const auto trained = checkpoint(s.out() + "/last.ckpt").tensors;
  MpiRun run("rm -r '" + s.out() + "'; exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " + kOneHost + " -n 2 sh -c 'exec " + std::getenv("ENGINE_BIN") + "/engine-train " +
             s.words("--epochs 3 --devices cpu:0,cpu:1 --parallel branch --placement " + places + "$OMPI_COMM_WORLD_RANK") + "'");
  const int status = run.finish(60);
  CAPTURE(run.err());
  REQUIRE(status == 0);
  CHECK(same_bits(trained, checkpoint(s.out() + "/last.ckpt").tensors));
}
