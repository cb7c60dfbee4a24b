// Which epoch was the best, and when to give up waiting for a better one: Keras's ModelCheckpoint and EarlyStopping.
// Watches one named metric of the epoch's record. Its state goes into checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/train/metrics.h"
#include "graph/base/status.h"

namespace eng {

struct MonitorOptions {
  std::string metric = "auto";  // auto: val_loss, or loss without validation data; val_acc and acc mean ..._accuracy
  std::string mode = "auto";    // min, max; auto: max for accuracies and areas, min for the rest
  int64_t patience = 0;         // epochs without improvement before stopping; 0: never stop
};

struct MonitorState {
  std::optional<double> best;
  int64_t best_epoch = -1;  // from 0
  int64_t waited = 0;       // epochs since
};

class Monitor {
 public:
  // `metrics` of a record there will be: refuses an unknown name with the list of those.
  static Result<Monitor> create(const MonitorOptions& options, bool has_validation, bool has_accuracy);

  const std::string& metric() const { return metric_; }
  bool maximise() const { return maximise_; }
  // Takes an epoch's record; true where it is the best so far. Not-a-number is never better.
  bool update(const EpochRecord& record);
  bool should_stop() const { return patience_ > 0 && state_.waited >= patience_; }
  const MonitorState& state() const { return state_; }
  void restore(const MonitorState& state) { state_ = state; }

 private:
  std::string metric_;
  bool maximise_ = false;
  int64_t patience_ = 0;
  MonitorState state_;
};

}  // namespace eng
