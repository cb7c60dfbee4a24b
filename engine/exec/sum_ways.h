// Which additions and messages a bucket goes through, as lists of jobs that one rank works off (shard_sums.h does). Planned from the tree and from who owns
// which shard; no device is touched.
//
// Fixed order: the sums of shard_tree.h. There are several ways, taken by the buckets in turn: of two parts on different devices either may be added to
// the other (a + b has the bits of b + a), so the work and the messages of a tree are spread evenly, as a reduce-scatter and an all-gather would.
// By the backend's collectives: the parts of each replica are added up there, then one all-reduce makes the total on all replicas.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/exec/fleet.h"
#include "engine/exec/shard_tree.h"

namespace eng {

enum class JobKind : uint8_t {
  kAdd,         // into += from, both of this rank
  kSend,        // a part of this rank to another
  kReceive,     // from another rank, added to a part of this rank
  kReceiveAll,  // the total, into host memory
  kSendAll,     // the total, to another rank
  kAllReduce,   // the replicas' parts, to the total on each of them
};

struct Job {
  JobKind kind;
  int64_t into = -1, from = -1;  // shards at whose parts' memory they are
  int rank = -1;                 // the other one
};

struct Way {
  std::vector<Job> jobs;
  int64_t root = -1;           // the shard at whose memory the total is made
  std::vector<int64_t> roots;  // with kAllReduce, per replica of this rank: the shard at whose memory its part is; -1: it has none
};

// A shard of this rank that has rows.
struct Part {
  size_t replica = 0, lane = 0, slot = 0;           // slot: which of its lane's blocks of memory it has
  std::vector<std::pair<int64_t, int64_t>> merges;  // on its lane, behind its program: left += right
  bool own_events = false;                          // whether it is the left of one of them, so that the program's marks are too early
  int64_t merged_into = -1;
};

// Slots of the lanes, and which sums are made there: those all of whose shards are one lane's. `at_once`: no shard takes over another one's slot.
void plan_lanes(std::map<int64_t, Part>& parts, const ShardTree& tree, bool at_once);
std::vector<Way> plan_ways(const Fleet& fleet, const ShardTree& tree, const std::map<int64_t, Part>& parts);
Way plan_all_reduce(const Fleet& fleet, const std::map<int64_t, Part>& parts);

}  // namespace eng
