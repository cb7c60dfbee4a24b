// See trainer.h. Files are in trainer_files.cpp.
#include "engine/train/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "engine/train/interrupt.h"

namespace eng {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t highest(const Tensor& t, int64_t row, int64_t n) {
  int64_t best = 0;
  for (int64_t c = 1; c < n; ++c) {
    if (t.at(row * n + c) > t.at(row * n + best)) best = c;
  }
  return best;
}

}  // namespace

Trainer::Trainer(ModelSteps& steps, DataPipeline& training, DataPipeline* validation, FitOptions options, TrainObserver* observer,
                 WriteModel write_model, Monitor monitor)
    : steps_(steps), training_(training), validation_(validation), options_(std::move(options)), observer_(observer),
      write_model_(std::move(write_model)), monitor_(std::move(monitor)) {}

Result<std::unique_ptr<Trainer>> Trainer::create(ModelSteps& steps, DataPipeline& training, DataPipeline* validation, FitOptions options,
                                                 TrainObserver* observer, WriteModel write_model) {
  if (training.size() == 0) return invalid("the training data hold no sample");
  ENG_ASSIGN(const Step step, steps.plan(std::min(options.batch_size, training.size())));
  const bool has_accuracy = options.accuracy && step.correct != kNoValue;
  steps.fetch_gradients(!options.gradients_file.empty());
  ENG_ASSIGN(Monitor monitor, Monitor::create(options.monitor, validation != nullptr, has_accuracy));
  std::unique_ptr<Trainer> t(new Trainer(steps, training, validation, std::move(options), observer, std::move(write_model), std::move(monitor)));
  t->has_accuracy_ = has_accuracy;
  t->loss_kind_ = step.loss_kind;
  t->classes_ = step.classes;
  FitOptions& o = t->options_;
  o.schedule.total = o.epochs * t->steps_per_epoch();
  if (o.max_steps > 0) o.schedule.total = std::min(o.schedule.total, o.max_steps);
  t->state_.seed = o.seed;
  t->state_.monitor_metric = t->monitor_.metric();
  t->state_.optimizer = steps.options().optimizer.kind;
  t->state_.loss = name_of(step.loss_kind);
  t->state_.schedule = to_string(o.schedule);
  t->state_.batch_size = o.batch_size;
  t->state_.samples = training.size();
  return t;
}

// Adds a batch's predictions, those of this rank, to the confusion matrix. Labels are class numbers or one-hot rows.
Status Trainer::count_confusion(const Batch& batch, std::vector<std::vector<int64_t>>& confusion) {
  if (loss_kind_ == LossKind::kMeanSquaredError || classes_ < 2 || classes_ > kMaxConfusion) return {};
  int64_t row = 0;
  ENG_ASSIGN(const std::vector<Tensor> outputs, steps_.predictions(batch.size, row));
  const int64_t label_columns = batch.labels.element_count() / batch.size;
  confusion.resize(static_cast<size_t>(classes_), std::vector<int64_t>(static_cast<size_t>(classes_)));
  for (const Tensor& output : outputs) {
    const int64_t rows = output.shape().empty() ? 0 : output.shape()[0], columns = rows ? output.element_count() / rows : 0;
    if (columns != classes_ || label_columns == 0) {  // one output for two classes: whether 0 or 0.5 parts them is not known here
      confusion.clear();
      return {};
    }
    for (int64_t r = 0; r < rows; ++r, ++row) {
      const int64_t label = label_columns > 1 ? highest(batch.labels, row, label_columns) : static_cast<int64_t>(batch.labels.at(row) + 0.5);
      const int64_t said = highest(output, r, columns);
      if (label >= 0 && label < classes_ && said < classes_) ++confusion[static_cast<size_t>(label)][static_cast<size_t>(said)];
    }
  }
  return {};
}

