// engine-graph plan and diff of plans: real commands on small models, with estimated costs, so that nothing is measured.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/train_run.h"
#include "tests/tools/run_command.h"

namespace eng::test {
namespace {

// Two towers of the same size that are joined at the end: what two devices can share.
std::string two_towers(const TempFolder& folder) {
  ModelBuilder m;
  std::vector<ValueId> ends;
  for (const std::string tower : {"a", "b"}) {
    ValueId x = m.input("x_" + tower, {256});
    for (int i = 0; i < 3; ++i) {
      const std::string name = tower + "/dense" + std::to_string(i);
      x = m.op("Relu", {m.op("MatMul", {x, m.weight(name + "/kernel", {256, 256})}, {}, name)}, {}, tower + "/relu" + std::to_string(i));
    }
    ends.push_back(x);
  }
  const ValueId both = m.op("Add", ends, {}, "join");
  m.output(m.op("MatMul", {both, m.weight("head/kernel", {256, 3})}, {}, "head"), "scores");
  return write_model(folder, "towers.onnx", m.g);
}

struct Runner {
  TempFolder folder;
  std::string model = two_towers(folder);
  CommandResult plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", model, "--costs", "estimated"});
    return run_command(folder.path(), "engine-graph", words);
  }
  CommandResult diff(const std::string& a, const std::string& b) const { return run_command(folder.path(), "engine-graph", {"diff", a, b}); }
};

nlohmann::json json_of(const CommandResult& r) {
  REQUIRE_MESSAGE(r.status == 0, r.err);
  return nlohmann::json::parse(r.out);
}

TEST_CASE("two towers go to two devices, and the plan says so in every form") {
  const Runner run;
  const std::vector<std::string> words{"--devices=cpu:0,cpu:1", "--parallel=branch", "--batch=64", "--link=1,100"};
  auto with = [&](const std::string& word) {
    auto all = words;
    all.push_back(word);
    return run.plan(all);
  };
  const auto plan = json_of(with("--format=json"));
  CHECK(plan["plan_version"] == 1);
  CHECK(plan["batch"] == 64);
  std::map<std::string, std::string> device;
  for (const auto& n : plan["nodes"]) {
    if (n["phase"] == "forward") device[n["name"]] = n["device"];
    CHECK_FALSE(n["reason"].get<std::string>().empty());
  }
  CHECK(device["a/dense0"] == device["a/dense2"]);
  CHECK(device["b/dense0"] == device["b/dense2"]);
  CHECK(device["a/dense0"] != device["b/dense0"]);
  double alone = 0;
  for (const auto& c : plan["candidates"])
    if (c["name"] == "cpu:0 alone") alone = c["seconds"];
  CHECK(plan["seconds"].get<double>() < 0.75 * alone);
  CHECK(plan["seconds"].get<double>() >= plan["bound"]["work"].get<double>());
  const CommandResult text = with("--format=text");
  CHECK(text.status == 0);
  CHECK(text.out.find("lower bound") != std::string::npos);
  for (const char* name : {"p.json", "p.dot", "p.svg", "p.html"}) {
    CHECK(with("--out=" + (run.folder / name)).status == 0);
    CHECK(text_of_file(run.folder / name).find("cpu:1") != std::string::npos);
  }
}

TEST_CASE("a plan that is given is predicted to be the same; an edited line moves its node, and diff finds exactly that") {
  const Runner run;
  const std::string first = run.folder / "a.json", again = run.folder / "b.json", edited = run.folder / "c.json", moved = run.folder / "d.json";
  REQUIRE(run.plan({"--devices=cpu:0,cpu:1", "--parallel=branch", "--batch=64", "--link=1,100", "--out=" + first}).status == 0);
  const CommandResult same = run.plan({"--plan=" + first, "--out=" + again});
  REQUIRE_MESSAGE(same.status == 0, same.err);
  const auto a = nlohmann::json::parse(text_of_file(first)), b = nlohmann::json::parse(text_of_file(again));
  CHECK(a["nodes"] == b["nodes"]);
  CHECK(a["memory"] == b["memory"]);
  CHECK(a["transfers"] == b["transfers"]);
  CHECK(a["seconds"] == b["seconds"]);

  std::string text = text_of_file(first);
  const size_t name = text.find("\"name\": \"b/dense1\""), line = text.rfind('\n', name);
  const size_t device = text.find("\"cpu:", line);
  REQUIRE(device < name);
  const std::string before = text.substr(device + 1, 5), after = before == "cpu:0" ? "cpu:1" : "cpu:0";
  text.replace(device + 1, 5, after);
  const auto number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(name), '\n');
  REQUIRE(write_file_atomic(edited, text).ok());
  CHECK(run.diff(first, edited).out == "node b/dense1: " + before + " -> " + after + "\n");
  const CommandResult predicted = run.plan({"--plan=" + edited, "--out=" + moved});
  REQUIRE_MESSAGE(predicted.status == 0, predicted.err);
  CHECK(predicted.says("go with their forward nodes"));
  const auto d = nlohmann::json::parse(text_of_file(moved));
  CHECK(d["seconds"].get<double>() > a["seconds"].get<double>());
  CHECK(d["transfers"].size() > a["transfers"].size());
  for (const auto& n : d["nodes"])
    if (n["name"] == "b/dense1") {
      CHECK(n["device"] == after);
      CHECK(n["reason"] == "placed by line " + std::to_string(number) + " of " + edited);
    }
  const CommandResult found = run.diff(first, moved);
  CHECK(found.out.find("node b/dense1: " + before + " -> " + after) != std::string::npos);
  CHECK(found.out.find("step time: ") != std::string::npos);
  CHECK(found.out.find("dense0:") == std::string::npos);
  CHECK(run.diff(first, first).out == "no difference\n");
}

