// From a Dataset to batches: shuffles by (seed, epoch), loads samples in worker threads ahead of the step, and delivers batches in
// order. What arrives depends on seed, epoch and batch size only, never on the number of workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/data/dataset.h"
#include "graph/base/status.h"
#include "graph/base/tensor.h"

namespace eng {

struct Batch {
  std::vector<Tensor> inputs;  // in the dataset's order, [size] + sample shape
  Tensor labels;               // undefined where there are none
  int64_t size = 0;            // the last batch of an epoch may be short
};

struct PipelineOptions {
  int64_t batch_size = 32;
  bool shuffle = true;
  uint64_t seed = 0;
  bool augment = false;         // training: random changes on
  int64_t workers = 1;          // threads; 0: next() does the work itself
  int64_t prefetch = 2;         // batches in the making ahead of the one handed out
  // Which rows of a batch of that many rows are loaded ([first, last)); the others stay zero. Empty: all. For runs of several ranks, each of
  // which needs only its shards' rows.
  std::function<std::pair<int64_t, int64_t>(int64_t rows)> part;
  bool skip_failed_samples = true;  // a file that breaks after the first check is left out of its batch; false: it ends the run
};

// Not thread-safe: begin_epoch and next are for one thread. The destructor stops the workers.
class DataPipeline {
 public:
  static Result<std::unique_ptr<DataPipeline>> create(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options);
  ~DataPipeline();

  // Starts an epoch (from 0) at a batch (for resuming inside one). May be called at any time; what was under way is dropped.
  void begin_epoch(int64_t epoch, int64_t first_batch = 0);
  // The next batch, or false at the end of the epoch. `batch` goes back into the pipeline as a buffer and another one comes out of
  // it: so keep passing the same variable, and clone() what must outlive the call. After an error only begin_epoch or destruction.
  Result<bool> next(Batch& batch);

  int64_t size() const;                 // samples an epoch
  int64_t batches_per_epoch() const;    // ceil(size / batch size)
  const Dataset& dataset() const;
  // Sample numbers of an epoch in the order in which they come.
  std::vector<int64_t> order(int64_t epoch) const;
  // All files left out so far, each once: those of the dataset's check and those that failed in an epoch.
  std::vector<SkippedFile> skipped() const;
  // How many this epoch (since begin_epoch) went without.
  int64_t skipped_in_epoch() const;

 private:
  struct Impl;
  explicit DataPipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace eng
