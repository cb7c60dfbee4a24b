// Plans as files, text and pictures: what is written reads back, what is wrong is refused with its line, what differs is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "engine/io/file.h"
#include "engine/report/plan_diff.h"
#include "engine/report/plan_dot.h"
#include "engine/report/plan_html.h"
#include "engine/report/plan_json.h"
#include "engine/report/plan_svg.h"
#include "engine/report/plan_text.h"
#include "engine/report/plan_view.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

// in -> a -> (b, c) -> d, three times over: blocks one/, two/ and three/. b on the second device in the first two, everything on the first in the third.
struct Example {
  Graph graph;
  Plan plan;
};

Example example() {
  Example e;
  Graph& g = e.graph;
  g.name = "net <\"&>";
  ValueId x = g.add_value("in", DType::kFloat32, {4, 8});
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  Plan& p = e.plan;
  p.graph_name = g.name;
  p.batch = 4;
  p.machine.devices = {{"cpu:0", uint64_t{1} << 33, 5e10, 1e10}, {"cpu:1", std::nullopt, 2.5e10, 1.0 / 3}};
  p.machine.connect_all({1e-5, 1.25e9});
  p.machine.link(1, 0) = {2e-5, 0};
  p.replica_devices = {{0, 1}};
  int group = 0;
  double at = 0;
  const auto add = [&](const std::string& name, const std::string& op, std::vector<ValueId> inputs, Phase phase, int device, int in_group) {
    const NodeId n = g.add_node("", op, std::move(inputs), 1, {}, name);
    g.node(n).phase = phase;
    g.node(n).name = phase == Phase::kForward ? name : "";
    PlanNode node{n, g.node(n).name, g.value(g.node(n).outputs[0]).name, op, phase, in_group, device, "cheapest: \"" + name + "\"\\", 1e6, 3000, {at, at + 0.1}, std::nullopt};
    at += 0.1;
    p.nodes.push_back(node);
    return g.node(n).outputs[0];
  };
  std::vector<std::pair<ValueId, int>> forward;
  for (const std::string block : {"one", "two", "three"}) {
    const int other = block == "three" ? 0 : 1;
    const ValueId a = add(block + "/a", "MatMul", {x}, Phase::kForward, 0, group);
    const ValueId b = add(block + "/b", "Relu", {a}, Phase::kForward, other, group + 1);
    const ValueId c = add(block + "/c", "Tanh", {a}, Phase::kForward, 0, group + 2);
    x = add(block + "/d", "Add", {b, c}, Phase::kForward, 0, group + 3);
    if (other == 1) p.transfers.push_back({g.value(a).name, Phase::kForward, 128, 0, 1, {at - 0.3, at - 0.25}, std::nullopt});
    group += 4;
  }
  add("grad/three/d", "Identity", {x}, Phase::kBackward, 0, group - 1);
  g.outputs = {x};
  p.transfers[1].measured = Span{0.55, 0.6};
  p.nodes[2].measured = Span{0.21, 0.33};
  p.memory = {{1000, 5000, uint64_t{1} << 33, {{0, 1000}, {0.5, 5000}, {1, 2000}}, 5100}, {0, 128, std::nullopt, {{0, 0}, {0.1, 128}}, std::nullopt}};
  p.candidates = {{"cpu:0 alone", true, false, 1.5, 0.25, ""}, {"cpu:1 alone", false, false, 0, 0, "needs 3 GB,\nhas 2 GB"}, {"branches over 2 devices", true, true, 1.2, 0, ""}};
  p.seconds = 1.2;
  p.measured_seconds = 1.3;
  p.bound = {0.9, 1.0 / 3, 1.1};
  p.method = "by hand";
  return e;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

int line_of(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

std::string refusal(const std::string& text) {
  const auto plan = parse_plan(text, "p.json");
  REQUIRE(!plan.ok());
  CHECK(exit_status(plan.status().code()) == 3);
  return plan.status().message();
}

// Tags are balanced, attributes quoted, no bare & or <. Enough of XML for what is written here.
std::string problem_of_xml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '&') {
      const size_t end = text.find(';', i);
      if (end == std::string::npos || end - i > 6) return "bare &: " + text.substr(i, 40);
      i = end + 1;
      continue;
    }
    if (text[i] != '<') {
      ++i;
      continue;
    }
    const size_t end = text.find('>', i);
    if (end == std::string::npos) return "open tag at the end";
    std::string tag = text.substr(i + 1, end - i - 1);
    i = end + 1;
    if (tag.rfind("!DOCTYPE", 0) == 0 && open.empty()) continue;
    if (tag.find('<') != std::string::npos) return "< inside <" + tag;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2) return "quotes of <" + tag;
    if (tag.back() != '/') open.push_back(tag.substr(0, tag.find_first_of(" \n")));
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_CASE("a plan file reads back to the same plan") {
  const Plan p = example().plan;
  const std::string text = to_json(p);
  std::vector<int> lines;
  const auto read = parse_plan(text, "p.json", &lines);
  REQUIRE_MESSAGE(read.ok(), read.status().message());
  CHECK(to_json(*read) == text);
  CHECK(read->graph_name == p.graph_name);
  CHECK(read->machine.devices[0].memory_limit == p.machine.devices[0].memory_limit);
  CHECK_FALSE(read->machine.devices[1].memory_limit);
  CHECK(read->machine.devices[1].bytes_per_second == 1.0 / 3);  // to the bit
  CHECK(read->machine.link(0, 1).bytes_per_second == 1.25e9);
  CHECK(read->machine.link(1, 0).latency == 2e-5);
  REQUIRE(read->nodes.size() == p.nodes.size());
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const PlanNode &a = p.nodes[i], &b = read->nodes[i];
    CHECK(b.node == kNoNode);
    CHECK((a.name == b.name && a.output == b.output && a.op_type == b.op_type && a.phase == b.phase && a.group == b.group && a.device == b.device && a.reason == b.reason));
    CHECK((a.predicted.start == b.predicted.start && a.predicted.end == b.predicted.end && a.measured.has_value() == b.measured.has_value()));
    CHECK(line_of(text, "{\"output\": \"" + a.output + "\"") == lines[i]);  // a line each
  }
  CHECK(read->nodes[2].measured->end == 0.33);
  CHECK(read->transfers[1].measured->start == 0.55);
  CHECK(read->transfers[1].to == 1);
  CHECK(read->memory[0].measured_peak == 5100u);
  CHECK(read->memory[0].curve[1].bytes == 5000u);
  CHECK(read->candidates[1].note == "needs 3 GB,\nhas 2 GB");
  CHECK(read->measured_seconds == 1.3);
  CHECK(read->bound.work == 1.0 / 3);
}