TEST_CASE("a plan that cannot be used is refused with the file, the line and what was wanted") {
  const Runner run;
  const std::string good = run.folder / "a.json", bad = run.folder / "bad.json";
  REQUIRE(run.plan({"--devices=cpu:0,cpu:1", "--parallel=branch", "--batch=8", "--out=" + good}).status == 0);
  std::string text = text_of_file(good);
  const size_t at = text.rfind("\"device\": \"cpu:");
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  text.replace(at, 17, "\"device\": \"tpu:0\"");
  REQUIRE(write_file_atomic(bad, text).ok());
  CommandResult r = run.plan({"--plan=" + bad});
  CHECK(r.status == 3);
  CHECK(r.says("bad.json"));
  CHECK(r.says("line " + std::to_string(line) + ": "));
  CHECK(r.says("there is no device 'tpu:0' here; known are cpu:0, cpu:1"));
  CHECK(run.diff(good, bad).status == 3);
  r = run.plan({"--plan=" + (run.folder / "none.json")});
  CHECK(r.status == 3);

  ModelBuilder m;  // a plan of another model
  m.output(m.op("Gemm", {m.input("x", {2}), m.weight("w", {2, 3})}), "scores");
  const std::string other = write_model(run.folder, "other.onnx", m.g);
  r = run_command(run.folder.path(), "engine-graph", {"plan", other, "--costs=estimated", "--plan=" + good});
  CHECK(r.status == 3);
  CHECK(r.says("the plan is of another graph"));

  r = run.plan({"--plan=" + good, "--devices=cpu:0"});
  CHECK(r.status == 2);
  CHECK(r.says("is for --devices cpu:0,cpu:1"));
  CHECK(run.plan({"--plan=" + good, "--devices=cpu:1,cpu:0"}).status == 0);

  CHECK(run.diff(good, run.model).status == 2);
  CHECK(run.diff(good, run.model).says("is a plan, '" + run.model + "' is not"));
  CHECK(run.diff(run.model, other).status == 0);
}

TEST_CASE("what-if plans for machines that are not here") {
  const Runner run;
  const auto plan = json_of(run.plan({"--what-if=devices=4,memory=8G:4G:2G:1G,batch=128,link=2:50,speed=1:1:0.5:0.25", "--format=json"}));
  CHECK(plan["batch"] == 128);
  REQUIRE(plan["machine"]["devices"].size() == 4);
  CHECK(plan["machine"]["devices"][3]["name"] == "cpu:3");
  CHECK(plan["machine"]["devices"][3]["memory_limit"] == 1 << 30);
  CHECK(plan["machine"]["devices"][2]["flops_per_second"].get<double>() == plan["machine"]["devices"][0]["flops_per_second"].get<double>() / 2);
  CHECK(plan["machine"]["links"][0]["latency"] == 2e-6);
  CHECK(plan["machine"]["links"][0]["bytes_per_second"] == 5e10);
  const CommandResult small = run.plan({"--what-if=memory=1K"});
  CHECK(small.status == 4);
  CHECK(small.says("limit 1.02 kB"));
  const auto alone = json_of(run.plan({"--format=json"}));
  const auto twice = json_of(run.plan({"--what-if=speed=2", "--format=json"}));
  CHECK(twice["seconds"].get<double>() == doctest::Approx(alone["seconds"].get<double>() / 2));
}

