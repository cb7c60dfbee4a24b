// Case 20: whatever happens while a checkpoint is written, the newest complete one loads and is at most one interval old.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

// 2 MB of weights, so that most of the time goes into writing.
struct Net {
  TempFolder folder;
  std::vector<std::string> words;
  Net() {
    ModelBuilder m;
    const ValueId h = m.op("Relu", {m.op("Gemm", {m.input("x", {16}), m.weight("w1", {16, 15000}), m.weight("b1", {15000})})});
    m.output(m.op("Gemm", {h, m.weight("w2", {15000, 2}), m.weight("b2", {2})}), "out");
    Tensor x(DType::kFloat32, {400, 16});
    std::vector<int64_t> y;
    for (int64_t i = 0; i < 400; ++i) {
      for (int64_t k = 0; k < 16; ++k) x.set(i * 16 + k, std::sin(static_cast<double>(i + 5 * k)));
      y.push_back(i % 2);
    }
    words = {write_model(folder, "net.onnx", m.g), "--data", write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(y)}}), "--batch", "1", "--epochs", "1",
             "--checkpoint-every", "1steps", "--metrics-every-step", "--lr", "1e-4", "--verbose", "0", "--threads", "1", "--out", out()};
  }
  std::string out() const { return folder.path() + "/out"; }
  std::string ckpt() const { return out() + "/last.ckpt"; }
};

// engine-train in a process of its own; file_limit: RLIMIT_FSIZE in bytes, 0 for none.
pid_t start(std::vector<std::string> words, rlim_t file_limit, const std::string& errors) {
  const char* bin = std::getenv("ENGINE_BIN");
  REQUIRE_MESSAGE(bin, "ENGINE_BIN names the folder of engine-train (ctest sets it)");
  words.insert(words.begin(), std::string(bin) + "/engine-train");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    if (file_limit) {
      const rlimit limit{file_limit, file_limit};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    const int fd = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_WRONLY);
    dup2(fd, 2);
    dup2(null, 1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int temporary_files(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    count += name.find("last.ckpt") != std::string::npos && name != "last.ckpt";
  }
  return count;
}

}  // namespace

TEST_CASE("case 20: after SIGKILL at any time the newest checkpoint loads and lacks at most one step") {
  const Net net;
  const std::string errors = net.folder.path() + "/errors";
  int with_checkpoint = 0;
  for (int i = 0; i < 12; ++i) {
    std::filesystem::remove_all(net.out());
    const pid_t pid = start(net.words, 0, errors);
    // The first kills come at any time; the others after the first checkpoint, however slow the machine and the build are.
    for (int waited = 0; i >= 4 && waited < 6000 && file_info(net.ckpt()).kind != FileKind::kRegular; ++waited) usleep(10000);
    usleep(static_cast<useconds_t>(10000 + i * 27000));
    kill(pid, SIGKILL);
    wait_for(pid);
    if (file_info(net.ckpt()).kind != FileKind::kRegular) continue;  // killed before its first step
    ++with_checkpoint;
    const Checkpoint c = checkpoint(net.ckpt());
    const auto steps = metrics(net.out(), "step");
    const int64_t logged = steps.empty() ? 0 : steps.back()["step"].get<int64_t>();
    CHECK(c.state.step >= logged - 1);
    CHECK(c.state.step <= logged + 1);
  }
  CHECK(with_checkpoint >= 8);
  // and the run goes on from there
  std::vector<std::string> more = net.words;
  more.insert(more.end(), {"--resume", "--steps", "400", "--checkpoint-every", "1"});
  CHECK(wait_for(start(more, 0, errors)) == 0);
  CHECK(checkpoint(net.ckpt()).state.step == 400);
}

TEST_CASE("case 20: a file size limit is an error that names the file; the checkpoint before it stays") {
  const Net net;
  const std::string errors = net.folder.path() + "/errors";
  std::vector<std::string> words = net.words;
  words.insert(words.end(), {"--steps", "2"});
  REQUIRE(wait_for(start(words, 0, errors)) == 0);
  const std::string before = *read_text_file(net.ckpt(), 1 << 26);
  words.insert(words.end(), {"--steps", "4", "--resume"});
  CHECK(wait_for(start(words, static_cast<rlim_t>(before.size() / 2), errors)) == 3);
  CHECK(read_text_file(errors, 1 << 20)->find("last.ckpt") != std::string::npos);
  CHECK(*read_text_file(net.ckpt(), 1 << 26) == before);
  CHECK(temporary_files(net.out()) == 0);
}

TEST_CASE("case 20: a run folder that cannot be made is an error before training") {
  const Net net;
  const std::string errors = net.folder.path() + "/errors";
  std::ofstream(net.out()) << "a file";
  CHECK(wait_for(start(net.words, 0, errors)) == 3);
  CHECK(read_text_file(errors, 1 << 20)->find(net.out()) != std::string::npos);
}

TEST_CASE("Ctrl-C finishes the step, saves, and ends with status 5; the resumed run gives the bits of an uninterrupted one") {
  const Net net;
  const std::string errors = net.folder.path() + "/errors";
  std::vector<std::string> words = net.words;
  words.insert(words.end(), {"--steps", "60", "--checkpoint-every", "1"});
  REQUIRE(wait_for(start(words, 0, errors)) == 0);
  const Checkpoint whole = checkpoint(net.ckpt());
  REQUIRE(whole.state.step == 60);
  std::filesystem::remove_all(net.out());
  const pid_t pid = start(words, 0, errors);
  while (metrics(net.out(), "step").size() < 3) usleep(2000);
  kill(pid, SIGINT);
  const int status = wait_for(pid);
  if (status != 5) CHECK(status == 0);  // it may have been done already
  else CHECK(checkpoint(net.ckpt()).state.step < 60);
  words.emplace_back("--resume");
  REQUIRE(wait_for(start(words, 0, errors)) == 0);
  CHECK(same_bits(whole.tensors, checkpoint(net.ckpt()).tensors));
}