// What the ranks counted, each of its own rows, added up.
Status Trainer::add_up(std::vector<std::vector<int64_t>>& confusion) {
  Ranks& ranks = *steps_.fleet().ranks;
  if (ranks.size() == 1 || loss_kind_ == LossKind::kMeanSquaredError || classes_ < 2 || classes_ > kMaxConfusion) return {};
  const auto n = static_cast<size_t>(classes_);
  std::vector<int64_t> mine(n * n), all(n * n * static_cast<size_t>(ranks.size()));
  for (size_t r = 0; r < confusion.size(); ++r) std::copy(confusion[r].begin(), confusion[r].end(), mine.begin() + static_cast<std::ptrdiff_t>(r * n));
  ENG_TRY(ranks.gather_all(mine.data(), mine.size() * sizeof(int64_t), all.data()));
  int64_t counted = 0;
  for (int64_t c : all) counted += c;
  confusion.assign(counted ? n : 0, std::vector<int64_t>(n));
  for (size_t i = 0; counted && i < all.size(); ++i) confusion[i / n % n][i % n] += all[i];
  return {};
}

int64_t Trainer::steps_per_epoch() const { return options_.steps_per_epoch > 0 ? options_.steps_per_epoch : training_.batches_per_epoch(); }

Result<FitEnd> Trainer::fit() {
  if (state_.epoch >= options_.epochs || out_of_steps()) {
    say(cat("nothing to train: ", state_.epoch, " of ", options_.epochs, " epochs and ", state_.step, " steps are done",
            options_.max_steps > 0 ? cat(" (--steps ", options_.max_steps, ")") : "", out_of_steps() ? state_.epoch >= options_.epochs ? "; ask for more with --steps and --epochs" : "; ask for more with --steps"
                           : "; ask for more with --epochs"));
    return FitEnd::kNothingToDo;
  }
  bool stopped_early = false;
  while (state_.epoch < options_.epochs && !out_of_steps() && !stopped_early && !stopping()) {
    ENG_TRY(maybe_unfreeze());
    ENG_TRY(run_epoch());
    if (stopping()) break;
    const Status finished = finish_epoch(epoch_done_);
    if (finished.code() == Code::kStopped) break;
    ENG_TRY(finished);
    stopped_early = monitor_.should_stop();
  }
  if (stopped_early) {
    say(cat("stopped early: ", monitor_.metric(), " has not improved for ", monitor_.state().waited, " epochs; best was ", *monitor_.state().best,
            " in epoch ", monitor_.state().best_epoch + 1));
  }
  const bool interrupted = stopping();
  if (saved_step_ != state_.step || interrupted) ENG_TRY(save("last.ckpt"));
  ENG_TRY(write_model("last.onnx"));
  if (interrupted) return FitEnd::kInterrupted;
  return stopped_early ? FitEnd::kStoppedEarly : FitEnd::kDone;
}

// Ranks end after the same step: what counts is what they agreed on with its end, not when the signal reached this one.
bool Trainer::stopping() const { return stop_ || (steps_.fleet().ranks->size() == 1 && interrupt_signal() != 0); }

Status Trainer::maybe_unfreeze() {
  if (options_.unfreeze_at <= 0 || state_.epoch + 1 < options_.unfreeze_at || !steps_.any_frozen()) return {};
  say(cat("epoch ", state_.epoch + 1, ": all parameters are trained from here on (--unfreeze-at ", options_.unfreeze_at, ")"));
  steps_.unfreeze();
  state_.unfrozen = true;
  return {};
}

Result<bool> Trainer::next_batch() {
  if (!pass_open_) {
    training_.begin_epoch(state_.pass, state_.batch);
    pass_open_ = true;
  }
  ENG_ASSIGN(bool more, training_.next(batch_));
  if (more) ++state_.batch;
  if (!more || state_.batch >= training_.batches_per_epoch()) {
    ++state_.pass;
    state_.batch = 0;
    pass_open_ = false;
  }
  return more;
}

