// Sums buckets over shards in the order of shard_tree.h, wherever the shards are:
//   both parts on one lane       added on the lane's own stream behind the shard's program; the second part's memory is free again
//   on two streams of a rank     added on a stream for sums that waits for both parts' events: it runs beside the backward pass
//   on two ranks                 one sends it, the other adds it, who does which changes from bucket to bucket; the total goes back to all ranks
// The caller's thread drives the messages (ShardSums::finish) while the device streams compute.
// Where the fleet's devices have collectives (Fleet::by_collectives) each replica's parts are added up there, and an all-reduce on the streams for sums
// makes the total on all replicas of all ranks, in the backend's order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/exec/bucket.h"
#include "engine/exec/fleet.h"
#include "engine/exec/program.h"
#include "engine/exec/shard_tree.h"

namespace eng {

// Memory and kernels for buckets, shared by the sums of all batch sizes: one set at a time is in use.
class SumPool {
 public:
  SumPool(Fleet& fleet, const std::vector<Bucket>& buckets) : fleet_(fleet), buckets_(buckets) {}
  Result<void*> bucket_memory(size_t replica, size_t lane, size_t slot, size_t bucket);
  // Adds on the stream of a lane, or (lane kSums) of the replica's stream for sums.
  Result<BucketAdder*> adder(size_t replica, size_t lane, size_t bucket);
  static constexpr size_t kSums = static_cast<size_t>(-1);
  Result<void*> host_memory(size_t which, size_t bucket);  // pinned, for messages and between devices
  Result<void*> staging(size_t replica, size_t bucket);    // on the replica's device, for what comes from elsewhere
  uint64_t bytes(size_t replica, int32_t place) const;

 private:
  const std::shared_ptr<Device>& device(size_t replica, size_t lane, size_t bucket) const;
  Fleet& fleet_;
  const std::vector<Bucket>& buckets_;
  std::map<std::vector<size_t>, DeviceBuffer> memory_;   // {replica, lane, slot, bucket}
  std::map<std::vector<size_t>, std::unique_ptr<BucketAdder>> adders_;
  std::map<std::vector<size_t>, HostBuffer> host_;
};

struct ShardPart {
  int64_t shard;
  size_t replica, lane;
};

class ShardSums {
 public:
  // `parts`: this rank's shards that have rows, in order. `at_once`: the shards of a lane are under way together (sync points), so each needs memory of
  // its own; else a shard takes over that of one whose part has been added. The pool and the fleet must outlive this.
  static Result<std::unique_ptr<ShardSums>> create(Fleet& fleet, SumPool& pool, const std::vector<Bucket>& buckets, const ShardTree& tree, const std::vector<ShardPart>& parts,
                                                   bool at_once);
  ~ShardSums();

  // Where a shard's program is to put a bucket.
  void* memory_of(int64_t shard, size_t bucket) const;
  Status begin();
  // The shard's program has been enqueued; its marks are the buckets.
  Status shard_done(int64_t shard, Program& program);
  // Enqueues all that is left and moves the messages. On return each bucket's total is there, or will be for who waits as result() does.
  Status finish();
  // Waits until the all-reduces that finish() enqueued are done, or says which device or rank keeps them from it. Nothing to do where there are none.
  Status settle();
  // After an error: devices do not wait for one another any more. No further step can be made.
  void abort();
  // Where a replica finds a bucket's total; the first lane's stream of the bucket's place waits for it. After finish().
  Result<void*> result(size_t replica, size_t bucket);

 private:
  struct Impl;
  explicit ShardSums(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The same sum of small host arrays, at once, over the shards that have rows of a batch: `part_of(shard)` gives those of this rank. The ranks that have
// rows exchange their parts and all get the result; the others have no share in it. `tag` tells sums of one step apart.
Result<std::vector<std::byte>> sum_over_shards(Fleet& fleet, const ShardTree& tree, int64_t batch_rows, DType dtype, uint64_t bytes, int tag,
                                               const std::function<const std::byte*(int64_t)>& part_of);

}  // namespace eng
