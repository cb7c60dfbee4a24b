// The devices of a run and how shards are spread over them. A *replica* is one device, or a group of devices that share the branches of the graph;
// it has the weights once. A *lane* of a replica is a stream on each of its devices with threads of its own: a replica with several lanes computes
// that many shards side by side. A *rank* is a process (engine/distributed/ranks.h); all ranks have as many replicas.
//
// What is computed depends on `shards` and on the threads of a lane, never on how many replicas, lanes or ranks there are; but where a backend's
// collectives add up the gradients (NCCL on GPUs), their order depends on the devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/distributed/ranks.h"
#include "engine/exec/shared_arena.h"
#include "engine/exec/state_store.h"
#include "engine/plugin/communicator.h"
#include "engine/plugin/device.h"

namespace eng {

struct Replica {
  std::vector<std::vector<std::shared_ptr<Device>>> lanes;  // [lane][place]: handles of the replica's devices
  std::vector<std::shared_ptr<Device>> sums;                // [place]: handles whose streams add and move gradients
  std::vector<std::unique_ptr<Communicator>> communicators;  // [place]: of the handles in `sums`; null: the fixed order is taken there
  std::shared_ptr<StateStore> store;
  std::vector<std::vector<std::shared_ptr<SharedArena>>> arenas;  // [lane][place]: of the programs that run there one after the other
};

struct FleetOptions {
  std::vector<std::vector<std::string>> replicas;  // device names of each replica of this rank
  int64_t shards = 0;      // of every batch, over all ranks; 0: one a replica
  int threads = 0;         // of a lane on CPU devices; 0: what is left when all shards that can run at once share the machine's
  bool deterministic = false;  // sums over shards in their fixed order on all devices, without the backends' collectives
  bool side_by_side = true;  // a replica with several shards may run them at once; false: one after the other, which needs less memory
  int64_t timeout_ms = -1;
  std::string listed;  // how the log names the devices, where their names differ from rank to rank; empty: by their names
};

class TraceSink;  // engine/report/chrome_trace.h

class Fleet {
 public:
  static Result<std::unique_ptr<Fleet>> open(const FleetOptions& options, std::shared_ptr<Ranks> ranks);

  std::vector<Replica> replicas;
  std::shared_ptr<Ranks> ranks;
  int64_t shards = 1;
  int threads = 0;  // of a lane, as settled
  TraceSink* trace = nullptr;  // where messages between ranks are written down; may be null

  // Whether there is one shard on one replica: the step is one program, and nothing is summed.
  bool single() const { return shards == 1; }
  // Whether the sums of a place are made by the backend's collectives; the same on all ranks.
  bool by_collectives(size_t place) const { return !replicas[0].communicators.empty() && replicas[0].communicators[place]; }
  int64_t replica_count() const { return static_cast<int64_t>(replicas.size()) * ranks->size(); }  // over all ranks
  // The replica (over all ranks, rank by rank) that owns a shard: contiguous parts whose sizes differ by at most one.
  int64_t owner(int64_t shard) const { return ((shard + 1) * replica_count() - 1) / shards; }
  // Rows [first, last) of a batch that a shard has: sizes differ by at most one.
  std::pair<int64_t, int64_t> rows(int64_t shard, int64_t batch) const { return {shard * batch / shards, (shard + 1) * batch / shards}; }
  // Rows [first, last) of a batch that this rank's shards have.
  std::pair<int64_t, int64_t> rows_of_rank(int64_t batch) const;
  void set_timeout(int64_t milliseconds);
  const std::shared_ptr<Device>& first_device() const { return replicas[0].lanes[0][0]; }
  std::string listed;         // as in FleetOptions
  std::string order_of_sums;  // for describe(): how gradients are added up, where there is a choice
  std::string describe() const;  // "2 devices, 4 shards of each batch, 1 thread a shard"
};

}  // namespace eng
