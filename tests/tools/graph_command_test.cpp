// engine-graph: options that a command does not use, and endings that do not fit the form, are refused, so is a plugin file that is
// cut short; what --freeze does.
#include "tests/support/fake_plugin.h"
#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

namespace eng::test {
namespace {

TEST_CASE("engine-graph refuses the options of other commands") {
  TempFolder folder;
  ModelBuilder m;
  m.output(m.op("Gemm", {m.input("x", {2}), m.weight("w", {2, 3})}), "scores");
  const std::string model = write_model(folder, "net.onnx", m.g);
  const auto run = [&](const std::string& command, std::vector<std::string> words) {
    words.insert(words.begin(), {command, model});
    return run_command(folder.path(), "engine-graph", words);
  };
  CHECK(run("info", {"--classes=4"}).says("--classes means nothing to info"));
  CHECK(run("check", {"--batch=3"}).status == 2);
  CHECK(run("check", {"--all"}).status == 2);
  CHECK(run("trainable", {"--all"}).status == 0);
  CHECK(run("draw", {"--format=dot", "--out", folder / "g.svg"}).says("does not fit --format dot"));
  REQUIRE(run("draw", {"--out", folder / "g.svg"}).status == 0);
  CHECK(text_of_file(folder / "g.svg").find("<svg") != std::string::npos);
  CHECK(run("gradient", {"--out", folder / "s.svg"}).status == 0);
  CHECK(text_of_file(folder / "s.svg").find("<svg") != std::string::npos);
  CHECK(run_command(folder.path(), "engine-graph", {"devices"}).status == 0);
}

TEST_CASE("engine-graph freezes weights with the head kept and with a new one") {
  TempFolder folder;
  ModelBuilder m;
  const ValueId h = m.op("Relu", {m.op("Gemm", {m.input("x", {2}), m.weight("w1", {2, 4})})});
  m.output(m.op("Gemm", {h, m.weight("w2", {4, 3})}), "scores");
  const std::string model = write_model(folder, "net.onnx", m.g);
  const auto run = [&](const std::string& command, std::vector<std::string> words) {
    words.insert(words.begin(), {command, model});
    return run_command(folder.path(), "engine-graph", words);
  };
  CHECK(run("gradient", {}).says(" 2 weights are trained"));
  CHECK(run("gradient", {"--freeze=w1"}).says(" 1 weights are trained"));
  CHECK(run("gradient", {"--classes=5", "--freeze=w1"}).says(" 1 weights are trained"));
  for (const char* command : {"info", "memory", "trainable", "gradient", "plan"}) {
    const CommandResult r = run(command, {"--freeze=w3"});
    CHECK(r.status == 3);
    CHECK_MESSAGE(r.says("--freeze 'w3' matches no parameter and no node"), command, ": ", r.err);
  }
}

TEST_CASE("engine-graph: a plugin file that is cut short is an error with status 4") {
  TempFolder folder;
  const std::string whole = text_of_file(fake_backend_path()), path = folder / "engine-backend-cut.so";
  REQUIRE(whole.size() > 10000);
  std::ofstream(path, std::ios::binary) << whole.substr(0, 10000);
  const CommandResult r = run_command(folder.path(), "engine-graph", {"devices", "--backend-path", path});
  CHECK(r.status == 4);
  CHECK(r.out.empty());
  CHECK_MESSAGE(r.says("error: backend '" + path + "' cannot be loaded: the file is cut short or damaged: its table of sections takes "), r.err);
}

}  // namespace
}  // namespace eng::test
