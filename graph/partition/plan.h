// A plan: which device runs which node and why, in which order, what crosses, what is predicted for time and memory, what
// else was considered, and how far from a lower bound it is. Pure data: written and read as JSON (plan_json.*), drawn
// (plan_dot.*), executed (engine/exec). Times are seconds from the beginning of the step. Everything is in a stable order.
//
// With replicas, one replica is described: `device` numbers index its own devices, replica_devices says which of the
// machine's devices these are in each replica.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/partition/device.h"

namespace eng {

inline constexpr int kPlanVersion = 1;

struct Span {
  double start = 0, end = 0;
  double seconds() const { return end - start; }
};

struct PlanNode {
  NodeId node = kNoNode;     // in the step graph that was planned; kNoNode in a plan that was read from a file
  std::string name;          // the node's own; may be empty or repeat
  std::string output;        // its first output's name, which is unique: the key of a plan file
  std::string op_type;
  Phase phase = Phase::kForward;
  int group = 0;             // nodes of one group are placed together
  int device = 0;
  std::string reason;        // "cheapest: 3.1 ms here, 4.0 ms on cpu:1", "follows its forward node", "forced by placement line 3", ...
  double flops = 0, bytes = 0;
  Span predicted;
  std::optional<Span> measured;
};

struct PlanTransfer {
  std::string value;
  Phase phase = Phase::kForward;  // of what it belongs to: values forward, gradients backward
  uint64_t bytes = 0;
  int from = 0, to = 0;
  Span predicted;
  std::optional<Span> measured;
};

struct PlanMemory {
  struct Point {
    double time = 0;
    uint64_t bytes = 0;
  };
  uint64_t resident = 0;     // weights and optimiser slots
  uint64_t peak = 0;
  std::optional<uint64_t> limit;
  std::vector<Point> curve;  // bytes alive from `time` on; begins with the resident ones at 0
  std::optional<uint64_t> measured_peak;
};

// Something that could have been chosen.
struct PlanCandidate {
  std::string name;          // "cpu:1 alone", "2 replicas x 2 devices"
  bool fits = true;          // in memory, and every device can run its nodes; else `note` says what is missing
  bool chosen = false;
  double seconds = 0;        // of a step; 0 where it does not fit
  double margin = 0;         // seconds / those of the chosen one - 1
  std::string note;
};

struct PlanBound {
  double critical_path = 0;  // the longest path, each group on its best device, nothing transferred
  double work = 0;           // all work spread without loss over all devices that can do it
  double crossings = 0;      // the longest path with the transfers that cannot be avoided on it
  double best() const { return critical_path > work ? (critical_path > crossings ? critical_path : crossings) : (work > crossings ? work : crossings); }
};

struct Plan {
  int version = kPlanVersion;
  std::string graph_name;
  int64_t batch = 0;                              // of the whole step, over all replicas; 0 where it is not known
  Machine machine;                                // all devices
  int replicas = 1;
  int shards_per_replica = 1;                     // forward and backward run this often before the update
  std::vector<std::vector<int>> replica_devices;  // [replica][device number as in nodes] -> machine device
  std::vector<PlanNode> nodes;                    // in the one global order in which every device runs its own
  std::vector<PlanTransfer> transfers;            // by start
  std::vector<PlanMemory> memory;                 // per device of a replica
  std::vector<PlanCandidate> candidates;
  double all_reduce_seconds = 0;                  // the tail of summing gradients over replicas
  double seconds = 0;                             // predicted, of a step
  std::optional<double> measured_seconds;
  PlanBound bound;                                // of every placement of one replica as planned here
  std::string method;                             // how the placement was found: "one device", "series of 21 blocks", ...

  int device_count() const { return replica_devices.empty() ? machine.device_count() : static_cast<int>(replica_devices[0].size()); }
  const DeviceSpec& device(int d) const {
    return machine.devices[static_cast<size_t>(replica_devices.empty() ? d : replica_devices[0][static_cast<size_t>(d)])];
  }
  int crossings() const { return static_cast<int>(transfers.size()); }
  // How much slower than the bound: 0.1 is 10 %.
  double gap() const { return bound.best() > 0 ? seconds / bound.best() - 1 : 0; }
};

}  // namespace eng
