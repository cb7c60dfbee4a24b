// The definition of a placement's step time and memory. Deterministic:
//  - every device runs its tasks one after the other in Problem::order, each when its inputs are there;
//  - a value crosses to another device once, when it is made; transfers of one directed link follow each other in the order
//    in which their values are made, each takes latency + bytes / bandwidth, and computation goes on meanwhile;
//  - a device's all-reduce begins when its backward tasks are over, its updates wait for it;
//  - with several shards forward and backward are repeated: makespan = that of one shard + (shards - 1) * backward_end;
//  - memory: resident bytes; a value is alive on the device that makes it, and on each that receives it, from the task that
//    makes it to its last reader there, in the global order. The peak is that of what is alive, not a sum of sizes.
// One run takes O(groups + flows) and allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/partition/problem.h"
#include "graph/partition/plan.h"

namespace eng {

using Placement = std::vector<int>;  // device per group

struct Score {
  double makespan = 0;       // infinite where a device cannot run its group
  double backward_end = 0;   // of one shard
  double all_reduce = 0;     // the longest one
  uint64_t excess = 0;       // bytes over the limits, summed over devices
  int crossings = 0;         // transfers

  bool fits() const { return excess == 0 && makespan != kCannotRun; }
};

// Whether a is the better one: fits first, then less excess, shorter, fewer crossings. Times that differ by less than
// 1e-12 of themselves are equal.
bool better(const Score& a, const Score& b);
// The same, and then the placement with lower device numbers in front.
bool better(const Score& a, const Placement& pa, const Score& b, const Placement& pb);

struct TimelineTransfer {
  int flow = 0, from = 0, to = 0;
  Span span;
};

struct Timeline {
  Score score;
  std::vector<Span> tasks;                  // kind * groups + group
  std::vector<TimelineTransfer> transfers;  // by start, then link
  std::vector<PlanMemory> memory;           // per device
  const Span& task(int group, TaskKind kind) const;
  int groups = 0;
};

class Simulator {
 public:
  // The problem is finished and outlives this. Not for several threads at once.
  explicit Simulator(const Problem& problem);

  Score run(std::span<const int> placement) { return run<false>(placement, nullptr); }
  // What stands for "not placed yet" in run(): such a group takes its best device's time and no place, no memory and no
  // transfer, so the score is a lower bound (time, excess, crossings) of all placements that complete this one.
  int unplaced() const { return devices_; }
  Timeline timeline(std::span<const int> placement);
  // Most bytes alive at once, of the last run, per device.
  std::span<const uint64_t> peaks() const { return {peak_.data(), static_cast<size_t>(devices_)}; }
  int64_t runs() const { return runs_; }
  const Problem& problem() const { return problem_; }

 private:
  struct FlatTask {
    int32_t group, first_flow, last_flow;
    int32_t kind;
    uint64_t take, scratch;  // kept from here on; alive only now
  };
  struct FlatFlow {
    uint64_t bytes;
    int32_t first_reader, last_reader;
  };
  template <bool kRecord>
  Score run(std::span<const int> placement, Timeline* record);
  template <bool kRecord>
  void send(int flow, int device, double made, int maker, std::span<const int> placement, Timeline* record, Score& score);

  const Problem& problem_;
  int devices_;
  std::vector<FlatTask> tasks_;    // in global order
  std::vector<FlatFlow> flows_;    // by making task; those that are there at the start first
  std::vector<int32_t> flow_ids_;  // in Problem::flows
  int start_flows_ = 0;
  std::vector<int32_t> readers_;   // positions in tasks_, ascending for each flow
  std::vector<double> cost_;       // position * (devices + 1) + device; the last is the least of those that are allowed
  std::vector<double> ready_;      // per position
  std::vector<uint64_t> release_;  // per position: bytes that die after it
  std::vector<double> free_, link_free_, arrival_, reduce_end_;
  std::vector<int32_t> last_reader_;
  std::vector<uint64_t> live_, peak_, gradient_;
  int64_t runs_ = 0;
};

}  // namespace eng
