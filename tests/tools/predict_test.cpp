// engine-predict as a user meets it: what it writes, what it refuses by name, what it says about outputs that are no numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

namespace eng::test {
namespace {

// out = x w with w [2,2], or without weights out = x + x.
std::string model_file(const TempFolder& folder, const std::vector<double>& w, const std::string& output, const std::vector<std::string>& classes = {}) {
  ModelBuilder m;
  const ValueId x = m.input("x", {2});
  m.output(w.empty() ? m.op("Add", {x, x}) : m.op("Gemm", {x, m.tensor("w", {2, 2}, w)}), output);
  if (!classes.empty()) m.g.metadata["engine.classes"] = nlohmann::json(classes).dump();
  return write_model(folder, "net.onnx", m.g);
}

std::string data_file(const TempFolder& folder, float bad = 4) {
  return write_arrays(folder, "d.npz", {{"x", Tensor::of<float>({3, 2}, {1, 2, -1, bad, 0.5f, 0.25f})}, {"y", Tensor::ints({1, 1, 0})}});
}

CommandResult predict(const TempFolder& folder, std::vector<std::string> words) { return run_command(folder.path(), "engine-predict", words); }

TEST_CASE("an output that is called y keeps its name in the .npz file, the labels step aside") {
  TempFolder folder;
  const std::string out = folder / "p.npz";
  REQUIRE(predict(folder, {model_file(folder, {1, 0, 0, 1}, "y"), "--data", data_file(folder), "--out", out}).status == 0);
  const auto arrays = read_npz(out);
  REQUIRE(arrays.ok());
  REQUIRE(arrays->count("labels") == 1);
  CHECK(arrays->at("labels").to_ints() == std::vector<int64_t>{1, 1, 0});
  CHECK(arrays->at("y").dtype() == DType::kFloat32);
  CHECK(arrays->at("y").at(3) == 4);
}

TEST_CASE("predicting needs no weights") {
  TempFolder folder;
  const std::string out = folder / "p.npz";
  const CommandResult r = predict(folder, {model_file(folder, {}, "o"), "--data", data_file(folder), "--out", out});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK(read_npz(out)->at("o").at(3) == 8);
}

TEST_CASE("outputs that are no numbers: all of them is an error, some are counted and named") {
  TempFolder folder;
  const double nan = std::nan("");
  const CommandResult all = predict(folder, {model_file(folder, {nan, 0, 0, nan}, "o"), "--data", data_file(folder), "--metrics", "accuracy,auc"});
  CHECK(all.status == 3);
  CHECK_MESSAGE(all.says("output 'o'"), all.err);
  CHECK(all.says("3 of 3 samples"));
  const CommandResult some = predict(folder, {model_file(folder, {1, 0, 0, 1}, "o"), "--data", data_file(folder, std::nanf("")), "--metrics", "accuracy"});
  CHECK(some.status == 0);
  CHECK_MESSAGE(some.says("1 of 3 samples, first row 1 of"), some.err);
  CHECK(some.out.find("0.6666") != std::string::npos);
  const CommandResult table = predict(folder, {model_file(folder, {1, 0, 0, 1}, "o"), "--data", data_file(folder, std::nanf(""))});
  CHECK_MESSAGE(table.out.find(",1,,nan") != std::string::npos, table.out);
}

TEST_CASE("picture options are refused where the data are arrays") {
  TempFolder folder;
  for (const char* option : {"--rescale=1/255", "--size=9x9", "--mean=5", "--color=gray", "--interpolation=nearest"}) {
    const CommandResult r = predict(folder, {model_file(folder, {1, 0, 0, 1}, "o"), "--data", data_file(folder), option});
    CHECK_MESSAGE(r.status == 2, option);
    CHECK_MESSAGE(r.says("is for pictures"), r.err);
  }
}

TEST_CASE("data that are neither a folder nor .npz are refused with what is wanted") {
  TempFolder folder;
  REQUIRE(write_file_atomic(folder / "one.png", "no picture").ok());
  REQUIRE(write_npy(folder / "z.npy", Tensor::ints({1})).ok());
  for (const char* name : {"one.png", "z.npy"}) {
    const CommandResult r = predict(folder, {model_file(folder, {1, 0, 0, 1}, "o"), "--data", folder / name});
    CHECK(r.status == 3);
    CHECK_MESSAGE(r.says("a folder of pictures, or a .npz file"), r.err);
  }
}

TEST_CASE("a folder that is no class of the model is named") {
  TempFolder folder;
  ModelBuilder m;
  m.output(m.op("Flatten", {m.op("GlobalAveragePool", {m.input("x", {3, 4, 4})})}), "o");
  m.g.metadata["engine.classes"] = R"(["a","b","c"])";
  const std::string model = write_model(folder, "p.onnx", m.g);
  REQUIRE(write_file_atomic(folder / "pics/a/0.png", "").ok());
  REQUIRE(write_file_atomic(folder / "pics/stranger/0.png", "").ok());
  const CommandResult r = predict(folder, {model, "--data", folder.path() + "/pics", "--metrics", "accuracy"});
  CHECK(r.status == 2);
  CHECK_MESSAGE(r.says("'stranger' is no class of the model"), r.err);
}

TEST_CASE("programs say their version, and numbers are refused as they were given") {
  TempFolder folder;
  for (const char* command : {"engine-train", "engine-graph", "engine-predict"}) {
    const CommandResult r = run_command(folder.path(), command, {"--version"});
    CHECK(r.status == 0);
    CHECK(r.out.rfind(std::string(command) + " ", 0) == 0);
  }
  CHECK(predict(folder, {"m.onnx", "--batch", "100000000000"}).says("--batch 100000000000: must be"));
  CHECK(predict(folder, {"m.onnx", "--batch"}).says("--batch: a value is wanted"));
}

}  // namespace
}  // namespace eng::test
