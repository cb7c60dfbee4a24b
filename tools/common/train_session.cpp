// See train_session.h. What is looked at instead of training (--dry-run, --check-gradients, --profile) is in inspect_step.cpp.
#include "tools/common/train_session.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/io/file.h"
#include "engine/report/html_report.h"
#include "engine/report/metrics_log.h"
#include "engine/report/plan_json.h"
#include "engine/report/progress.h"
#include "engine/report/tensorboard.h"
#include "engine/train/interrupt.h"
#include "engine/train/trainer.h"
#include "importers/onnx/export.h"
#include "tools/common/agreement.h"
#include "tools/common/inspect_step.h"
#include "tools/common/measure_plan.h"
#include "tools/common/model_source.h"
#include "tools/common/prepare.h"
#include "tools/common/train_options.h"

namespace eng::tools {
namespace {

// Trainer events -> progress bar, metrics.jsonl, TensorBoard, log. The two files may be null.
class Reporter : public TrainObserver {
 public:
  Reporter(Progress& progress, const Console& console, bool every_step) : progress_(progress), console_(console), every_step_(every_step) {}
  void write_to(MetricsLog* log, TensorBoardLog* board) { log_ = log, board_ = board; }
  Status on_step(const StepRecord& record) override {
    progress_.step(record);
    return log_ && every_step_ ? log_->write(to_json_line(record)) : Status();
  }
  void on_evaluation(int64_t done, int64_t total) override { progress_.evaluating(done, total); }
  Status on_epoch(const EpochRecord& record) override {
    progress_.epoch(record);
    if (board_) {
      std::vector<std::pair<std::string, double>> scalars{{"lr", record.rate}, {"samples_per_second", record.samples_per_second}};
      for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
        if (const auto value = record.metric(name)) scalars.emplace_back(name, *value);
      }
      ENG_TRY(board_->write(record.step, scalars));
    }
    return log_ ? log_->write(to_json_line(record)) : Status();
  }
  void on_message(const std::string& text) override { console_.note(text); }

