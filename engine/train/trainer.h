// The training loop: epochs of steps, validation, learning-rate schedule, best and last checkpoint, early stopping, resuming, and a
// clean end on Ctrl-C. Loading the next batches goes on in the pipeline's threads while a step computes.
//
// An epoch is one pass over the data, or steps_per_epoch batches, in which case passes run on from epoch to epoch. Everything that decides
// what happens next is in TrainingState, so a resumed run gives the bits of an uninterrupted one, in mid-epoch too.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/pipeline.h"
#include "engine/train/checkpoint.h"
#include "engine/train/metrics.h"
#include "engine/train/model_steps.h"
#include "engine/train/monitor.h"
#include "engine/train/schedule.h"

namespace eng {

struct FitOptions {
  int64_t epochs = 1;
  int64_t steps_per_epoch = 0;    // 0: one pass over the data
  int64_t validation_steps = 0;   // batches; 0: all validation data
  int64_t max_steps = 0;          // updates in the whole run, resumed ones included; 0: no limit
  Schedule schedule;              // `total` is set by the trainer
  MonitorOptions monitor;
  bool accuracy = true;           // a metric beside the loss, where the loss has one
  bool save_best_only = false;    // numbered checkpoints (keep) only for epochs that are the best so far
  int64_t checkpoint_epochs = 1;  // last.ckpt every so many epochs; 0: only at the end
  int64_t checkpoint_steps = 0;   // and every so many updates; 0: not
  int64_t keep = 0;               // numbered checkpoints epoch-0001.ckpt, ... to keep beside last.ckpt and best.ckpt
  int64_t unfreeze_at = 0;        // from the start of this epoch (counted from 1) everything is trained; 0: never
  std::string folder;             // of checkpoints and models; "": nothing is written
  std::string options_text;       // stored in checkpoints
  std::string gradients_file;     // the first step's gradients, as safetensors; "": not
  uint64_t seed = 0;
  int64_t batch_size = 32;        // of the training pipeline
};

// Told what happens. Every function may be left as it is; an error ends the run.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual Status on_step(const StepRecord&) { return {}; }
  virtual void on_evaluation(int64_t /*done*/, int64_t /*total*/) {}
  virtual Status on_epoch(const EpochRecord&) { return {}; }
  virtual void on_message(const std::string&) {}
};

// Loss and accuracy over a data set.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy;
  int64_t samples = 0;
  std::vector<std::vector<int64_t>> confusion;  // [label][prediction], for 2 to kMaxConfusion classes; else empty
};
inline constexpr int64_t kMaxConfusion = 100;

// "'NAME' [SHAPE] holds nan at 3" for the first tensor with a value that is no finite number; "" where there is none.
std::string not_finite(const std::map<std::string, Tensor>& tensors);

enum class FitEnd : uint8_t { kDone, kNothingToDo, kStoppedEarly, kInterrupted };

class Trainer {
 public:
  // Everything given must outlive the trainer; `validation` and `observer` may be null. `write_model` exports the trained model to a
  // path (best.onnx, last.onnx); may be empty.
  using WriteModel = std::function<Status(const Graph& model, const std::string& path)>;
  static Result<std::unique_ptr<Trainer>> create(ModelSteps& steps, DataPipeline& training, DataPipeline* validation, FitOptions options,
                                                 TrainObserver* observer, WriteModel write_model);

  // Continues from a checkpoint; before fit(). The path is for messages.
  Status resume(const Checkpoint& checkpoint, const std::string& path);
  Result<FitEnd> fit();
  // Over at most `max_batches` batches (0: all).
  Result<Evaluation> evaluate(DataPipeline& data, int64_t max_batches = 0);

  const TrainingState& state() const { return state_; }
  // Of the quickest full batch in this process; 0 before there was one.
  double step_seconds() const { return step_seconds_; }
  const Monitor& monitor() const { return monitor_; }
  const std::vector<EpochRecord>& history() const { return history_; }  // of this process
  // Of the best epoch's validation, if that was in this process.
  const std::vector<std::vector<int64_t>>& confusion() const { return confusion_; }

 private:
  Trainer(ModelSteps& steps, DataPipeline& training, DataPipeline* validation, FitOptions options, TrainObserver* observer,
          WriteModel write_model, Monitor monitor);
  int64_t steps_per_epoch() const;
  int64_t a_batch() const { return std::min(options_.batch_size, training_.size()); }  // a size that occurs
  bool out_of_steps() const { return options_.max_steps > 0 && state_.step >= options_.max_steps; }
  Result<bool> next_batch();            // false: a pass has ended
  Status run_step();                    // on batch_
  Status check_batch(const std::string& what, const std::string& saved) const;
  Status no_finite_loss(double loss);   // the error
  Status write_gradients();
  Status count_confusion(const Batch& batch, std::vector<std::vector<int64_t>>& confusion);
  Status add_up(std::vector<std::vector<int64_t>>& confusion);
  bool stopping() const;
  Status run_epoch();                   // until it is complete, out of steps, or interrupted
  Status finish_epoch(bool complete);   // validation, record, monitor, files
  Status maybe_unfreeze();
  Status check_finite(const std::map<std::string, Tensor>& tensors, const std::string& file);  // before `file` is written
  Status save(const std::string& name);
  Status save_copy(const std::string& name);  // of last.ckpt
  Status save_numbered();
  Status write_model(const std::string& name);
  void say(const std::string& text) { if (observer_) observer_->on_message(text); }

  ModelSteps& steps_;
  DataPipeline& training_;
  DataPipeline* validation_;
  FitOptions options_;
  TrainObserver* observer_;
  WriteModel write_model_;
  Monitor monitor_;
  TrainingState state_;
  std::vector<EpochRecord> history_;
  std::vector<std::vector<int64_t>> confusion_;
  Batch batch_, validation_batch_;
  bool pass_open_ = false, epoch_done_ = false, has_accuracy_ = false, stop_ = false;
  LossKind loss_kind_ = LossKind::kAuto;
  int64_t classes_ = 0;
  int64_t saved_step_ = -1;   // of last.ckpt
  int64_t finite_step_ = -1;  // whose weights are known to be finite
  double epoch_seconds_ = 0, rate_ = 0, step_seconds_ = 0;
  int64_t epoch_samples_ = 0;  // in this process
};

}  // namespace eng