TEST_CASE("a plan that was edited by hand is taken, in any layout and order of members") {
  const std::string text = to_json(example().plan);
  const size_t entry = text.find("\"name\": \"two/b\"");
  const size_t device = text.rfind("\"device\": \"cpu:1\"", entry);
  std::string edited = text;
  edited.replace(device, 17, "\n\"device\" :\t\"cpu:0\"");
  const auto read = parse_plan(replaced(edited, "{\n", "{ \n\n\n"), "p.json");
  REQUIRE_MESSAGE(read.ok(), read.status().message());
  CHECK(read->nodes[5].name == "two/b");
  CHECK(read->nodes[5].device == 0);
  CHECK(read->nodes[1].device == 1);
}

TEST_CASE("malformed JSON is refused with line and column") {
  const std::string text = to_json(example().plan);
  const std::string said = refusal(replaced(text, "\"batch\": 4,", "\"batch\": ,"));
  CHECK(said.find("p.json: malformed JSON at line 4, column 12") != std::string::npos);
  CHECK(refusal(text.substr(0, text.size() / 2)).find("malformed JSON at line ") != std::string::npos);
  CHECK(refusal("").find("malformed JSON at line 1, column 1") != std::string::npos);
  CHECK(refusal("[1]").find("line 1: a list; an object") != std::string::npos);
  CHECK(refusal(std::string(100, '[')).find("nested more than 16 deep") != std::string::npos);
  CHECK(refusal("{\"a\": 1}").find("lacks plan_version") != std::string::npos);
  CHECK(refusal(replaced(text, "\"plan_version\": 1", "\"plan_version\": 2")).find("line 2: plan_version 2 is not known; this program reads version 1") != std::string::npos);
}

