// From a step graph to groups, tasks and flows, and to a plan. The oracle of the flows is the program that runs: cut() makes one
// Send node for each transfer.
#include "graph/partition/groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/partition/cut.h"
#include "graph/partition/make_plan.h"
#include "graph/partition/strategy.h"
#include "random_problem.h"
#include "step_graphs.h"

using namespace eng;
using namespace eng::test;

namespace {

Machine machine_of(int devices) {
  Machine m;
  for (int d = 0; d < devices; ++d) m.devices.push_back({"cpu:" + std::to_string(d), {}, 1e9, 1e9});
  m.connect_all({1e-6, 1e9});
  return m;
}

std::map<std::string, std::set<std::string>> names_of(const Graph& g, const Problem& p) {
  std::map<std::string, std::set<std::string>> all;
  for (const Group& group : p.groups)
    for (NodeId n : group.nodes[0]) all[group.name].insert(placement_name(g, g.node(n)));
  return all;
}

// In the order of a plan, with the devices of a placement of groups.
int sends_of_cut(Graph g, const Problem& p, const Placement& placement) {
  std::vector<NodeId> order;
  for (Task t : p.order) {
    for (NodeId n : p.groups[static_cast<size_t>(t.group)].nodes[static_cast<int>(t.kind)]) {
      order.push_back(n);
      g.node(n).place = placement[static_cast<size_t>(t.group)];
    }
  }
  const Cut made = cut(g, order, [](ValueId) { return -1; });
  return static_cast<int>(std::count_if(made.order.begin(), made.order.end(), [&](NodeId n) { return g.node(n).op_type == "Send"; }));
}

}  // namespace

TEST_CASE("groups: Conv + BatchNormalization + Relu is one, the loss is one, every node is in one task") {
  for (double clip_norm : {0.0, 1.0}) {
    const Step step = branches_step(clip_norm);
    REQUIRE(step.graph.node_count() > 0);
    const Machine machine = machine_of(2);
    const auto p = make_problem(step.graph, machine, roofline_costs(machine));
    INFO(p.status().message());
    REQUIRE(p.ok());
    const auto names = names_of(step.graph, *p);
    for (const char* conv : {"stem", "a", "b1", "b2", "residual"}) {
      REQUIRE(names.count(conv));
      CHECK(names.at(conv).size() == 2);  // BatchNormalization and Relu were fused into one node before
    }
    CHECK(names.count("join"));
    CHECK(names.count("first"));
    CHECK(names.count("second"));
    std::vector<int> seen(static_cast<size_t>(step.graph.node_count()), 0);
    int tasks_with_nodes = 0;
    for (const Group& group : p->groups) {
      for (const auto& nodes : group.nodes) {
        tasks_with_nodes += !nodes.empty();
        for (NodeId n : nodes) ++seen[static_cast<size_t>(n)];
      }
    }
    for (NodeId n : step.graph.live_nodes()) CHECK_MESSAGE(seen[static_cast<size_t>(n)] == 1, step.graph.label(n));
    CHECK(tasks_with_nodes > 20);
  }
}

TEST_CASE("groups: the weights' bytes are on their owners, with two slots each; gradients live until the update") {
  const Step step = branches_step();
  const Machine machine = machine_of(1);
  const auto p = make_problem(step.graph, machine, roofline_costs(machine));
  REQUIRE(p.ok());
  for (const Group& g : p->groups) {
    // kernel 4x4x3x3, scale and bias with two moments each (float32), mean and variance
    if (g.name == "a") CHECK(g.gradient_bytes == 4 * (4 * 4 * 9 + 8));
    if (g.name == "a") CHECK(g.resident_bytes >= 3 * 4 * (4 * 4 * 9 + 8) + 2 * 4 * 4);
    if (g.name == "a") CHECK(g.resident_bytes <= 3 * 4 * (4 * 4 * 9 + 8) + 2 * 4 * 4 + 64);
    if (g.name == "second") CHECK(g.resident_bytes < 64);  // "first" owns the shared matrix
    if (g.name == "first") CHECK(g.resident_bytes >= 3 * 4 * 64);
  }
}

