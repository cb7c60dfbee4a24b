// A partition problem: groups of nodes that stay together, what each costs on each device, and the values that flow between
// them. Pure numbers; graph/partition/groups.h makes one from a step graph, tests make their own.
//
// A group has three tasks: forward, backward, update. All run on the group's device. A flow is a value that one task makes
// and others read; where they run on other devices it crosses once for each of these devices. Gradients are flows between
// backward tasks, so the direction and the number of transfers are those of the program that runs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/ir/graph.h"
#include "graph/partition/device.h"

namespace eng {

inline constexpr double kCannotRun = std::numeric_limits<double>::infinity();
inline constexpr int kAnyDevice = -1;

enum class TaskKind : uint8_t { kForward, kBackward, kUpdate };
inline constexpr int kTaskKinds = 3;
const char* name_of(TaskKind kind);  // "forward", "backward", "update"

struct Group {
  std::string name;                  // of its first node
  std::vector<NodeId> nodes[kTaskKinds];  // in the order in which they run; empty where the problem is made by hand
  std::vector<double> node_seconds[kTaskKinds];  // as `nodes`: node * devices + device
  // Per device, seconds; kCannotRun (in all three) where the device refuses a node of the group, with the reason.
  std::vector<double> seconds[kTaskKinds];
  std::vector<std::string> refusal;  // per device; may be empty when no device refuses
  uint64_t resident_bytes = 0;       // weights and optimiser slots: on the group's device for the whole step
  uint64_t kept_bytes = 0;           // made by forward, read by backward, and by nobody else
  uint64_t scratch_bytes[kTaskKinds] = {};  // alive only while the task runs
  uint64_t gradient_bytes = 0;       // what the all-reduce moves for it; they live from backward to update
  double flops[kTaskKinds] = {}, bytes[kTaskKinds] = {};
  int forced = kAnyDevice;           // the device that placement gives it
  std::string forced_reason;         // "forced by placement line 3"

  bool can_run(int device) const { return seconds[0][static_cast<size_t>(device)] != kCannotRun; }
  bool allowed(int device) const { return can_run(device) && (forced == kAnyDevice || forced == device); }
};

struct Task {
  int group = 0;
  TaskKind kind = TaskKind::kForward;
  bool operator==(const Task&) const = default;
};

struct Flow {
  std::string name;
  int group = 0;                 // whose device it starts on
  TaskKind made_by = TaskKind::kForward;
  bool at_start = false;         // there when the step begins (a weight that others share): made by no task
  std::vector<Task> readers;     // may include tasks of `group` itself
  uint64_t bytes = 0;
  bool is_weight = false;        // a shared weight's copy or gradient: left out when blocks are looked for
};

// The sum of gradients over replicas: a device's starts when its backward tasks are over, its updates come after it.
struct AllReduce {
  double latency = 0;           // seconds, once a device
  double seconds_per_byte = 0;  // 0 with latency 0: none
  bool any() const { return latency > 0 || seconds_per_byte > 0; }
};

struct Problem {
  Machine machine;
  std::vector<Group> groups;
  std::vector<Flow> flows;
  AllReduce all_reduce;
  int shards = 1;               // forward and backward run this often before the update

  // The global order of all tasks. Every device runs its own ones in it. Set by finish().
  std::vector<Task> order;

  int group_count() const { return static_cast<int>(groups.size()); }
  int device_count() const { return machine.device_count(); }

  // A group that costs `forward`, `backward`, `update` seconds on the devices. Returns its number.
  int add_group(std::string name, std::vector<double> forward, std::vector<double> backward, std::vector<double> update = {});
  // A value that `from` makes and `to` read, and (where gradient_bytes > 0) the gradient of each reader back to `from`.
  void add_edge(const std::string& name, int from, const std::vector<int>& to, uint64_t bytes, uint64_t gradient_bytes);
  // A weight of `owner` that `users` read too: copies out when the step begins, gradients back to the owner's update.
  void add_shared_weight(const std::string& name, int owner, const std::vector<int>& users, uint64_t bytes);

  // Checks sizes and numbers and sets `order`. Priority rule: phases one after the other; within one, a task that the last
  // one made ready goes on (a branch is finished before the next begins, so its result travels while the next computes);
  // otherwise, and among several, the one with the longest way to the end at best speeds; ties by group number.
  // Errors: a cycle, a group that no device can run or that is forced where it cannot run, sizes that do not fit.
  Status finish();
};

}  // namespace eng