TEST_CASE("a wrong entry is refused with its line and what was wanted") {
  const std::string text = to_json(example().plan);
  const std::string node = "{\"output\": \"" + example().plan.nodes[1].output + "\", \"device\": \"cpu:1\", \"phase\": \"forward\", \"op\": \"Relu\", \"name\": \"one/b\", \"group\": 1, \"predicted\": [0.1, 0.2]";
  REQUIRE(text.find(node) != std::string::npos);
  struct Case {
    std::string from, to, wanted, place = from;  // what stands in the line that is named
  };
  const std::vector<Case> cases{
      {node, replaced(node, "cpu:1", "cpu:9"), "there is no device 'cpu:9' here; known are cpu:0, cpu:1"},
      {node, replaced(node, "\"cpu:1\"", "1"), "device of node 1 is 1; device is wanted"},
      {node, replaced(node, "\"device\"", "\"devcie\""), "unknown member 'devcie'"},
      {node, replaced(node, "\"device\": \"cpu:1\", ", ""), "node 1 lacks 'device'"},
      {node, replaced(node, "forward", "sideways"), "there is no phase 'sideways' here; known are forward, loss, backward, update"},
      {node, replaced(node, "\"group\": 1", "\"group\": -1"), "group of node 1 is -1; a whole number from 0"},
      {node, replaced(node, "\"group\": 1", "\"group\": 1, \"group\": 2"), "'group' is given twice"},
      {node, replaced(node, "[0.1, 0.2]", "[0.2, 0.1]"), "[start, end] in seconds is wanted"},
      {node, replaced(node, "[0.1, 0.2]", "[0.1]"), "[start, end] in seconds is wanted"},
      {node, replaced(node, example().plan.nodes[1].output, example().plan.nodes[0].output), "stands in line"},
      {"\"batch\": 4", "\"batch\": \"4\"", "batch of the plan is '4'; a whole number"},
      {"\"batch\": 4", "\"batch\": -4", "batch of the plan is -4"},
      {"\"replicas\": 1", "\"replicas\": 2", "1 lists where there are 2 replicas", "\"replica_devices\""},
      {"\"replicas\": 1", "\"replicas\": 0", "a whole number from 1"},
      {"[\"cpu:0\", \"cpu:1\"]", "[\"cpu:0\", \"cpu:0\"]", "'cpu:0' stands twice"},
      {"[\"cpu:0\", \"cpu:1\"]", "[\"cpu:0\", \"gpu:1\"]", "there is no device 'gpu:1' in the machine"},
      {"{\"name\": \"cpu:1\"", "{\"name\": \"cpu:0\"", "a name of its own is wanted"},
      {"{\"from\": \"cpu:1\", \"to\": \"cpu:0\"", "{\"from\": \"cpu:1\", \"to\": \"cpu:1\"", "from one device to another"},
      {"\"memory_limit\": 8589934592", "\"memory_limit\": -5", "memory_limit of device 0 is -5; a whole number of bytes is wanted"},
      {"\"memory_limit\": 8589934592", "\"memory_limit\": 1.5", "a whole number of bytes is wanted"},
      {"\"seconds\": 1.2", "\"seconds\": -1.2", "seconds of the plan is -1.2; a number of at least 0"},
      {"\"critical_path\"", "\"critical\"", "the bound lacks 'critical_path'"},
      {"\"method\"", "\"methods\"", "the plan has an unknown member 'methods'"},
      {"\"resident\": 1000", "\"resident\": true", "resident of memory entry 0 is true or false"},
      {"[0.5, 5000]", "[0.5, -1]", "[seconds, bytes] with times that do not decrease"},
      {"[0.5, 5000]", "[1.5, 5000]", "[seconds, bytes] with times that do not decrease"},
      {"\"fits\": false", "\"fits\": 0", "fits of candidate 1 is 0; true or false is wanted"}};
  for (const Case& c : cases) {
    const std::string said = refusal(replaced(text, c.from, c.to));
    CHECK_MESSAGE(said.find(c.wanted) != std::string::npos, c.wanted, " in: ", said);
    CHECK_MESSAGE(said.find("line " + std::to_string(line_of(text, c.place)) + ":") != std::string::npos, "line ", line_of(text, c.place), " in: ", said);
  }
  CHECK(refusal(replaced(replaced(text, "\"batch\": 4", "\"batch\": -4"), "\"fits\": false", "\"fits\": 0")).find("2 entries of the plan are wrong") != std::string::npos);
}