TEST_CASE("groups: as many transfers are predicted as the cut program has, in any placement") {
  for (double clip_norm : {0.0, 1.0}) {
    const Step step = branches_step(clip_norm);
    Dice dice(7);
    for (int devices : {2, 3}) {
      const Machine machine = machine_of(devices);
      const auto p = make_problem(step.graph, machine, roofline_costs(machine));
      REQUIRE(p.ok());
      Simulator simulator(*p);
      for (int trial = 0; trial < 40; ++trial) {
        Placement placement;
        for (int g = 0; g < p->group_count(); ++g) placement.push_back(dice.number(0, devices - 1));
        CHECK(simulator.run(placement).crossings == sends_of_cut(step.graph, *p, placement));
      }
    }
  }
}

TEST_CASE("plan: the order has producers first, phases and reasons are there, devices can be found again") {
  const Step step = branches_step();
  const Machine machine = machine_of(2);
  const auto places = read_placement("b?/* = cpu:1\nb? = cpu:1\njoin = cpu:0\n", "p", step.graph, {"cpu:0", "cpu:1"});
  INFO(places.status().message());
  REQUIRE(places.ok());
  const auto p = make_problem(step.graph, machine, roofline_costs(machine), *places);
  INFO(p.status().message());
  REQUIRE(p.ok());
  const auto solution = solve(*p);
  REQUIRE(solution.ok());
  Plan plan = make_plan(step.graph, *p, *solution);
  std::set<NodeId> done;
  for (const PlanNode& n : plan.nodes) {
    for (ValueId v : step.graph.node(n.node).inputs)
      if (v != kNoValue && step.graph.value(v).producer != kNoNode) CHECK(done.count(step.graph.value(v).producer));
    done.insert(n.node);
    CHECK(!n.reason.empty());
    CHECK(n.predicted.end >= n.predicted.start);
    CHECK(n.predicted.end <= plan.seconds * (1 + 1e-9));
    const std::string name = placement_name(step.graph, step.graph.node(n.node));
    if (n.phase == Phase::kForward && (name == "b1" || name == "b2/bn")) CHECK(n.device == 1);
    if (name == "b2") CHECK(n.reason == "forced by placement line 2");
    if (name == "join") CHECK(n.reason == "forced by placement line 3");
    if (n.phase == Phase::kBackward && step.graph.node(n.node).forward_node != kNoNode) CHECK(n.reason == "follows its forward node");
  }
  CHECK(done.size() == step.graph.live_nodes().size());
  CHECK(plan.seconds == solution->score.makespan);
  CHECK(plan.bound.best() <= plan.seconds);
  CHECK(plan.crossings() > 0);
  REQUIRE(plan.candidates.size() == 3);
  CHECK(!plan.candidates[0].fits);
  CHECK(plan.candidates[0].note.find("is forced by placement line") != std::string::npos);
  CHECK(plan.candidates[2].chosen);

  for (PlanNode& n : plan.nodes) n.node = kNoNode;  // as read from a file
  const auto devices = devices_of(plan, step.graph);
  REQUIRE(devices.ok());
  const auto given = places_of(plan, step.graph);
  REQUIRE(given.ok());
  const auto again = make_problem(step.graph, machine, roofline_costs(machine), *given);
  REQUIRE(again.ok());
  const auto same = solve(*again);
  REQUIRE(same.ok());
  CHECK(same->score.makespan == doctest::Approx(plan.seconds));
  CHECK(make_plan(step.graph, *again, *same).nodes[0].reason == "forced by the given plan");
  const Step other = branches_step(1.0);
  CHECK(devices_of(plan, other.graph).status().message().find("node(s) of the graph are not in the plan") != std::string::npos);
}

TEST_CASE("plan: a device that refuses a node does not get it, and the reason says so") {
  const Step step = branches_step();
  const Machine machine = machine_of(2);
  const NodeCosts roofline = roofline_costs(machine);
  const auto costs = [&](const Graph& g, NodeId n, int device) {
    NodeCost c = roofline(g, n, device);
    c.seconds += 1e-3 * (device + 1);
    if (device == 0 && g.node(n).op_type == "Concat") c.refusal = "no kernel of this plugin takes axis 1";
    return c;
  };
  const auto p = make_problem(step.graph, machine, costs);
  REQUIRE(p.ok());
  const auto solution = solve(*p);
  REQUIRE(solution.ok());
  const Plan plan = make_plan(step.graph, *p, *solution);
  bool found = false;
  for (const PlanNode& n : plan.nodes) {
    if (n.op_type != "Concat" || n.phase != Phase::kForward) continue;
    found = true;
    CHECK(n.device == 1);
    CHECK(n.reason.find("cpu:0 cannot run it: Concat 'join': no kernel of this plugin takes axis 1") != std::string::npos);
  }
  CHECK(found);
  CHECK(plan.candidates[0].note == "cannot run 'join': Concat 'join': no kernel of this plugin takes axis 1");
  const auto forced = read_placement("join = cpu:0", "p", step.graph, {"cpu:0", "cpu:1"});
  REQUIRE(forced.ok());
  CHECK(make_problem(step.graph, machine, costs, *forced).status().message() ==
        "'join' is forced by placement line 1 on cpu:0, which cannot run it: Concat 'join': no kernel of this plugin takes axis 1");
}

