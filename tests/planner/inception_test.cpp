// Goal L4: InceptionV4 is planned in at most a second, the same on every run. The real step graph (with PLANNER_FULL=1, from
// bin/generate-inception_v4): 2, 4 and 8 devices, fast and slow links, memory limits. Times are printed and only judged there.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>

#include "graph/partition/groups.h"
#include "graph/partition/make_plan.h"
#include "graph/passes/mark_parameters.h"
#include "graph/surgery/training_step.h"
#include "importers/onnx/import.h"

using namespace eng;

namespace {

Machine machine_of(int devices, LinkSpec link) {
  Machine m;
  for (int d = 0; d < devices; ++d) m.devices.push_back({"gpu:" + std::to_string(d), {}, 10e12, 1e12});
  m.connect_all(link);
  return m;
}

// CPU time: the machine may do other things meanwhile.
double seconds_since(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

Result<Step> inception_step(int64_t batch) {
  const char* bin = std::getenv("ENGINE_BIN");
  REQUIRE_MESSAGE(bin != nullptr, "ENGINE_BIN must name the folder of the programs");
  const std::string path = (std::filesystem::temp_directory_path() / ("planner_test." + std::to_string(getpid()) + ".onnx")).string();
  REQUIRE(std::system(("'" + std::string(bin) + "/generate-inception_v4' '" + path + "' --classes 1001").c_str()) == 0);
  auto model = import_onnx(path);
  std::filesystem::remove(path);
  if (!model.ok()) return model.status();
  if (Status s = mark_parameters(*model); !s.ok()) return s;
  ShapeBinding binding;
  binding.batch = batch;
  return build_training_step(*model, binding, {.optimizer = {.kind = "sgd", .momentum = 0.9}}, nullptr);
}

}  // namespace

TEST_CASE("InceptionV4 is planned in a second, twice the same" * doctest::skip(std::getenv("PLANNER_FULL") == nullptr)) {
  const auto step = inception_step(32);
  INFO(step.status().message());
  REQUIRE(step.ok());
  for (const auto& [devices, link, limit] : {std::tuple{2, LinkSpec{1e-6, 200e9}, 0.0}, {2, {10e-6, 20e9}, 0.0}, {2, {10e-6, 20e9}, 0.6}, {2, {10e-6, 20e9}, 0.55}, {2, {10e-6, 20e9}, 0.8},
                                             {3, {1e-6, 200e9}, 0.0}, {4, {1e-6, 200e9}, 0.0}, {4, {10e-6, 20e9}, 0.35}, {8, {1e-6, 200e9}, 0.0}}) {
    Machine machine = machine_of(devices, link);
    if (limit > 0) {
      const auto all = make_problem(step->graph, machine, roofline_costs(machine));
      Simulator simulator(*all);
      simulator.run(Placement(all->groups.size(), 0));
      for (DeviceSpec& d : machine.devices) d.memory_limit = static_cast<uint64_t>(limit * static_cast<double>(simulator.peaks()[0]));
    }
    const auto start = std::clock();
    const auto problem = make_problem(step->graph, machine, roofline_costs(machine));
    REQUIRE(problem.ok());
    const double grouped = seconds_since(start);
    const auto solution = solve(*problem);
    INFO(solution.status().message());
    REQUIRE(solution.ok());
    const double solved = seconds_since(start);
    const Plan plan = make_plan(step->graph, *problem, *solution);
    const double seconds = seconds_since(start);
    const auto again = solve(*problem);
    CHECK(again->placement == solution->placement);
    CHECK(static_cast<int>(plan.nodes.size()) == static_cast<int>(step->graph.live_nodes().size()));
    double one = 0;
    for (const OneDevice& o : solution->one_device) one = o.note.empty() && (one == 0 || o.score.makespan < one) ? o.score.makespan : one;
    const std::string alone = one > 0 ? cat("best one device ", one * 1e3, " ms (", one / plan.seconds, "x)") : "too big for one device";
    std::printf("L4 InceptionV4, %d devices, link %.0f us + %.0f GB/s%s: planned in %.2f s of CPU (groups %.2f, solver %.2f), %zu nodes, %d groups, %d flows, %s, "
                "%lld simulations; step %.2f ms, %s, bound %.2f ms, %d crossings\n",
                devices, link.latency * 1e6, link.bytes_per_second / 1e9, limit > 0 ? ", memory limit" : "", seconds, grouped, solved - grouped, plan.nodes.size(),
                problem->group_count(), static_cast<int>(problem->flows.size()), plan.method.c_str(), static_cast<long long>(solution->simulations), plan.seconds * 1e3,
                alone.c_str(), plan.bound.best() * 1e3, plan.crossings());
    CHECK(seconds <= 1.0);
  }
}
