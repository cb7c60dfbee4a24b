// engine-train as a user meets it: refusals that leave the run alone, config.toml, what a resumed run says.
#include <algorithm>

#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

namespace eng::test {
namespace {

struct Run {
  TempFolder folder;
  std::string model, data;
  Run() {
    ModelBuilder m;
    m.output(m.op("Gemm", {m.input("x", {2}), m.weight("w", {2, 3}), m.weight("b", {3})}), "scores");
    model = write_model(folder, "net.onnx", m.g);
    data = write_arrays(folder, "d.npz", {{"x", Tensor::of<float>({6, 2}, {1, 2, -1, 3, 2, -2, 1, 1, 0, 1, 2, 0})}, {"y", Tensor::ints({0, 1, 2, 0, 1, 2})}});
  }
  std::string out() const { return folder.path() + "/out"; }
  CommandResult train(std::vector<std::string> words, bool names_model = true) const {
    if (names_model) words.insert(words.begin(), {model, "--data", data, "--batch", "2"});
    words.insert(words.end(), {"--out", out()});
    return run_command(folder.path(), "engine-train", words);
  }
};

TEST_CASE("a refused --resume leaves config.toml as it was, and the run goes on") {
  const Run r;
  REQUIRE(r.train({"--epochs", "1"}).status == 0);
  const std::string config = text_of_file(r.out() + "/config.toml");
  CHECK(r.train({"--resume", "--epochs", "2", "--optimizer", "adam"}, false).status == 2);
  CHECK(text_of_file(r.out() + "/config.toml") == config);
  const CommandResult on = r.train({"--resume", "--epochs", "2"}, false);
  CHECK_MESSAGE(on.status == 0, on.err);
  CHECK_MESSAGE(on.err.find("warning") == std::string::npos, on.err);
}

TEST_CASE("a resumed run with another recipe says so, one line for each change") {
  const Run r;
  REQUIRE(r.train({"--epochs", "1"}).status == 0);
  const CommandResult on = r.train({"--resume", "--epochs", "2", "--no-shuffle", "--lr", "0.5", "--batch", "3", "--threads", "1"}, false);
  REQUIRE_MESSAGE(on.status == 0, on.err);
  for (const char* text : {"--shuffle is false now, the run had true", "--lr is 0.5 now, the run had 0.001", "--batch is 3 now, the run had 2"}) CHECK_MESSAGE(on.says(text), on.err);
}

TEST_CASE("a new run in a folder replaces the old one's TensorBoard file, a resumed one adds its own") {
  const Run r;
  const auto events = [&] {
    const auto names = list_folder(r.out());
    REQUIRE(names.ok());
    return std::count_if(names->begin(), names->end(), [](const std::string& n) { return n.starts_with("events.out.tfevents."); });
  };
  REQUIRE(r.train({"--epochs", "1"}).status == 0);
  REQUIRE(r.train({"--epochs", "1"}).status == 0);
  CHECK(events() == 1);
  REQUIRE(r.train({"--resume", "--epochs", "2"}, false).status == 0);
  CHECK(events() == 2);
}

TEST_CASE("config.toml holds what was resolved and reads back to the same run") {
  const Run r;
  REQUIRE(r.train({"--epochs", "1"}).status == 0);
  const std::string config = text_of_file(r.out() + "/config.toml");
  for (const char* line : {"loss = \"sparse_categorical_crossentropy\"", "monitor = \"loss\"", "mode = \"min\"", "class-mode = \"sparse\""}) {
    CHECK_MESSAGE(config.find(line) != std::string::npos, config);
  }
  CHECK(config.find("\nthreads = 0") == std::string::npos);
  CHECK(config.find("\nworkers = 0") == std::string::npos);
  const Checkpoint first = checkpoint(r.out() + "/last.ckpt");
  REQUIRE(write_file_atomic(r.folder / "c.toml", config).ok());
  REQUIRE(r.train({"--config", r.folder / "c.toml"}, false).status == 0);
  CHECK(same_bits(first.tensors, checkpoint(r.out() + "/last.ckpt").tensors));
  CHECK(text_of_file(r.out() + "/config.toml") == config);
}

TEST_CASE("a plan's run is resumed on other devices, and --devices that contradict a plan are refused") {
  const Run r;
  REQUIRE(r.train({"--epochs", "1", "--shards", "1", "--devices", "cpu:0,cpu:1", "--parallel", "branch"}).status == 0);
  const std::string plan = r.folder / "plan.json";
  REQUIRE(write_file_atomic(plan, text_of_file(r.out() + "/plan.json")).ok());
  REQUIRE(r.train({"--epochs", "1", "--plan", plan}).status == 0);
  const CommandResult other = r.train({"--epochs", "1", "--plan", plan, "--devices", "cpu:0"});
  CHECK(other.status == 2);
  CHECK_MESSAGE(other.says("is for --devices cpu:0,cpu:1"), other.err);
  const CommandResult on = r.train({"--resume", "--epochs", "2", "--devices", "cpu:0"}, false);
  CHECK_MESSAGE(on.status == 0, on.err);
}

TEST_CASE("auto divides the batch where a memory limit leaves no other way") {
  const Run r;
  const CommandResult tight = r.train({"--epochs", "1", "--devices", "cpu:0,cpu:1", "--threads", "1", "--memory", "500"});
  CHECK(tight.status == 2);
  CHECK_MESSAGE(tight.says("the step needs at least"), tight.err);
}

TEST_CASE("--metrics none computes and prints no accuracy") {
  const Run r;
  const CommandResult done = r.train({"--metrics", "none"});
  REQUIRE(done.status == 0);
  CHECK(done.err.find("accuracy") == std::string::npos);
  CHECK(text_of_file(r.out() + "/metrics.jsonl").find("accuracy") == std::string::npos);
  CHECK(r.train({"--metrics", "none", "--monitor", "accuracy"}).status == 2);
}

TEST_CASE("picture options are refused where the data are arrays") {
  const Run r;
  for (const char* option : {"--rescale=1/255", "--size=9x9", "--hflip", "--mean=5", "--color=gray", "--on-bad-image=fail"}) {
    const CommandResult refused = r.train({option});
    CHECK_MESSAGE(refused.status == 2, option);
    CHECK_MESSAGE(refused.says("is for pictures"), refused.err);
  }
  CHECK(file_info(r.out()).kind == FileKind::kMissing);
}

TEST_CASE("what cannot be continued, or what is done, is said with what to do") {
  const Run r;
  CHECK(r.train({"--resume"}, false).says("holds no run that could be continued"));
  REQUIRE(r.train({"--epochs", "2", "--steps", "2"}).status == 0);
  CHECK(r.train({"--resume", "--steps", "1"}, false).says("ask for more with --steps"));
  REQUIRE(write_file_atomic(r.folder / "c.toml", "memory = \"lots\"\n").ok());
  CHECK(r.train({"--config", r.folder / "c.toml"}).says("--memory 'lots': bytes are wanted"));
  CHECK(r.train({"--weights", r.folder / "c.toml"}).says("known are .onnx, .h5, .hdf5 and .safetensors"));
}

TEST_CASE("labels of a wrong form are refused with file, array, what came and what is wanted") {
  const Run r;
  const Tensor x = Tensor::of<float>({2, 2}, {1, 2, 0, 3});
  const auto message = [&](const Tensor& y, std::vector<std::string> more) {
    more.insert(more.begin(), {r.model, "--data", write_arrays(r.folder, "l.npz", {{"x", x}, {"y", y}}), "--out", r.out()});
    const CommandResult done = run_command(r.folder.path(), "engine-train", more);
    CHECK(done.status == 3);
    CHECK(done.says("l.npz"));
    return done.err;
  };
  const std::string numbers = message(Tensor::of<float>({2}, {0, 2}), {"--loss", "sparse_categorical_crossentropy"});
  CHECK_MESSAGE(numbers.find("array y, are float32 [2]; --loss sparse_categorical_crossentropy takes class numbers as integers [N]") != std::string::npos, numbers);
  const std::string wide = message(Tensor::of<float>({2, 4}, {0, 1, 0, 0, 1, 0, 0, 0}), {"--loss", "categorical_crossentropy"});
  CHECK_MESSAGE(wide.find("the model has 3 outputs, y has 4 columns") != std::string::npos, wide);
  const std::string squares = message(Tensor::ints({0, 2}), {"--loss", "mean_squared_error"});
  CHECK_MESSAGE(squares.find("a sample of y must be [3], it is []") != std::string::npos, squares);
  const std::string guessed = message(Tensor::of<float>({2}, {0, 2}), {});
  CHECK_MESSAGE(guessed.find("array y, are float32 [2]; --loss mean_squared_error takes one target") != std::string::npos, guessed);
}

TEST_CASE("numbers that were not finite from the start are named as such") {
  const Run r;
  const std::string bad = write_arrays(r.folder, "nan.npz", {{"x", Tensor::of<float>({2, 2}, {1, 2, NAN, 3})}, {"y", Tensor::ints({0, 1})}});
  const CommandResult data = run_command(r.folder.path(), "engine-train", {r.model, "--data", bad, "--no-shuffle", "--out", r.out()});
  CHECK(data.status == 3);
  CHECK_MESSAGE(data.says("the input 'x' [2,2] holds nan at 2"), data.err);
  ModelBuilder m;
  m.output(m.op("Gemm", {m.input("x", {2}), m.tensor("w", {2, 3}, {0, NAN, 0, 0, 0, 0})}), "scores");
  const CommandResult weights = run_command(r.folder.path(), "engine-train", {write_model(r.folder, "nan.onnx", m.g), "--data", r.data, "--out", r.out()});
  CHECK(weights.status == 3);
  CHECK_MESSAGE(weights.says("the weight 'w' [2,3] holds nan at 1 before the first step"), weights.err);
}

}  // namespace
}  // namespace eng::test