 private:
  Progress& progress_;
  const Console& console_;
  MetricsLog* log_ = nullptr;
  TensorBoardLog* board_ = nullptr;
  bool every_step_;
};

Result<FitOptions> fit_options(const TrainOptions& o) {
  FitOptions f;
  f.epochs = o.epochs;
  f.steps_per_epoch = o.steps_per_epoch;
  f.validation_steps = o.validation_steps;
  f.max_steps = o.steps;
  ENG_ASSIGN(f.schedule, parse_schedule(o.schedule));
  f.schedule.base = o.lr;
  f.schedule.decay = o.decay;
  f.schedule.warmup = o.warmup;
  f.monitor = {o.monitor, o.mode, o.early_stop ? o.patience : 0};
  f.accuracy = first_of(o.metrics, {"none"}).empty();
  f.save_best_only = o.save_best_only;
  ENG_TRY(parse_checkpoint_every(o.checkpoint_every, f.checkpoint_epochs, f.checkpoint_steps));
  f.keep = o.keep;
  f.unfreeze_at = o.unfreeze_at;
  f.folder = o.out;
  f.gradients_file = o.write_gradients;
  f.seed = static_cast<uint64_t>(o.seed);
  f.batch_size = o.batch;
  return f;
}

// The trained graph with what prediction needs to know as metadata.
Status write_model(const Prepared& p, Graph graph, const std::string& path) {
  if (!p.classes.empty()) graph.metadata[kClassesKey] = classes_to_json(p.classes);
  if (p.pictures) {
    for (auto& [key, value] : p.preprocessing.to_metadata()) graph.metadata[key] = value;
  }
  return export_onnx(graph, path);
}

Status evaluate_only(Prepared& p, Trainer& trainer, const Console& console) {
  const bool own = p.validation_pipeline != nullptr, first = p.fleet->ranks->rank() == 0;
  if (!own) console.note("no validation data: evaluating the training data");
  DataPipeline& data = own ? *p.validation_pipeline : *p.training_pipeline;
  ENG_ASSIGN(const Evaluation e, trainer.evaluate(data));
  nlohmann::ordered_json j;
  j["loss"] = e.loss;
  if (e.accuracy) j["accuracy"] = *e.accuracy;
  j["samples"] = e.samples;
  if (first) std::printf("%s\n", j.dump().c_str());
  return {};
}

// What stands on stdout at the end: where everything is, and the best epoch.
void print_result(const Trainer& trainer, const TrainOptions& o) {
  const Monitor& m = trainer.monitor();
  nlohmann::ordered_json j;
  j["epochs"] = trainer.state().epoch;
  j["steps"] = trainer.state().step;
  if (m.state().best) {
    j["best_epoch"] = m.state().best_epoch + 1;
    j["best_" + m.metric()] = *m.state().best;
  }
  if (!trainer.history().empty()) {
    const EpochRecord& last = trainer.history().back();
    j["loss"] = last.loss;
    if (last.val_loss) j["val_loss"] = *last.val_loss;
    if (last.val_accuracy) j["val_accuracy"] = *last.val_accuracy;
  }
  j["out"] = o.out;
  print_text(j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Status write_report(const Prepared& p, const Trainer& trainer, const TrainOptions& o, const std::string& options) {
  HtmlReport r;
  r.title = "Training of " + o.model;
  r.facts = {{"model", o.model}, {"training data", o.data + ": " + p.training->describe()}};
  if (p.validation) r.facts.emplace_back("validation data", (o.val.empty() ? "split off" : o.val) + ": " + p.validation->describe());
  r.facts.emplace_back("loss", p.plan.loss_note);
  r.facts.emplace_back("optimiser", cat(o.optimizer.kind, ", learning rate ", o.lr, ", schedule ", o.schedule));
  r.facts.emplace_back("trained", cat(p.plan.parameters.size(), " weight tensors; ", trainer.state().epoch, " epochs, ", trainer.state().step, " steps"));
  if (const auto& best = trainer.monitor().state(); best.best) r.facts.emplace_back("best", cat(trainer.monitor().metric(), " ", *best.best, " in epoch ", best.best_epoch + 1));
  r.classes = p.classes;
  r.confusion = trainer.confusion();
  r.options = options;
  ENG_ASSIGN(r.epochs, read_epochs(join_path(o.out, "metrics.jsonl")));
  return write_file_atomic(join_path(o.out, "report.html"), to_html(r));
}

// The first rank reads; the others, which may be on machines without the file, are given it.
Result<Checkpoint> load_checkpoint_on_first(Ranks& ranks, const std::string& path) {
  if (ranks.size() == 1) return load_checkpoint(path);
  Checkpoint checkpoint;
  if (ranks.rank() == 0) {
    ENG_ASSIGN(checkpoint, load_checkpoint(path));
  }
  ENG_TRY(share_checkpoint(ranks, checkpoint));
  return checkpoint;
}

// Puts what was found out in the place of auto and of what was left open, so that config.toml says what was done.
Status resolve(TrainOptions& o, const Prepared& p, FitOptions& fit) {
  ENG_ASSIGN(const Monitor monitor, Monitor::create(fit.monitor, p.validation != nullptr, fit.accuracy && p.plan.correct != kNoValue));
  o.monitor = fit.monitor.metric = monitor.metric();
  o.mode = fit.monitor.mode = monitor.maximise() ? "max" : "min";
  o.loss = name_of(p.plan.loss_kind);
  o.class_mode = name_of(p.class_mode);
  o.input.workers = worker_count(o.input);
  o.threads = p.fleet->threads;
  o.shards = p.fleet->shards;
  if (p.pictures) {
    o.input.size = cat(p.preprocessing.height, "x", p.preprocessing.width);
    o.input.color = p.preprocessing.channels == 1 ? "gray" : "rgb";
  }
  return {};
}

// A resumed run with other options is another run: one line for each that counts. `text`: config.toml as the checkpoint holds it.
void warn_of_changes(TrainOptions& o, const std::string& text, const Fleet& fleet, const Console& console) {
  TrainOptions was;
  const OptionTable before = train_table(was), now = train_table(o);
  if (!read_config(before, text, "config.toml", {}).ok()) return;
  const std::vector<std::string> free{"--epochs", "--steps", "--out", "--resume", "--verbose", "--metrics-every-step", "--config", "--checkpoint-every", "--keep", "--save-best-only",
                                      "--early-stop", "--patience", "--workers", "--cache", "--devices", "--parallel", "--placement", "--plan", "--costs", "--memory", "--device-timeout", "--backend-path", "--write-gradients"};
  for (const std::string& name : changed_options(now, before)) {
    const std::string old = value_text(before, name);
    if (!first_of(free, {name}).empty() || old == "\"auto\"" || (old == "0" && name == "--threads") || (old == "\"\"" && (name == "--size" || name == "--color"))) continue;
    console.warn(cat(name, " is ", value_text(now, name), " now, the run had ", old,
                     name == "--weights" ? ": without effect, the checkpoint's weights count" : ": what follows is not what the run would have given"));
  }
  if (was.devices != o.devices && fleet.replica_count() > 1 && fleet.by_collectives(0))
    console.warn(cat("--devices is \"", o.devices, "\" now, the run had \"", was.devices, "\": ", fleet.order_of_sums, ", which rounds otherwise for each number of devices (--deterministic does not)"));
}

// A later run that ended before its first checkpoint has left its config.toml beside the checkpoint of the run before it.
void warn_of_other_run(const std::string& folder, const Checkpoint& checkpoint, const Console& console) {
  const std::string config = join_path(folder, "config.toml");
  if (file_info(config).modified_ns <= file_info(join_path(folder, "last.ckpt")).modified_ns) return;
  const auto text = read_text_file(config, 16 << 20);
  if (text.ok() && *text != checkpoint.options)
    console.warn(config + " is newer than last.ckpt and differs from its options: the run that wrote it ended before its first checkpoint; what is continued is the run before it");
}

Status train(TrainOptions& o, const std::shared_ptr<Ranks>& ranks, const Console& console, Progress& progress) {
  ENG_ASSIGN(FitOptions fit, fit_options(o));
  const bool first = ranks->rank() == 0;  // the one that writes
  const std::string last = join_path(o.out, "last.ckpt");
  const bool looks_only = o.dry_run || o.check_gradients || o.profile;
  const bool writes = !looks_only && o.epochs > 0 && first;
  Checkpoint checkpoint;
  if (o.resume) {
    ENG_ASSIGN(checkpoint, load_checkpoint_on_first(*ranks, last));
  }
  if ((o.dry_run || o.check_gradients) && ranks->size() > 1) return usage_error("--dry-run and --check-gradients look at one rank's work: run them without mpirun");
  ENG_ASSIGN(const std::unique_ptr<Prepared> p, prepare_training(o, ranks, console, progress));
  ENG_TRY(check_agreement(o, *p));
  if (looks_only) return inspect_step(o, *p, console);

  ENG_TRY(resolve(o, *p, fit));
  fit.options_text = writes ? write_config(train_table(o), {"--resume", "--config", "--write-gradients"}) : "";
  if (!writes) fit.folder.clear();
  Reporter reporter(progress, console, o.metrics_every_step);
  ENG_ASSIGN(const std::unique_ptr<Trainer> trainer,
             Trainer::create(*p->steps, *p->training_pipeline, p->validation_pipeline.get(), fit, &reporter,
                             [&p](const Graph& graph, const std::string& path) { return write_model(*p, graph, path); }));
  if (o.resume) {
    ENG_TRY(trainer->resume(checkpoint, last));
    checkpoint.tensors.clear();
    if (first) warn_of_other_run(o.out, checkpoint, console);
    warn_of_changes(o, checkpoint.options, *p->fleet, console);
    console.note(cat("resumed from ", last, ": ", trainer->state().epoch, " epochs and ", trainer->state().step, " steps are done"));
  }
  FolderLock lock;  // until the end of the run
  std::unique_ptr<MetricsLog> log;
  std::unique_ptr<TensorBoardLog> board;
  if (writes) {  // nothing in the folder is touched before all of the above has been accepted
    if (!o.resume && file_info(last).kind == FileKind::kRegular) console.warn(o.out + " holds an earlier run, which this one replaces (--resume would continue it)");
    if (o.unfreeze_at > o.epochs) console.warn(cat("--unfreeze-at ", o.unfreeze_at, " lies behind the last epoch, ", o.epochs, ": nothing is unfrozen in this run"));
    ENG_TRY(make_folder(o.out));
    ENG_ASSIGN(lock, lock_folder(o.out));
    ENG_TRY(write_file_atomic(join_path(o.out, "config.toml"), fit.options_text));
    if (p->device_plan) ENG_TRY(write_file_atomic(join_path(o.out, "plan.json"), to_json(*p->device_plan)));
    ENG_TRY(write_file_atomic(join_path(o.out, "classes.json"), classes_to_json(p->classes) + "\n"));
    ENG_ASSIGN(log, MetricsLog::open(join_path(o.out, "metrics.jsonl"), o.resume ? checkpoint.state.step : -1));
    ENG_ASSIGN(board, TensorBoardLog::create(o.out, !o.resume));
    reporter.write_to(log.get(), board.get());
  }
  if (o.epochs == 0) return evaluate_only(*p, *trainer, console);
  catch_interrupts();
  ENG_ASSIGN(const FitEnd end, trainer->fit());
  if (!first) return end == FitEnd::kInterrupted ? Status(Code::kStopped, "with the other ranks") : Status();
  if (p->device_plan && writes && trainer->state().step > 0) {
    if (trainer->step_seconds() > 0) p->device_plan->measured_seconds = trainer->step_seconds();
    if (end == FitEnd::kDone && ranks->size() == 1) ENG_TRY(measure_plan(*p, o.lr, *p->device_plan));
    ENG_TRY(write_file_atomic(join_path(o.out, "plan.json"), to_json(*p->device_plan)));
  }
  ENG_TRY(write_report(*p, *trainer, o, fit.options_text));
  print_result(*trainer, o);
  if (end == FitEnd::kInterrupted) {
    const std::string by = interrupt_signal() ? cat("by signal ", interrupt_signal()) : "by a signal to another rank";
    return Status(Code::kStopped, cat(by, " after step ", trainer->state().step, "; ", last, " is saved, continue with --resume --out ", o.out));
  }
  return {};
}

}  // namespace

int run_engine_train(const std::vector<std::string>& words) {
  ignore_file_size_signal();
  TrainOptions options;
  const auto line = read_train_options(options, words);
  if (!line.ok()) return Console(1).finish(line.status());
  if (line->version) return std::fputs(version_text(train_table(options)).c_str(), stdout) < 0;
  if (line->help) {
    TrainOptions defaults;
    std::fputs(help_text(train_table(defaults)).c_str(), stdout);
    return 0;
  }
  if (options.precision != "fp32") return Console(1).finish(usage_error("--precision ", options.precision, " is not there yet; fp32 is"));
  const auto ranks = Ranks::start();
  if (!ranks.ok()) return Console(1).finish(ranks.status());
  const int verbosity = (*ranks)->rank() == 0 ? static_cast<int>(options.verbose) : 0;
  Progress progress(verbosity, options.epochs);
  const Console console(verbosity, &progress);
  Status status;
  if (!options.plan.empty() && options.devices == TrainOptions().devices && first_of(line->given, {"--devices"}).empty()) {  // the plan says which
    const auto plan = read_plan(options.plan);
    status = plan.status();
    for (size_t i = 0; plan.ok() && i < plan->machine.devices.size(); ++i) options.devices = i ? options.devices + "," + plan->machine.devices[i].name : plan->machine.devices[i].name;
  }
  if (status.ok()) status = train(options, *ranks, console, progress);
  if (!status.ok() && status.code() != Code::kStopped && (*ranks)->size() > 1) {
    progress.clear();
    // What all ranks find wrong is said by the first one that comes to it; the others hear that the run has ended.
    for (int i = 0; (*ranks)->rank() > 0 && i < 50 && (*ranks)->health().ok(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    (*ranks)->fail(status);
  }
  if ((*ranks)->rank() > 0 && status.code() == Code::kStopped) return 5;  // the first rank says it
  return console.finish(status);
}

}  // namespace eng::tools