TEST_CASE("wrong words are refused with the known ones") {
  const Runner run;
  struct Case {
    std::vector<std::string> words;
    const char* said;
  };
  const std::vector<Case> cases{{{"--what-if=device=4"}, "known are devices=N, memory=BYTES, batch=N, link=LATENCY_US:GB_PER_S, speed=TIMES"},
                                {{"--what-if=devices=0"}, "a whole number from 1 to 1024 is wanted"},
                                {{"--what-if=memory=lots"}, "bytes are wanted"},
                                {{"--what-if=link=5"}, "a latency in microseconds and gigabytes a second are wanted"},
                                {{"--what-if=speed=-1"}, "as fast as the real device"},
                                {{"--what-if=devices=2,memory=1G:2G:3G"}, "memory has 3 entries, there are 2 devices"},
                                {{"--what-if=batch"}, "batch=VALUE is wanted"},
                                {{"--memory=1G", "--what-if=memory=2G"}, "the memory is given twice"},
                                {{"--batch=4", "--what-if=batch=2"}, "the batch is given twice"},
                                {{"--link=5:12"}, "such as 5,12"},
                                {{"--parallel=none", "--devices=cpu:0,cpu:1"}, "--parallel none computes on one device"},
                                {{"--devices=cpu:0,cpu:0"}, "named twice"},
                                {{"--plan=x.json", "--placement=y"}, "--plan and --placement exclude one another"},
                                {{"--parallel=sideways"}, "known are auto, data, branch, none"},
                                {{"--format=png"}, "known are text, json, dot, svg, html"},
                                {{"--batches=4"}, "--batches means nothing to plan"},
                                {{"--cut-at=join"}, "--cut-at and --dropout belong to a new head: give --classes"},
                                {{"--optimizer=adam", "--momentum=0.9"}, "--momentum belongs to --optimizer sgd, not adam"}};
  for (const Case& c : cases) {
    const CommandResult r = run.plan(c.words);
    CHECK_MESSAGE(r.status == 2, c.words[0]);
    CHECK_MESSAGE(r.says(c.said), c.said, " in: ", r.err);
  }
  CHECK(run_command(run.folder.path(), "engine-graph", {"memory", run.model, "--devices=cpu:0"}).says("--devices means nothing to memory"));
  CHECK(run_command(run.folder.path(), "engine-graph", {"plan", run.model, "--devices=cpu:999"}).says("--costs estimated plans for devices that are not here"));
}

TEST_CASE("a result does not go into a file that is read, and a full standard output is an error") {
  const Runner run;
  const std::string before = text_of_file(run.model);
  for (const char* command : {"plan", "info", "draw", "gradient"}) {
    const CommandResult r = run_command(run.folder.path(), "engine-graph", {command, run.model, "--out", run.model});
    CHECK(r.status == 2);
    CHECK_MESSAGE(r.says("that is read: another name is wanted"), r.err);
  }
  CHECK(text_of_file(run.model) == before);
  const int full = std::system(("'" + std::string(std::getenv("ENGINE_BIN")) + "/engine-graph' info '" + run.model + "' >/dev/full 2>/dev/null").c_str());
  CHECK(WEXITSTATUS(full) == 3);
}

TEST_CASE("a placement file settles nodes and is given as the reason") {
  const Runner run;
  const std::string file = run.folder / "places.txt";
  REQUIRE(write_file_atomic(file, "# towers\na/* = cpu:1\nb/* = cpu:0\n").ok());
  const auto plan = json_of(run.plan({"--devices=cpu:0,cpu:1", "--placement=" + file, "--format=json"}));
  size_t seen = 0;
  for (const auto& n : plan["nodes"]) {
    if (n["name"].get<std::string>().rfind("a/", 0) != 0) continue;
    ++seen;
    CHECK(n["device"] == "cpu:1");
    CHECK(n["reason"] == "forced by placement line 2");
  }
  CHECK(seen == 6);
}

TEST_CASE("data parallel: replicas of a device each, shards, an all-reduce") {
  const Runner run;
  const auto plan = json_of(run.plan({"--devices=cpu:0,cpu:1", "--parallel=data", "--shards=4", "--batch=64", "--format=json"}));
  CHECK(plan["replicas"] == 2);
  CHECK(plan["shards_per_replica"] == 2);
  CHECK(plan["replica_devices"] == nlohmann::json::parse("[[\"cpu:0\"], [\"cpu:1\"]]"));
  CHECK(plan["all_reduce_seconds"].get<double>() > 0);
  const CommandResult text = run.plan({"--devices=cpu:0,cpu:1", "--parallel=data", "--shards=4", "--batch=64"});
  CHECK(text.out.find("2 replicas of 1 device, 2 shards each") != std::string::npos);
}