TEST_CASE("files that are not there or not plans are named") {
  const TempFolder folder;
  CHECK(read_plan(folder / "none.json").status().message().find("none.json") != std::string::npos);
  REQUIRE(write_file_atomic(folder / "p.json", to_json(example().plan)).ok());
  CHECK(read_plan(folder / "p.json").ok());
  REQUIRE(write_file_atomic(folder / "q.json", "{\"plan_version\": 1}").ok());
  const std::string said = read_plan(folder / "q.json").status().message();
  CHECK(said.find("q.json") != std::string::npos);
  CHECK(said.find("lacks 'nodes'") != std::string::npos);
}

TEST_CASE("a difference of plans is found, and nothing else") {
  const Plan a = example().plan;
  CHECK(differences(a, a).empty());
  Plan b = a;
  b.nodes[5].device = 0;  // two/b
  CHECK(differences(a, b) == std::vector<std::string>{"node two/b: cpu:1 -> cpu:0"});
  b = a;
  for (PlanNode& n : b.nodes)
    if (n.name.rfind("three/", 0) == 0) n.device = 1;
  CHECK(differences(a, b) == std::vector<std::string>{"nodes three/* (4): cpu:0 -> cpu:1"});
  b.nodes.back().device = 1;  // the backward node
  CHECK(differences(a, b) == std::vector<std::string>{"nodes three/* (4): cpu:0 -> cpu:1", "and 1 backward and update nodes"});
  b = a;
  b.seconds = 0.9;
  CHECK(differences(a, b) == std::vector<std::string>{"step time: 1.20 s -> 900 ms (-25.0 %)"});
  b = a;
  b.memory[1].peak = 256;
  CHECK(differences(a, b) == std::vector<std::string>{"memory peak of cpu:1: 128 bytes -> 256 bytes (+100.0 %)"});
  b = a;
  b.transfers.pop_back();
  CHECK(differences(a, b) == std::vector<std::string>{"transfers: 2 with 256 bytes -> 1 with 128 bytes", "transfer only in the first plan: '" + a.transfers[1].value + "' cpu:0 -> cpu:1, 128 bytes"});
  b = a;
  b.candidates[1] = {"cpu:1 alone", true, false, 2, 0.6, ""};
  CHECK(differences(a, b) == std::vector<std::string>{"candidate cpu:1 alone: refused -> 2.00 s"});
  b = a;
  b.nodes.erase(b.nodes.begin() + 9);  // three/b
  CHECK(differences(a, b) == std::vector<std::string>{"node three/b: only in the first plan, on cpu:0"});
  b = a;
  b.machine.devices[0].memory_limit = uint64_t{1} << 32;
  CHECK(differences(a, b) == std::vector<std::string>{"memory limit of cpu:0: 8.59 GB -> 4.29 GB (-50.0 %)"});
}