// This rank's rows of the last batch, whose loss is no number.
Status Trainer::check_batch(const std::string& what, const std::string& saved) const {
  for (size_t i = 0; i < batch_.inputs.size(); ++i) {
    const std::string found = not_finite({{steps_.inputs()[i].name, batch_.inputs[i]}});
    if (!found.empty()) return invalid(what, ": the input ", found, " of the batch; the data must be finite numbers", saved);
  }
  const std::string found = batch_.labels.defined() ? not_finite({{"labels", batch_.labels}}) : "";
  return found.empty() ? Status() : invalid(what, ": the tensor of ", found, " of the batch; the labels must be finite numbers", saved);
}

// The last batch's loss is no number: says whether it was so from the start (weights or inputs) or has become so.
Status Trainer::no_finite_loss(double loss) {
  const std::string value = std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf", at = cat(" at step ", state_.step + 1);
  const std::string saved = options_.folder.empty() || saved_step_ < 0 ? "" : cat("; the last good state, after step ", saved_step_, ", is in ", options_.folder, "/last.ckpt");
  const Status own = check_batch(cat("the loss is ", value, at), saved);
  Ranks& ranks = *steps_.fleet().ranks;
  const char mine = !own.ok();
  std::vector<char> all(static_cast<size_t>(ranks.size()));
  ENG_TRY(ranks.gather_all(&mine, 1, all.data()));
  if (!own.ok()) return own;
  if (std::find(all.begin(), all.end(), 1) != all.end()) ENG_TRY(ranks.barrier());  // that rank says so and ends the run
  for (ValueId id = 0; id < steps_.model().value_count(); ++id) {
    const Value& v = steps_.model().value(id);
    if (!v.data || v.role == Role::kConstant) continue;
    if (const std::string found = not_finite({{v.name, *v.data}}); !found.empty()) {
      return invalid("the loss is ", value, at, ": the weight ", found, " before the first step: it was no finite number in the model's file, or in the one of --weights");
    }
  }
  return invalid("the loss became ", value, at, " (epoch ", state_.epoch + 1, ", learning rate ", rate_, "): training has diverged", saved,
                 "; try a smaller --lr, --clip-norm 1 or --warmup, and check that the inputs are scaled (--rescale)");
}

Status Trainer::run_step() {
  const auto start = Clock::now();
  steps_.fleet().ranks->set_step(state_.step + 1);
  rate_ = options_.schedule.rate(state_.step, state_.epoch);
  StepOutcome outcome;
  const Status trained = steps_.train(batch_, rate_, interrupt_signal() != 0, outcome);
  if (!trained.ok()) return steps_.fleet().ranks->size() > 1 ? trained : trained.in(cat("step ", state_.step + 1));  // ranks name the step themselves
  const double loss = outcome.loss;
  const int64_t correct = outcome.correct;
  stop_ |= outcome.stop;
  if (!std::isfinite(loss)) return no_finite_loss(loss);
  if (state_.step == 0 && !options_.gradients_file.empty()) ENG_TRY(write_gradients());
  ++state_.step;
  ++state_.step_in_epoch;
  epoch_samples_ += batch_.size;
  state_.sums.add(loss, correct, batch_.size);
  const double seconds = seconds_since(start);
  state_.seconds += seconds;
  if (batch_.size == options_.batch_size && (step_seconds_ == 0 || seconds < step_seconds_)) step_seconds_ = seconds;
  if (!observer_) return {};
  StepRecord record;
  record.epoch = state_.epoch;
  record.step = state_.step;
  record.step_in_epoch = state_.step_in_epoch;
  record.steps_per_epoch = steps_per_epoch();
  record.batch = batch_.size;
  record.loss = loss;
  record.rate = rate_;
  record.seconds = seconds;
  if (has_accuracy_) record.accuracy = static_cast<double>(correct) / static_cast<double>(batch_.size);
  record.epoch_so_far = state_.sums;
  return observer_->on_step(record);
}

