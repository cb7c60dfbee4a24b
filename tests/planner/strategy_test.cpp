// Replicas and branch split: by hand for a net of two equal branches.
#include "graph/partition/strategy.h"

#include <doctest/doctest.h>

using namespace eng;

namespace {

Machine machine_of(int devices, LinkSpec link) {
  Machine m;
  for (int d = 0; d < devices; ++d) m.devices.push_back({"gpu:" + std::to_string(d), {}, 0, 0});
  m.connect_all(link);
  return m;
}

// A fork, two branches of `batch` seconds forward and as many backward, a join. Fork and join take no time. The weights are
// `weight` bytes a branch.
ProblemSource two_branches(const Machine& machine, uint64_t weight, uint64_t activation) {
  return [=](int64_t batch, const std::vector<int>& devices) -> Result<Problem> {
    Problem p;
    for (int d : devices) p.machine.devices.push_back(machine.devices[static_cast<size_t>(d)]);
    p.machine.connect_all(machine.links[0]);
    const std::vector<double> none(devices.size(), 0.0), work(devices.size(), static_cast<double>(batch));
    p.add_group("fork", none, none);
    p.add_group("left", work, work);
    p.add_group("right", work, work);
    p.add_group("join", none, none);
    for (int g : {1, 2}) p.groups[static_cast<size_t>(g)].resident_bytes = p.groups[static_cast<size_t>(g)].gradient_bytes = weight;
    p.add_edge("x", 0, {1, 2}, activation, activation);
    p.add_edge("y", 1, {3}, activation, activation);
    p.add_edge("z", 2, {3}, activation, activation);
    if (Status s = p.finish(); !s.ok()) return s;
    return p;
  };
}

const PlanCandidate& candidate(const Strategy& s, const std::string& name) {
  for (const PlanCandidate& c : s.candidates)
    if (c.name == name) return c;
  FAIL("no candidate ", name);
  return s.candidates[0];
}

}  // namespace

TEST_CASE("strategy: small weights are replicated, heavy ones split by branch, slow links leave one device") {
  // One device: 4 s a sample, 8 samples: 32 s. A replica of 4: 16 s and 2 * weights / bandwidth up and down the tree. A split: 16 s
  // and two transfers: x goes to one branch while the other computes, whose result goes to the join meanwhile.
  const Machine machine = machine_of(2, {0, 1});
  const auto light = choose_strategy(machine, {.batch = 8}, two_branches(machine, 1, 10));
  REQUIRE(light.ok());
  CHECK(light->replicas == 2);
  CHECK(light->shard_batch == 4);
  CHECK(light->seconds == doctest::Approx(16 + 2 * 2));
  CHECK(candidate(*light, "gpu:0 alone").seconds == doctest::Approx(32));
  CHECK(candidate(*light, "2 replicas x 1 device").chosen);
  CHECK(candidate(*light, "gpu:0 alone").margin == doctest::Approx(32.0 / 20 - 1));

  const auto heavy = choose_strategy(machine, {.batch = 8}, two_branches(machine, 100, 1));
  REQUIRE(heavy.ok());
  CHECK(heavy->replicas == 1);
  CHECK(heavy->seconds == doctest::Approx(16 + 2));
  CHECK(candidate(*heavy, "1 replica x 2 devices").chosen);
  CHECK(candidate(*heavy, "2 replicas x 1 device").seconds == doctest::Approx(16 + 400));

  const auto slow = choose_strategy(machine, {.batch = 8}, two_branches(machine, 100, 100));
  REQUIRE(slow.ok());
  CHECK(slow->seconds == doctest::Approx(32));
  CHECK(candidate(*slow, "gpu:0 alone").chosen);
  CHECK(!candidate(*slow, "1 replica x 2 devices").chosen);
  CHECK(candidate(*slow, "1 replica x 2 devices").note == "to split the branches gains nothing: one device of the group does all");
}

TEST_CASE("strategy: groups of devices, shards, and what is asked for") {
  const Machine machine = machine_of(4, {0, 1});
  // 2 x 2: 4 samples a replica, branches of 4 s: 8 s forward and backward, 2 transfers of 1, the tree 2 * 3 bytes a device
  const auto both = choose_strategy(machine, {.batch = 8}, two_branches(machine, 3, 1));
  REQUIRE(both.ok());
  CHECK(both->replicas == 2);
  CHECK(both->replica_devices == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
  CHECK(both->seconds == doctest::Approx(8 + 2 + 6));
  CHECK(candidate(*both, "4 replicas x 1 device").seconds == doctest::Approx(8 + 4 * 6));
  CHECK(candidate(*both, "1 replica x 4 devices").seconds == doctest::Approx(16 + 2));

  const auto shards = choose_strategy(machine, {.batch = 8, .shards = 8, .replicas = 4}, two_branches(machine, 3, 1));
  REQUIRE(shards.ok());
  CHECK(shards->shards_per_replica == 2);
  CHECK(shards->shard_batch == 1);
  CHECK(shards->seconds == doctest::Approx(2 * 4 + 24));
  CHECK(choose_strategy(machine, {.batch = 8, .replicas = 3}, two_branches(machine, 3, 1)).status().code() == Code::kUsage);
}

TEST_CASE("strategy: what does not fit is named, candidate by candidate") {
  Machine machine = machine_of(2, {0, 1});
  for (DeviceSpec& d : machine.devices) d.memory_limit = 150;
  const auto split = choose_strategy(machine, {.batch = 2}, two_branches(machine, 60, 1));  // a branch's weight and gradient: 120
  REQUIRE(split.ok());
  CHECK(split->replicas == 1);
  CHECK(!candidate(*split, "gpu:0 alone").fits);
  CHECK(candidate(*split, "gpu:0 alone").note.find("needs 24") == 0);
  CHECK(!candidate(*split, "2 replicas x 1 device").fits);
  for (DeviceSpec& d : machine.devices) d.memory_limit = 100;
  const auto none = choose_strategy(machine, {.batch = 2}, two_branches(machine, 60, 1));
  REQUIRE(!none.ok());
  CHECK(none.status().code() == Code::kDevice);
  for (const char* name : {"gpu:0 alone: needs", "gpu:1 alone: needs", "1 replica x 2 devices: no placement", "2 replicas x 1 device: no placement"})
    CHECK(none.status().message().find(name) != std::string::npos);
}