TEST_CASE("groups: a node that a device refuses does not take its neighbours away from that device") {
  ModelBuilder m;
  ValueId y = m.op("Relu", {m.op("Gemm", {m.input("x", {8}), m.weight("w1", {8, 8})}, {}, "first")}, {}, "relu");
  y = m.op("Tanh", {m.op("Sigmoid", {y}, {}, "refused")}, {}, "tanh");
  m.output(m.op("Gemm", {y, m.weight("w2", {8, 3})}, {}, "last"), "scores");
  const auto step = build_training_step(m.g, {.batch = 4}, {}, nullptr);
  REQUIRE_MESSAGE(step.ok(), step.status().message());
  const Machine machine = machine_of(2);
  const NodeCosts roofline = roofline_costs(machine);
  const auto p = make_problem(step->graph, machine, [&](const Graph& g, NodeId n, int device) {
    NodeCost c = roofline(g, n, device);
    if (device == 0 && g.node(n).op_type == "SigmoidGrad") c.refusal = "it has no kernel for this operator";  // of the backward node alone
    return c;
  });
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  for (const Group& g : p->groups) {
    CHECK_MESSAGE(g.can_run(0) == (g.name != "refused"), g.name);
    if (g.name == "first" || g.name == "refused") CHECK_MESSAGE(g.nodes[0].size() == (g.name == "first" ? 2 : 1), g.name);
  }
}

TEST_CASE("plan: a device that does nothing is left out") {
  const Step step = branches_step();
  Machine machine = machine_of(3);
  machine.connect_all({1, 1});
  for (int d : {0, 2}) machine.devices[static_cast<size_t>(d)].flops_per_second = machine.devices[static_cast<size_t>(d)].bytes_per_second = 1e8;
  const auto source = [&](int64_t, const std::vector<int>& devices) {
    Machine part;
    for (int d : devices) part.devices.push_back(machine.devices[static_cast<size_t>(d)]);
    part.connect_all(machine.links[0]);
    return make_problem(step.graph, part, roofline_costs(part));
  };
  const auto strategy = choose_strategy(machine, {.batch = 4}, source);
  REQUIRE(strategy.ok());
  const Plan plan = make_plan(step.graph, machine, {.batch = 4}, *strategy);
  CHECK(plan.replica_devices == std::vector<std::vector<int>>{{1}});
  CHECK(plan.device_count() == 1);
  CHECK(plan.device(0).name == "cpu:1");
  CHECK(plan.memory.size() == 1);
  for (const PlanNode& n : plan.nodes) CHECK(n.device == 0);
  CHECK(plan.candidates[1].name == "cpu:1 alone");
  CHECK(plan.candidates[1].chosen);
}

TEST_CASE("strategy: several devices are only used where they promise to gain something") {
  const Step step = branches_step();
  const Machine machine = machine_of(2);
  const auto source = [&](int64_t, const std::vector<int>& devices) {
    Machine part = machine_of(static_cast<int>(devices.size()));
    return make_problem(step.graph, part, roofline_costs(part));
  };
  const auto free = choose_strategy(machine, {.batch = 4, .least_gain = 0}, source), careful = choose_strategy(machine, {.batch = 4, .least_gain = 0.9}, source);
  REQUIRE((free.ok() && careful.ok()));
  CHECK(std::set<int>(careful->solution.placement.begin(), careful->solution.placement.end()).size() == 1);
  CHECK(free->seconds < careful->seconds);
  CHECK(careful->candidates[0].chosen);
  CHECK(careful->candidates[2].margin < 0);
  CHECK(careful->candidates[2].note == "gains less than the 90 % that several devices must promise");
}