Status Trainer::run_epoch() {
  const auto start = Clock::now();
  epoch_samples_ = 0;
  epoch_done_ = false;
  while (true) {
    epoch_done_ = state_.step_in_epoch >= steps_per_epoch();
    if (epoch_done_ || out_of_steps() || stopping()) break;
    ENG_ASSIGN(const bool more, next_batch());
    if (!more && options_.steps_per_epoch == 0) {  // batches whose files all broke since the check
      epoch_done_ = true;
      break;
    }
    if (!more || batch_.size == 0) continue;
    ENG_TRY(run_step());
    if (options_.checkpoint_steps > 0 && state_.step % options_.checkpoint_steps == 0) ENG_TRY(save("last.ckpt"));
  }
  epoch_seconds_ = seconds_since(start);
  return {};
}

Result<Evaluation> Trainer::evaluate(DataPipeline& data, int64_t max_batches) {
  const int64_t total = max_batches > 0 ? std::min(max_batches, data.batches_per_epoch()) : data.batches_per_epoch();
  Evaluation e;
  MetricSums sums;
  data.begin_epoch(0);
  for (int64_t done = 0; done < total; ++done) {
    if (stopping()) return Status(Code::kStopped, "stopped by a signal during the evaluation");
    if (observer_) observer_->on_evaluation(done, total);
    ENG_ASSIGN(const bool more, data.next(validation_batch_));
    if (!more) break;
    if (validation_batch_.size == 0) continue;
    StepOutcome outcome;
    ENG_TRY(steps_.evaluate(validation_batch_, interrupt_signal() != 0, outcome).in("evaluation"));
    stop_ |= outcome.stop;
    sums.add(outcome.loss, outcome.correct, validation_batch_.size);
    ENG_TRY(count_confusion(validation_batch_, e.confusion));
  }
  ENG_TRY(add_up(e.confusion));
  if (observer_) observer_->on_evaluation(total, total);
  e.samples = sums.samples;
  e.loss = sums.samples ? sums.mean_loss() : std::numeric_limits<double>::quiet_NaN();
  if (has_accuracy_ && sums.samples) e.accuracy = sums.accuracy();
  return e;
}

Status Trainer::finish_epoch(bool complete) {
  const auto start = Clock::now();
  EpochRecord record;
  record.epoch = state_.epoch;
  record.step = state_.step;
  record.loss = state_.sums.mean_loss();
  if (has_accuracy_) record.accuracy = state_.sums.accuracy();
  record.samples = state_.sums.samples;
  record.rate = rate_ > 0 ? rate_ : options_.schedule.rate(std::max<int64_t>(state_.step - 1, 0), state_.epoch);
  record.samples_per_second = epoch_seconds_ > 0 ? static_cast<double>(epoch_samples_) / epoch_seconds_ : 0;
  record.skipped_files = training_.skipped_in_epoch();
  record.complete = complete;
  // An incomplete epoch (--steps) is saved before it is judged: resuming it must not see a trace of that.
  if (!complete) ENG_TRY(save("last.ckpt"));
  Evaluation e;
  if (validation_) {
    ENG_ASSIGN(e, evaluate(*validation_, options_.validation_steps));
    record.val_loss = e.loss;
    record.val_accuracy = e.accuracy;
    record.val_samples = e.samples;
  }
  record.best = monitor_.update(record);
  if (record.best) confusion_ = std::move(e.confusion);
  record.seconds = epoch_seconds_ + seconds_since(start);
  if (complete) {
    ++state_.epoch;
    state_.step_in_epoch = 0;
    state_.sums = {};
    if (state_.epoch >= options_.epochs || out_of_steps() || monitor_.should_stop() || record.best ||
        (options_.checkpoint_epochs > 0 && state_.epoch % options_.checkpoint_epochs == 0)) {
      ENG_TRY(save("last.ckpt"));
    }
  }
  if (record.best) {
    ENG_TRY(save_copy("best.ckpt"));
    ENG_TRY(write_model("best.onnx"));
  }
  if (complete && options_.keep > 0 && (record.best || !options_.save_best_only)) ENG_TRY(save_numbered());
  history_.push_back(record);
  return observer_ ? observer_->on_epoch(record) : Status();
}

}  // namespace eng
