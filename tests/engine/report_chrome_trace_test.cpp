// The trace of a step: every kernel of the program once, under its node's name, in order; waits and copies where they are made; what host
// threads wrote down; and a file that is JSON of the form that chrome://tracing and Perfetto read.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/exec/program.h"
#include "engine/io/file.h"
#include "engine/report/chrome_trace.h"
#include "graph/surgery/training_step.h"
#include "tests/support/model_builder.h"
#include "tests/support/temp_folder.h"

using namespace eng;
using namespace eng::test;

namespace {

// Two branches; the second's nodes are placed on the second device.
Step two_branches() {
  ModelBuilder b;
  const ValueId x = b.input("x", {32});
  const ValueId left = b.op("MatMul", {x, b.weight("wl", {32, 16})}, {}, "left/product"), right = b.op("MatMul", {x, b.weight("wr", {32, 16})}, {}, "right/product");
  b.output(b.op("Softmax", {b.op("Add", {left, right}, {}, "join")}, {}, "scores"), "y");
  auto step = build_training_step(b.g, {.batch = 4}, {}, nullptr);
  INFO(step.status().message());
  REQUIRE(step.ok());
  for (NodeId n : step->graph.live_nodes()) {
    const NodeId of = step->graph.node(n).forward_node;
    const std::string& name = step->graph.node(of == kNoNode ? n : of).name;
    step->graph.node(n).place = name.rfind("right", 0) == 0 ? 1 : 0;
  }
  return *step;
}

struct Run {
  std::vector<std::shared_ptr<Device>> devices;
  std::unique_ptr<Program> program;
  Step step;

  Run() : step(two_branches()) {
    for (const char* name : {"cpu:0", "cpu:1"}) {
      auto device = Device::open(name, {.threads = 1});
      REQUIRE(device.ok());
      devices.push_back(*device);
    }
    auto compiled = Program::compile(step.graph, devices, std::make_shared<StateStore>(devices[0]), {step.loss});
    INFO(compiled.status().message());
    REQUIRE(compiled.ok());
    program = std::move(*compiled);
  }
  void once() {
    Tensor x(DType::kFloat32, {4, 32}), labels(DType::kInt64, {4}), rate(DType::kFloat32, {}), loss;
    REQUIRE(program->feed(step.inputs[0], x).ok());
    REQUIRE(program->feed(step.labels, labels).ok());
    REQUIRE(program->feed(step.learning_rate, rate).ok());
    REQUIRE(program->run().ok());
    REQUIRE(program->fetch(step.loss, loss).ok());
  }
};

}  // namespace

TEST_CASE("trace: every kernel of the program once, in its order, under its node's name and phase") {
  Run run;
  run.once();
  StepTrace trace({{"first", run.devices[0]}, {"second", run.devices[1]}});
  CHECK(trace.notes().empty());
  for (int round = 0; round < 2; ++round) {  // a trace can be taken again
    REQUIRE(trace.start().ok());
    run.once();
    REQUIRE(trace.stop().ok());
    REQUIRE(trace.rows().size() == 2);
    size_t waits = 0;
    for (size_t place : {size_t{0}, size_t{1}}) {
      CHECK(trace.rows()[place].name == (place == 0 ? "first" : "second"));
      std::vector<KernelRow> wanted;
      for (const KernelRow& row : run.program->kernels(place))
        if (row.implementation != "executor") wanted.push_back(row);
      size_t at = 0;
      int64_t before = 0;
      for (const TraceSpan& s : trace.rows()[place].spans) {
        CHECK(s.start_ns >= before);
        CHECK(s.end_ns >= s.start_ns);
        before = s.end_ns;
        waits += s.kind == TraceSpan::Kind::kWait;
        if (s.kind != TraceSpan::Kind::kKernel) continue;
        REQUIRE(at < wanted.size());
        CHECK(s.kernel.node == wanted[at].node);
        CHECK(s.kernel.op == wanted[at].op);
        CHECK(s.kernel.implementation == wanted[at].implementation);
        CHECK(s.kernel.phase == wanted[at].phase);
        ++at;
      }
      CHECK(at == wanted.size());
    }
    CHECK(waits > 0);  // the branches meet
  }
  run.once();  // and afterwards nothing is written
}

TEST_CASE("trace: the file is a list of named rows and complete events within the step") {
  Run run;
  TempFolder folder;
  StepTrace trace({{"cpu:0", run.devices[0]}, {"cpu:1", run.devices[1]}}, 3);
  { TraceScope outside(trace.sink(), "sums", "before the step"); }
  REQUIRE(trace.start().ok());
  {
    TraceScope outer(trace.sink(), "sums", "bucket 0");
    run.once();
    TraceScope inner(trace.sink(), "messages \"to 1\"", "4 MB");
  }
  REQUIRE(trace.stop().ok());
  { TraceScope outside(trace.sink(), "sums", "after the step"); }
  { TraceScope nowhere(nullptr, "sums", "nothing"); }
  REQUIRE(trace.write(folder / "trace.json").ok());
  const auto text = read_text_file(folder / "trace.json", 1 << 24);
  REQUIRE(text.ok());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  REQUIRE(json.is_object());
  std::map<int, std::string> rows;
  std::map<std::string, int> names;
  std::map<int, double> busy_until;
  for (const auto& e : json["traceEvents"]) {
    CHECK(e["pid"] == 3);
    if (e["ph"] == "M") {
      if (e["name"] == "thread_name") CHECK(rows.emplace(e["tid"], e["args"]["name"]).second);
      else CHECK(e["args"]["name"] == "rank 3");
      continue;
    }
    CHECK(e["ph"] == "X");
    const int row = e["tid"];
    REQUIRE(rows.count(row));
    CHECK(e["dur"].get<double>() >= 0);
    CHECK(e["ts"].get<double>() >= busy_until[row] - 1e-3);
    busy_until[row] = e["ts"].get<double>() + e["dur"].get<double>();
    ++names[e["name"]];
    if (e["cat"] == "forward") CHECK(e["args"]["phase"] == "forward");
    if (e["name"] == "MatMul 'right/product'") CHECK(rows[row] == "cpu:1");
  }
  std::set<std::string> row_names;
  for (const auto& [row, name] : rows) row_names.insert(name);
  CHECK(row_names == std::set<std::string>{"cpu:0", "cpu:1", "sums", "messages \"to 1\""});
  CHECK(names["MatMul 'left/product'"] == 1);
  CHECK(names["MatMul 'right/product'"] == 1);
  CHECK(names["bucket 0"] == 1);
  CHECK(names["4 MB"] == 1);
  CHECK(names.count("before the step") == 0);
  CHECK(names.count("after the step") == 0);
}

TEST_CASE("trace: more work than there is room for is cut, not written past the end") {
  Run run;
  REQUIRE(run.devices[0]->start_trace(3).ok());
  run.once();
  auto spans = run.devices[0]->stop_trace();
  REQUIRE(spans.ok());
  CHECK(spans->size() == 3);
  CHECK_FALSE(run.devices[0]->stop_trace().ok());  // nothing was started
}