TEST_CASE("a plan made with a run's options is the plan of that run") {
  const Runner run;
  Tensor x(DType::kFloat32, {8, 256}), y(DType::kInt64, {8});
  for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, static_cast<double>(i % 7) - 3);
  for (int64_t i = 0; i < 8; ++i) y.set(i, static_cast<double>(i % 2));
  const std::string data = write_arrays(run.folder, "towers.npz", {{"x_a", x}, {"x_b", x}, {"y", y}});
  const std::string plan = run.folder / "plan.json";
  const std::vector<std::string> recipe{"--optimizer=sgd", "--momentum=0.9", "--nesterov", "--clip-norm=1", "--freeze=a/dense0*"};
  std::vector<std::string> words = recipe;
  for (const char* w : {"--classes=2", "--devices=cpu:0,cpu:1", "--parallel=branch", "--batch=8"}) words.emplace_back(w);
  words.push_back("--out=" + plan);
  const CommandResult made = run.plan(words);
  REQUIRE_MESSAGE(made.status == 0, made.err);
  words = {run.model, "--data", data, "--replace-head=2", "--batch=8", "--epochs=1", "--lr=0.01", "--devices=cpu:0,cpu:1", "--plan=" + plan, "--out=" + (run.folder / "out")};
  std::vector<std::string> other = words;
  words.insert(words.end(), recipe.begin(), recipe.end());
  CHECK(train(words) == 0);
  for (const char* w : {"--optimizer=adam", "--freeze=a/dense0*"}) other.emplace_back(w);
  CHECK(train(other) == 3);
}

TEST_CASE("the norm of gradients that lie on two devices waits for the sums over shards on both") {
  const Runner run;
  Tensor x(DType::kFloat32, {8, 256}), y(DType::kInt64, {8});
  for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, static_cast<double>(i % 11) / 5 - 1);
  for (int64_t i = 0; i < 8; ++i) y.set(i, static_cast<double>(i % 3));
  const std::string data = write_arrays(run.folder, "towers.npz", {{"x_a", x}, {"x_b", x}, {"y", y}});
  REQUIRE(write_file_atomic(run.folder / "places", "a/* = cpu:0\nb/* = cpu:1\n*oin = cpu:0\nhead = cpu:1\n").ok());
  const auto weights = [&](std::vector<std::string> more) {
    std::vector<std::string> words{run.model, "--data", data, "--batch=8", "--epochs=3", "--lr=0.05", "--shards=2", "--clip-norm=0.01", "--no-shuffle", "--out=" + (run.folder / "out")};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(train(words) == 0);
    return checkpoint(run.folder / "out/last.ckpt").tensors;
  };
  const auto one = weights({});
  for (int i = 0; i < 3; ++i) CHECK(same_bits(one, weights({"--devices=cpu:0,cpu:1", "--parallel=branch", "--placement=" + (run.folder / "places")})));
}

// ESC, a C1 control, right-to-left override, a zero-width space, a line separator.
TEST_CASE("a node's name does not reach the terminal with what a terminal obeys or nobody sees") {
  const TempFolder folder;
  ModelBuilder m;
  m.output(m.op("MatMul", {m.input("x", {4}), m.weight("w", {4, 2})}, {}, "dense\033[2J\xc2\x9b\xe2\x80\xae\xe2\x80\x8b\xe2\x80\xa8"), "scores");
  const std::string model = write_model(folder, "escape.onnx", m.g);
  const auto none_in = [](const std::string& text) {
    for (const char* raw : {"\033", "\xc2\x9b", "\xe2\x80"})
      if (text.find(raw) != std::string::npos) return false;
    return true;
  };
  for (const char* command : {"plan", "info", "gradient", "draw"}) {
    const CommandResult r = run_command(folder.path(), "engine-graph", {command, model});
    CHECK_MESSAGE(r.status == 0, command, ": ", r.err);
    CHECK_MESSAGE(none_in(r.out + r.err), command);
  }
  const CommandResult json = run_command(folder.path(), "engine-graph", {"plan", model, "--format=json"});
  CHECK(none_in(json.out));
  CHECK(json.out.find("dense\\u001b[2J\\u009b\\u202e\\u200b\\u2028") != std::string::npos);
  CHECK(nlohmann::json::accept(json.out));
}

TEST_CASE("InceptionV4's plan fits on a page") {
  const TempFolder folder;
  const std::string model = folder / "iv4.onnx";
  REQUIRE(run_command(folder.path(), "generate-inception_v4", {model, "--classes=2", "--size=75x75"}).status == 0);
  const CommandResult r = run_command(folder.path(), "engine-graph", {"plan", model, "--costs=estimated", "--devices=cpu:0,cpu:1", "--parallel=branch", "--batch=2"});
  REQUIRE_MESSAGE(r.status == 0, r.err);
  CHECK(std::count(r.out.begin(), r.out.end(), '\n') <= 60);
  CHECK(r.out.find("inception_b_") != std::string::npos);
  CHECK(r.out.find("reduction_a") != std::string::npos);
}

}  // namespace
}  // namespace eng::test
