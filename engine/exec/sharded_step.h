// A training step (or an evaluation) of which each shard is computed by itself, on whatever device owns it, and the gradients are summed by the
// fixed tree of shard_tree.h. Runs on the devices of a Fleet:
//
//   shard programs   one a lane and number of rows: forward, loss, backward; results go into buckets (contiguous blocks of several gradients)
//   sums             a bucket is added up as soon as the last of its gradients is there, on streams (and, between ranks, messages) of their own,
//                    while the backward pass goes on
//   update program   one a replica: the optimiser on the sums, when all have come; every replica computes the same bits
//
// engine/train/model_steps.h is the user.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/exec/fleet.h"
#include "engine/exec/program.h"
#include "graph/surgery/training_step.h"

namespace eng {

// One of Step::inputs, or behind them Step::labels: `data` holds the batch's rows, `row_bytes` each.
struct ShardFeed {
  const std::byte* data = nullptr;
  uint64_t row_bytes = 0;
};

struct StepOutcome {
  double loss = 0;        // mean over the batch
  int64_t correct = 0;    // 0 where the step does not count
  bool stop = false;      // some rank wants to end after this step
};

struct ShardedOptions {
  bool training = true;             // false: an evaluation, nothing is summed or updated
  OptimizerSpec optimizer;
  uint64_t bucket_bytes = 8u << 20;
  bool keep_predictions = false;    // evaluation: Step::predictions can be fetched
  std::function<void(Graph&)> adopt;  // gives states of the update graph their content before it is compiled; may be empty
};

class ShardedStep {
 public:
  // `make_step(rows)` gives the step of that many rows (StepOptions::sharded for training), each node with its place;
  // its value ids need not be those of other row counts.
  // Nothing is compiled yet. `fleet` must outlive this.
  using MakeStep = std::function<Result<Step>(int64_t rows)>;
  static Result<std::unique_ptr<ShardedStep>> create(Fleet& fleet, MakeStep make_step, const ShardedOptions& options);
  ~ShardedStep();
  ShardedStep(const ShardedStep&) = delete;
  ShardedStep& operator=(const ShardedStep&) = delete;

  // Compiles what a batch of that many rows needs of this rank.
  Status prepare(int64_t batch_rows);
  // A whole step on a batch, waiting for its end. `stop`: this rank wants to end. An error of one rank is an error here only; the others see it
  // as that rank's failure.
  Status run(int64_t batch_rows, std::span<const ShardFeed> feeds, double learning_rate, bool stop, StepOutcome& outcome);

  // Of the last run, training: the gradient of each of Step::parameters, summed over shards.
  Result<std::vector<Tensor>> gradients();
  // Of the last run, evaluation with keep_predictions: this rank's rows, in the order of the batch.
  Result<std::vector<Tensor>> predictions();
  const Step& step() const;                    // of some row count that occurs; prepare() first
  // Bytes on a device: states, the programs' blocks, buckets.
  uint64_t memory(size_t replica, size_t place) const;

 private:
  Status run_whole(int64_t batch_rows, std::span<const ShardFeed> feeds, double learning_rate, bool stop, StepOutcome& outcome);
  struct Impl;
  explicit ShardedStep(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace eng
