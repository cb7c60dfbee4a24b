// Sums that become an epoch's loss and accuracy, each sample counting once (a short last batch weighs less), and the record of an
// epoch or a step that the reports get. Field names are those of metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace eng {

struct MetricSums {
  double loss = 0;       // sum of batch loss * batch size
  int64_t correct = 0, samples = 0;

  void add(double batch_loss, int64_t batch_correct, int64_t batch_size) {
    loss += batch_loss * static_cast<double>(batch_size);
    correct += batch_correct;
    samples += batch_size;
  }
  double mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
  double accuracy() const { return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0; }
};

struct StepRecord {
  int64_t epoch = 0, step = 0;      // from 0; steps count over the whole run
  int64_t step_in_epoch = 0, steps_per_epoch = 0;
  int64_t batch = 0;                // samples in it
  double loss = 0, rate = 0, seconds = 0;
  std::optional<double> accuracy;   // of this batch
  MetricSums epoch_so_far;
};

struct EpochRecord {
  int64_t epoch = 0;                // from 0
  int64_t step = 0;                 // updates done in the whole run
  double loss = 0, rate = 0, seconds = 0, samples_per_second = 0;
  std::optional<double> accuracy, val_loss, val_accuracy;
  int64_t samples = 0, val_samples = 0;
  int64_t skipped_files = 0;        // unreadable ones that the training data went without in this epoch
  bool best = false;
  bool complete = true;             // false: --steps ended the run inside it

  std::optional<double> metric(const std::string& name) const {
    if (name == "loss") return loss;
    if (name == "accuracy") return accuracy;
    if (name == "val_loss") return val_loss;
    if (name == "val_accuracy") return val_accuracy;
    return std::nullopt;
  }
};

}  // namespace eng
