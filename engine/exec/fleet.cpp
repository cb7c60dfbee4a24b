// See fleet.h.
#include "engine/exec/fleet.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <thread>

#include "engine/plugin/abi_words.h"

namespace eng {
namespace {

int processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Processors of all hosts together, each rank counting its part of its host's.
Result<int64_t> all_processors(Ranks& ranks) {
  if (ranks.size() == 1) return processors();
  const int64_t mine[] = {processors(), ranks.local_size()};
  std::vector<int64_t> all(static_cast<size_t>(ranks.size()) * 2);
  ENG_TRY(ranks.gather_all(mine, sizeof mine, all.data()));
  double sum = 0;
  for (size_t r = 0; r < all.size(); r += 2) sum += static_cast<double>(all[r]) / static_cast<double>(all[r + 1]);
  return static_cast<int64_t>(sum + 0.5);
}

Result<std::vector<std::shared_ptr<Device>>> open_all(const std::vector<std::string>& names, const DeviceOptions& options, int64_t timeout_ms) {
  std::vector<std::shared_ptr<Device>> out;
  for (const std::string& name : names) {
    ENG_ASSIGN(std::shared_ptr<Device> device, Device::open(name, options));
    device->set_timeout(timeout_ms);
    out.push_back(std::move(device));
  }
  return out;
}

constexpr std::chrono::seconds kJoining{120};  // as long as ranks have to start

std::vector<std::shared_ptr<Device>> devices_of(const Fleet& fleet, size_t place) {
  std::vector<std::shared_ptr<Device>> out;
  for (const Replica& r : fleet.replicas) out.push_back(r.sums[place]);
  return out;
}

// Whether this rank's replicas can be in one group: devices of one backend that has collectives. `why_not` says what is in the way where a user could expect them.
bool can_join(const std::vector<std::shared_ptr<Device>>& devices, std::string& why_not) {
  for (const auto& device : devices) {
    if (&device->backend() != &devices[0]->backend()) {
      if (Communicator::offered(*device) || Communicator::offered(*devices[0])) why_not = cat(devices[0]->name(), " and ", device->name(), " are of different kinds");
      return false;
    }
    for (const auto& other : devices)
      if (&other != &device && other->same_device(*device)) return false;  // branch replicas that share a host's CPU
  }
  if (!Communicator::offered(*devices[0])) return false;
  const Status status = Communicator::available(*devices[0]);
  if (!status.ok()) why_not = status.message();
  return status.ok();
}

// What a rank tells the others about a place's devices, followed by the identity of each.
struct Joiner {
  char backend[32] = {};
  char can = 0;
  char reason[160] = {};  // why not
};
using Identity = std::array<char, 64>;

void put(std::span<char> to, std::string_view word) { std::copy_n(word.data(), std::min(word.size(), to.size() - 1), to.data()); }

// Whether all ranks' devices of a place can be in one group, the same answer on all ranks. `why_not` as in can_join.
Result<bool> all_can_join(Ranks& ranks, const std::vector<std::shared_ptr<Device>>& devices, std::string& why_not) {
  const size_t bytes = sizeof(Joiner) + devices.size() * sizeof(Identity);
  std::vector<char> mine(bytes), all(bytes * static_cast<size_t>(ranks.size()));
  Joiner me;
  put(me.backend, text(devices[0]->backend().name));
  me.can = can_join(devices, why_not);
  put(me.reason, why_not);
  std::memcpy(mine.data(), &me, sizeof me);
  for (size_t i = 0; i < devices.size(); ++i) put({mine.data() + sizeof me + i * sizeof(Identity), sizeof(Identity)}, devices[i]->identity());
  ENG_TRY(ranks.gather_all(mine.data(), bytes, all.data()));
  std::map<std::string, int> owner;  // host and identity
  for (int r = 0; r < ranks.size(); ++r) {
    const char* record = all.data() + static_cast<size_t>(r) * bytes;
    if (!me.can) return false;
    Joiner other;
    std::memcpy(&other, record, sizeof other);
    if (!other.can || std::strcmp(other.backend, me.backend) != 0) {
      why_not = cat("rank ", r, ": ", other.reason[0] ? other.reason : "its devices are of another kind");
      return false;
    }
    for (size_t i = 0; i < devices.size(); ++i) {
      const std::string identity = record + sizeof me + i * sizeof(Identity);
      const auto [at, added] = owner.emplace(ranks.host_of(r) + " " + identity, r);
      if (identity.empty() || added) continue;
      why_not = cat("ranks ", at->second, " and ", r, " share ", devices[i]->name(), " of ", ranks.host_of(r), "; ", me.backend, ":rank in --devices gives each its own");
      return false;
    }
  }
  return true;
}

// Makes the groups of devices that add up gradients by their backend's collectives: a place's, where all ranks' devices are of one such backend.
Status join_devices(Fleet& fleet, bool deterministic) {
  if (fleet.single() || fleet.replica_count() < 2) return {};
  Ranks& ranks = *fleet.ranks;
  for (size_t place = 0; place < fleet.replicas[0].sums.size(); ++place) {
    const auto devices = devices_of(fleet, place);
    if (deterministic) {
      if (Communicator::offered(*devices[0])) fleet.order_of_sums = "gradients added up in the fixed order of shards";
      continue;
    }
    std::string why_not;
    ENG_ASSIGN(const bool yes, all_can_join(ranks, devices, why_not));
    if (!yes) {
      if (!why_not.empty()) fleet.order_of_sums = "gradients added up by copies in the fixed order of shards (" + why_not + ")";
      continue;
    }
    std::vector<std::unique_ptr<Communicator>> made;
    if (ranks.size() == 1) {
      ENG_ASSIGN(made, Communicator::join(devices));
    } else {
      const auto each = static_cast<int>(devices.size());
      eb_unique_id id{};
      if (ranks.rank() == 0) {
        ENG_ASSIGN(id, Communicator::make_id(*devices[0]));
      }
      ENG_TRY(ranks.broadcast(&id, sizeof id, 0));
      ENG_ASSIGN(made, Communicator::join(devices, id, each * ranks.size(), each * ranks.rank(), kJoining));
    }
    for (size_t r = 0; r < made.size(); ++r) {
      fleet.replicas[r].communicators.resize(fleet.replicas[r].sums.size());
      fleet.replicas[r].communicators[place] = std::move(made[r]);
    }
    fleet.order_of_sums = cat("gradients added up by ", text(devices[0]->backend().name), "'s all-reduce");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Fleet>> Fleet::open(const FleetOptions& o, std::shared_ptr<Ranks> ranks) {
  auto fleet = std::make_unique<Fleet>();
  fleet->ranks = std::move(ranks);
  fleet->listed = o.listed;
  const int64_t replicas = static_cast<int64_t>(o.replicas.size()) * fleet->ranks->size();
  fleet->shards = o.shards > 0 ? o.shards : replicas;
  if (fleet->shards < replicas)
    return usage_error("--shards ", fleet->shards, " on ", replicas, " devices (", o.replicas.size(), " of --devices on each of ", fleet->ranks->size(), fleet->ranks->size() == 1 ? " rank): " : " ranks): ", replicas - fleet->shards, " of them would have nothing to do; give at least one shard a device, or fewer devices");
  ENG_ASSIGN(const int64_t cores, all_processors(*fleet->ranks));
  const int64_t places = o.replicas.empty() ? 1 : static_cast<int64_t>(o.replicas[0].size());
  const int64_t at_once = o.side_by_side ? fleet->shards : replicas;
  fleet->threads = o.threads > 0 ? o.threads : static_cast<int>(std::max<int64_t>(1, cores / (at_once * places)));
  // As many lanes as fit on the processors, at most one a shard.
  const int64_t shards_each = (fleet->shards + replicas - 1) / replicas;
  const int64_t fit = std::max<int64_t>(1, cores / (replicas * places * fleet->threads));
  const int64_t lanes = o.side_by_side ? std::min(shards_each, fit) : 1;
  const DeviceOptions device_options{.threads = fleet->threads, .deterministic = o.deterministic};
  for (const std::vector<std::string>& names : o.replicas) {
    Replica r;
    for (int64_t l = 0; l < lanes; ++l) {
      ENG_ASSIGN(auto lane, open_all(names, device_options, o.timeout_ms));
      r.arenas.emplace_back();
      for (const auto& device : lane) r.arenas.back().push_back(std::make_shared<SharedArena>(device));
      r.lanes.push_back(std::move(lane));
    }
    if (!fleet->single()) {
      ENG_ASSIGN(r.sums, open_all(names, device_options, o.timeout_ms));
    }
    r.store = std::make_shared<StateStore>(r.lanes[0][0]);
    fleet->replicas.push_back(std::move(r));
  }
  ENG_TRY(join_devices(*fleet, o.deterministic));
  return fleet;
}

std::pair<int64_t, int64_t> Fleet::rows_of_rank(int64_t batch) const {
  const auto each = static_cast<int64_t>(replicas.size());
  const int64_t first = ranks->rank() * each * shards / replica_count(), last = (ranks->rank() + 1) * each * shards / replica_count();
  return {first * batch / shards, last * batch / shards};
}

void Fleet::set_timeout(int64_t milliseconds) {
  for (Replica& r : replicas) {
    for (auto& lane : r.lanes)
      for (auto& device : lane) device->set_timeout(milliseconds);
    for (auto& device : r.sums) device->set_timeout(milliseconds);
  }
}

std::string Fleet::describe() const {
  const auto count = [](int64_t n, const char* what) { return cat(n, " ", what, n == 1 ? "" : "s"); };
  std::string names = listed;
  for (const Replica& r : replicas)
    for (const auto& device : r.lanes[0])
      if (listed.empty()) names += (names.empty() ? "" : ", ") + device->name();
  return cat(names, ranks->size() > 1 ? cat(" on each of ", ranks->size(), " ranks") : "", ": ", count(shards, "shard"), " of each batch, ", count(threads, "thread"), " a shard, ",
             count(static_cast<int64_t>(replicas[0].lanes.size()), "shard"), " at a time on each device",
             order_of_sums.empty() ? "" : "; ", order_of_sums);
}

}  // namespace eng
