// See train_options.h. One row an option, in the order of --help and config.toml.
#include "tools/common/train_options.h"

#include <algorithm>
#include <cstdlib>

#include "engine/io/file.h"

namespace eng::tools {
namespace {

constexpr int64_t kLargestConfig = 1 << 20;

OptionGroup run_rows(TrainOptions& o) {
  return {"Run",
          {
              {.name = "model", .target = &o.model, .value = "MODEL.onnx", .help = "the network, an inference ONNX file"},
              {.name = "--data", .target = &o.data, .value = "PATH",
               .help = "training data: a folder with one sub-folder of pictures per class, or a .npz file with arrays named as the model's inputs and labels y"},
              {.name = "--val", .target = &o.val, .value = "PATH", .help = "validation data, of the same kind", .default_text = "none"},
              {.name = "--val-split", .target = &o.val_split, .value = "FRACTION", .help = "part of the training data, of each class, set aside for validation",
               .low = 0, .high = 0.95},
              {.name = "--epochs", .target = &o.epochs, .value = "N", .help = "epochs in total, those of a resumed run included; 0 only evaluates", .low = 0},
              {.name = "--batch", .target = &o.batch, .value = "N", .help = "samples a step", .low = 1, .high = 1 << 20},
              {.name = "--steps-per-epoch", .target = &o.steps_per_epoch, .value = "N",
               .help = "batches an epoch; the passes over the data run on from epoch to epoch", .default_text = "one pass over the data", .low = 0},
              {.name = "--validation-steps", .target = &o.validation_steps, .value = "N", .help = "batches of validation data an epoch",
               .default_text = "all", .low = 0},
              {.name = "--steps", .target = &o.steps, .value = "N", .help = "stop after N steps in total", .default_text = "no limit", .low = 0},
              {.name = "--seed", .target = &o.seed, .value = "N", .help = "of everything random: shuffle, augmentation, dropout, new weights", .low = 0},
              {.name = "--out", .target = &o.out, .value = "DIR", .help = "folder of the run; made if missing"},
              {.name = "--resume", .target = &o.resume,
               .help = "continue from OUT/last.ckpt to the bit; options not given are those of OUT/config.toml"},
              {.name = "--verbose", .target = &o.verbose, .value = "LEVEL",
               .help = "0 silent, 1 progress bar (on a terminal) and a line an epoch, 2 a line an epoch", .low = 0, .high = 2},
              {.name = "--metrics-every-step", .target = &o.metrics_every_step, .help = "a line a step in metrics.jsonl too"},
              {.name = "--config", .target = &o.config, .value = "FILE.toml", .help = "options as written to OUT/config.toml; the command line wins",
               .default_text = "none"},
          }};
}

OptionGroup objective_rows(TrainOptions& o) {
  OptionGroup group{"Objective",
                    {
                        {.name = "--loss", .target = &o.loss, .value = "NAME", .help = "computed from logits, whatever the model ends in; auto: from the model's end and the labels",
                         .choices = {"auto", "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy", "mean_squared_error"}},
                        {.name = "--target", .target = &o.target, .value = "NAME", .help = "the model's output that is trained", .default_text = "the first that depends on weights"},
                        {.name = "--metrics", .target = &o.metrics, .value = "NAME,...", .help = "beside the loss", .choices = {"accuracy", "acc", "none"}},
                        optimizer_row(o.optimizer, "with Keras's formulas"),
                        {.name = "--lr", .target = &o.lr, .value = "RATE", .help = "learning rate at the start", .low = 0},
                    }};
  const auto add = [&group](const std::vector<OptionRow>& rows) { group.rows.insert(group.rows.end(), rows.begin(), rows.end()); };
  add(momentum_rows(o.optimizer));
  add({{.name = "--decay", .target = &o.decay, .value = "D", .help = "time decay: the rate is divided by 1 + D * steps done", .low = 0}});
  add(adaptive_rows(o.optimizer));
  add(gradient_rows(o.optimizer));
  add({{.name = "--schedule", .target = &o.schedule, .value = "FORM",
        .help = "of the learning rate: constant, step:GAMMA,EVERY_EPOCHS (step alone: 0.5,1; EVERY_EPOCHS is 1 if not given), or cosine (to 0 at the end of the run)"},
       {.name = "--warmup", .target = &o.warmup, .value = "STEPS", .help = "steps in which the rate rises from 0", .low = 0}});
  return group;
}

OptionGroup model_rows(TrainOptions& o) {
  return {"Model",
          {
              {.name = "--replace-head", .target = &o.replace_head, .value = "N|auto", .help = "a new last layer with N outputs; auto: as many as there are classes",
               .default_text = "keep the head"},
              {.name = "--cut-at", .target = &o.cut_at, .value = "NODE", .help = "with --replace-head: cut behind this node", .default_text = "found by itself"},
              {.name = "--new-head-dropout", .target = &o.new_head_dropout, .value = "RATE", .help = "in front of the new head, in training only", .low = 0, .high = 0.99},
              {.name = "--weights", .target = &o.weights, .value = "FILE", .help = "weights by name, from .onnx, .h5 or .safetensors, before the head is replaced",
               .default_text = "those of the model"},
              {.name = "--skip-mismatch", .target = &o.skip_mismatch, .help = "with --weights: a layer of another shape is newly initialised instead of being an error"},
              {.name = "--drop-background", .target = &o.drop_background, .help = "with --weights: the file's head has a background class in front, which is left out"},
              {.name = "--freeze", .target = &o.freeze, .value = "GLOB,...", .help = "weights, or nodes by name, that are not trained", .default_text = "none"},
              {.name = "--unfreeze-at", .target = &o.unfreeze_at, .value = "EPOCH", .help = "from the start of this epoch (from 1) everything is trained",
               .default_text = "never", .low = 0},
              {.name = "--freeze-bn", .target = &o.freeze_bn, .help = "batch normalisation uses and keeps its stored statistics"},
          }};
}

OptionGroup data_group(TrainOptions& o) {
  OptionGroup group{"Data", data_rows(o.input)};
  const std::vector<OptionRow> rows{
      {.name = "--class-mode", .target = &o.class_mode, .value = "MODE", .help = "form of the labels; auto: as the loss wants them",
       .choices = {"auto", "binary", "categorical", "sparse", "none"}},
      {.name = "--shear", .target = &o.shear, .value = "DEGREES", .help = "random shear of training pictures, up to", .low = 0, .high = 89},
      {.name = "--zoom", .target = &o.zoom, .value = "Z|LOW,HIGH", .help = "random zoom of each axis; Z means 1-Z,1+Z", .default_text = "off", .low = 0},
      {.name = "--rotate", .target = &o.rotate, .value = "DEGREES", .help = "random rotation, up to", .low = 0, .high = 360},
      {.name = "--shift", .target = &o.shift, .value = "S|W,H", .help = "random shift; below 1 a part of the size, else pixels", .default_text = "off", .low = 0},
      {.name = "--hflip", .target = &o.hflip, .help = "random horizontal flip"},
      {.name = "--vflip", .target = &o.vflip, .help = "random vertical flip"},
      {.name = "--brightness", .target = &o.brightness, .value = "LOW,HIGH", .help = "random factor on the grey levels", .default_text = "off", .low = 0},
      {.name = "--fill-mode", .target = &o.fill_mode, .value = "MODE", .help = "what lies outside of a moved picture", .choices = {"nearest", "constant", "reflect", "wrap"}},
      {.name = "--shuffle", .target = &o.shuffle, .help = "a new order in each epoch"},
      {.name = "--on-bad-image", .target = &o.on_bad_image, .value = "WHAT", .help = "skip unreadable pictures (named and counted) or fail", .choices = {"skip", "fail"}},
  };
  group.rows.insert(group.rows.end(), rows.begin(), rows.end());
  return group;
}

OptionGroup callback_rows(TrainOptions& o) {
  return {"Checkpoints and stopping",
          {
              {.name = "--monitor", .target = &o.monitor, .value = "METRIC", .help = "that decides which epoch is the best: loss, accuracy, val_loss, val_accuracy",
               .default_text = "val_loss, or loss without validation data"},
              {.name = "--mode", .target = &o.mode, .value = "MODE", .help = "whether small or large is good; auto: max for accuracies", .choices = {"auto", "min", "max"}},
              {.name = "--checkpoint-every", .target = &o.checkpoint_every, .value = "N", .help = "epochs between writings of last.ckpt, 0: only of the best epoch and at the end; Nsteps: steps"},
              {.name = "--keep", .target = &o.keep, .value = "N", .help = "numbered checkpoints to keep beside last.ckpt and best.ckpt", .low = 0},
              {.name = "--save-best-only", .target = &o.save_best_only, .help = "numbered checkpoints only of epochs that were the best so far"},
              {.name = "--early-stop", .target = &o.early_stop, .help = "stop when --monitor has not improved for --patience epochs"},
              {.name = "--patience", .target = &o.patience, .value = "EPOCHS", .help = "for --early-stop, which it switches on; at least 1", .low = 0},
          }};
}

OptionGroup device_rows(TrainOptions& o) {
  return {"Devices",
          {
              {.name = "--devices", .target = &o.devices, .value = "NAME,...", .help = "where it is computed, such as cpu:0,cpu:1; with several ranks (mpirun, srun) the devices of each; cuda:rank is a GPU for each rank of a host"},
              {.name = "--parallel", .target = &o.parallel, .value = "HOW",
               .help = "several devices: data (each computes shards of the batch), branch (each computes branches of the model), auto (what is predicted to be fastest, one device included; ranks: data), none",
               .choices = {"auto", "data", "branch", "none"}},
              {.name = "--shards", .target = &o.shards, .value = "N",
               .help = "parts of each batch, computed by themselves; results depend on it, and not on the number of devices", .default_text = "as many as devices", .low = 0, .high = 1 << 16},
              {.name = "--sync-bn", .target = &o.sync_bn, .help = "batch normalisation over the whole batch instead of each shard by itself"},
              {.name = "--placement", .target = &o.placement, .value = "FILE", .help = "with --parallel branch: lines 'node name pattern = device'", .default_text = "found by the planner"},
              {.name = "--plan", .target = &o.plan, .value = "FILE.json", .help = "a plan as engine-graph plan or an earlier run wrote it", .default_text = "made anew"},
              {.name = "--costs", .target = &o.costs, .value = "HOW", .help = "what plans are made from: measured (once, then kept in the cache folder), estimated (from FLOPs and bytes)",
               .choices = {"measured", "estimated"}},
              {.name = "--memory", .target = &o.memory, .value = "BYTES", .help = "most memory of each device, such as 8G: values are recomputed and shards made smaller to meet it", .default_text = "no limit"},
              {.name = "--device-timeout", .target = &o.device_timeout, .value = "SECONDS", .help = "a device that does not answer for so long is held for lost",
               .default_text = "60, and more for large steps", .low = 0, .high = 1e7},
              {.name = "--backend-path", .target = &o.backend_path, .value = "PATHS", .help = "backend plugins: files, or folders with engine-backend-*.so or libengine_backend_*.so, separated by ':'",
               .default_text = "ENGINE_BACKEND_PATH, else beside the program"},
              {.name = "--threads", .target = &o.threads, .value = "N", .help = "threads of a shard; sums depend on it, so it belongs to the recipe",
               .default_text = "processors / shards", .low = 0, .high = 4096},
              {.name = "--precision", .target = &o.precision, .value = "TYPE", .help = "of the computation", .choices = {"fp32", "bf16"}},
              {.name = "--deterministic", .target = &o.deterministic, .help = "GPUs too add up gradients in the fixed order of shards, so that any number of them gives the same bits (CPUs always do); slower than their all-reduce"},
          }};
}

OptionGroup debugging_rows(TrainOptions& o) {
  return {"Debugging",
          {
              {.name = "--write-gradients", .target = &o.write_gradients, .value = "FILE.safetensors", .help = "gradients of the first step", .default_text = "off"},
              {.name = "--check-gradients", .target = &o.check_gradients, .help = "compare some gradients with finite differences, then stop"},
              {.name = "--profile", .target = &o.profile, .help = "time every node of a step, print the slowest, write OUT/trace.json (streams, transfers, sums over shards; for chrome://tracing or Perfetto), then stop"},
              {.name = "--dry-run", .target = &o.dry_run, .help = "read everything, compile the step, report memory, train nothing"},
          }};
}

}  // namespace

OptionTable train_table(TrainOptions& o) {
  OptionTable t;
  t.command = "engine-train";
  t.usage = "engine-train MODEL.onnx --data DIR|FILE.npz [--val DIR|FILE.npz | --val-split FRACTION] [options]";
  t.about = "Trains an ONNX model and writes it back as ONNX. Results on stdout, logs on stderr, everything else in --out.\n"
            "Exit status: 0 done, 2 wrong usage, 3 bad model or data, 4 device failure, 5 stopped by a signal after saving.";
  t.groups = {run_rows(o), objective_rows(o), model_rows(o), data_group(o), callback_rows(o), device_rows(o), debugging_rows(o)};
  return t;
}

Status parse_checkpoint_every(const std::string& text, int64_t& epochs, int64_t& steps) {
  char* end = nullptr;
  const int64_t n = std::strtoll(text.c_str(), &end, 10);
  const std::string unit = end;
  if (end == text.c_str() || n < 0 || (!unit.empty() && (unit != "steps" || n == 0))) {
    return usage_error("--checkpoint-every '", text, "': a number of epochs (2) or of steps (500steps) is wanted");
  }
  (unit.empty() ? epochs : steps) = n;
  return {};
}

namespace {

// Options that would do nothing, or something that has no meaning, beside the others.
Status check_partners(const TrainOptions& o) {
  TrainOptions now = o, defaults;
  const std::vector<std::string> changed = changed_options(train_table(now), train_table(defaults));
  const auto refuse = [&](const std::vector<std::string>& names, bool wrong, const std::string& why) {
    const std::string name = wrong ? first_of(changed, names) : "";
    return name.empty() ? Status() : usage_error(name, " ", why);
  };
  if (o.out.empty()) return usage_error("--out '': the name of a folder is wanted");
  ENG_TRY(check_optimizer(o.optimizer));
  ENG_TRY(refuse({"--validation-steps"}, o.val.empty() && o.val_split == 0, "needs validation data: give --val or --val-split"));
  ENG_TRY(refuse({"--save-best-only"}, o.keep == 0, "is about the numbered checkpoints of --keep, which is not given"));
  const bool moves = o.rotate > 0 || o.shear > 0 || !o.zoom.empty() || !o.shift.empty();
  ENG_TRY(refuse({"--fill-mode"}, !moves, "belongs to --rotate, --shear, --zoom and --shift, of which none is given"));
  if (!o.plan.empty() && !o.placement.empty()) return usage_error("--plan and --placement exclude one another: a plan has a device for each node");
  if (o.metrics.size() > 1 && first_of(o.metrics, {"none"}) == "none") return usage_error("--metrics: none goes with no other metric");
  const std::string looks = o.dry_run ? "--dry-run" : o.check_gradients ? "--check-gradients" : o.profile ? "--profile" : "";
  ENG_TRY(refuse({"--write-gradients"}, !looks.empty(), "needs a step of training; " + looks + " trains none"));
  ENG_TRY(refuse({"--write-gradients"}, o.epochs == 0, "needs a step of training; --epochs 0 trains none"));
  ENG_TRY(refuse({"--write-gradients"}, o.resume, "writes the run's first step, which a resumed run has behind it"));
  ENG_TRY(refuse({"--write-gradients"}, !o.write_gradients.ends_with(".safetensors"), o.write_gradients + ": a name ending in .safetensors is wanted"));
  return {};
}

}  // namespace

Result<TrainLine> read_train_options(TrainOptions& options, const std::vector<std::string>& words) {
  const OptionTable table = train_table(options);
  ENG_ASSIGN(const ParsedLine line, parse_options(table, words));
  TrainLine result{line.help, line.version, line.given};
  if (line.help || line.version) return result;
  std::string path = options.config;
  if (path.empty() && options.resume) path = join_path(options.out, "config.toml");
  if (!path.empty()) {
    if (options.config.empty() && file_info(path).kind == FileKind::kMissing) {
      return not_found("--resume: ", options.out, " holds no run that could be continued (", path, " is not there); give the run's folder with --out");
    }
    ENG_ASSIGN(const std::string text, read_text_file(path, kLargestConfig));
    std::vector<std::string> keep = line.given;
    keep.insert(keep.end(), {"--resume", "--config"});
    if (options.resume) keep.emplace_back("--out");
    ENG_TRY(read_config(table, text, path, keep));
    if (options.resume && line.has("--devices")) {  // what placed the run on the devices that it had
      if (!line.has("--plan")) options.plan.clear();
      if (!line.has("--placement")) options.placement.clear();
    }
  }
  if (options.model.empty()) return usage_error("no model is given; usage: ", table.usage);
  if (options.data.empty()) return usage_error("no training data are given: --data DIR or --data FILE.npz");
  if (!options.val.empty() && options.val_split > 0) return usage_error("--val and --val-split exclude one another");
  const auto given = [&line](const char* name) { return line.has(name); };
  if (given("--patience") && options.patience == 0) return usage_error("--patience 0: at least 1 epoch is wanted; --no-early-stop switches early stopping off");
  if (!given("--early-stop") && (given("--patience") || (options.patience > 0 && options.patience != TrainOptions().patience))) options.early_stop = true;
  if (options.patience == 0) options.early_stop = false, options.patience = TrainOptions().patience;  // as older runs wrote it
  // What config.toml resolved belongs to what it was resolved from.
  if (given("--monitor") && !given("--mode")) options.mode = "auto";
  if (given("--loss") && !given("--class-mode")) options.class_mode = "auto";
  if (given("--class-mode") && !given("--loss")) options.loss = "auto";
  ENG_TRY(check_partners(options));
  return result;
}

}  // namespace eng::tools