TEST_CASE("blocks that look the same share a row, others do not") {
  const Example e = example();
  const PlanView view = view_of(e.plan, e.graph);
  REQUIRE(view.rows.size() == 2);
  CHECK(view.rows[0].name == "one .. two");
  CHECK(view.rows[0].count == 2);
  CHECK(view.rows[1].name == "three");  // placed otherwise
  CHECK(view.blocks.size() == 3);
  CHECK(view.groups.size() == 12);
  CHECK(view.groups[3].inputs == std::vector<int>{1, 2});
  CHECK(view.groups[11].seconds[1] == doctest::Approx(0.1));  // the backward node
}

TEST_CASE("the page of text says where, why, what it costs, what was refused") {
  const Example e = example();
  const std::string text = to_text(e.plan, e.graph);
  for (const std::string part : {"batch 4 on cpu:0, cpu:1", "1.20 s predicted, measured 1.30 s (+8.3 %)", "lower bound  1.10 s", "9.1 % above", "one .. two", "cpu:1 alone", "refused: needs 3 GB",
                           "+25.0 %", "cheapest: \"three/d\"", "5.00 kB of 8.59 GB", "2 with 256 bytes", "found by     by hand", "measured     1 of 13 nodes"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " in:\n", text);
}

TEST_CASE("pictures and page are well-formed XML with every device, and need nothing from outside") {
  Example e = example();
  for (int replicas = 1; replicas <= 2; ++replicas) {
    const std::string svg = to_svg(e.plan, e.graph), html = to_html(e.plan, e.graph);
    CHECK(problem_of_xml(svg) == "");
    CHECK(problem_of_xml(html) == "");
    for (const std::string& text : {svg, html}) {
      CHECK(text.find("cpu:0") != std::string::npos);
      CHECK(text.find("cpu:1") != std::string::npos);
      CHECK(text.find("net &lt;&quot;&amp;&gt;") != std::string::npos);
      CHECK(text.find("lower bound") != std::string::npos);
      CHECK(text.find("src=") == std::string::npos);
      CHECK(text.find("@import") == std::string::npos);
      CHECK(text.find("nan") == std::string::npos);
      CHECK(count_of(text, "http") == count_of(text, "xmlns=\"http"));
    }
    CHECK(count_of(html, "<tr") > 13 + 12);
    e.plan.replicas = 2;
    e.plan.machine.devices.push_back({"cpu:2", std::nullopt, 1, 1});
    e.plan.machine.devices.push_back({"cpu:3", std::nullopt, 1, 1});
    e.plan.replica_devices = {{0, 1}, {2, 3}};
    e.plan.shards_per_replica = 2;
  }
  const std::string dot = to_dot(e.plan, e.graph);
  CHECK(count_of(dot, "{") == count_of(dot, "}"));
  CHECK(dot.find("one .. two x2") != std::string::npos);
  CHECK(dot.find("cpu:1 | cpu:3") != std::string::npos);
}

TEST_CASE("a plan of nothing is drawn without dividing by nothing") {
  Plan empty;
  empty.machine.devices = {{"cpu:0", std::nullopt, 0, 0}};
  empty.machine.connect_all({});
  empty.replica_devices = {{0}};
  const Graph graph;
  CHECK(problem_of_xml(to_html(empty, graph)) == "");
  CHECK(to_html(empty, graph).find("nan") == std::string::npos);
  CHECK(to_text(empty, graph).find("nan") == std::string::npos);
  CHECK(differences(empty, empty).empty());
  CHECK(refusal(to_json(empty)).find("memory has 0 entries where a replica has 1 devices") != std::string::npos);
}

}  // namespace
}  // namespace eng
