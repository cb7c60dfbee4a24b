// The options of engine-train and their table. What they mean stands in the help texts (train_options.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/data_options.h"
#include "tools/common/option_table.h"
#include "tools/common/optimizer_options.h"

namespace eng::tools {

struct TrainOptions {
  std::string model;
  // run
  std::string data, val, out = "engine-run", config;
  double val_split = 0;
  int64_t epochs = 1, batch = 32, steps_per_epoch = 0, validation_steps = 0, steps = 0, seed = 0, verbose = 1, threads = 0;
  bool resume = false, metrics_every_step = false;
  // objective
  std::string loss = "auto", schedule = "constant", target;
  std::vector<std::string> metrics{"accuracy"};
  OptimizerSpec optimizer;
  double lr = 1e-3, decay = 0;
  int64_t warmup = 0;
  // model
  std::string replace_head, cut_at, weights;
  double new_head_dropout = 0;
  std::vector<std::string> freeze;
  int64_t unfreeze_at = 0;
  bool freeze_bn = false, skip_mismatch = false, drop_background = false;
  // data
  DataOptions input;
  std::string class_mode = "auto", fill_mode = "nearest", on_bad_image = "skip";
  double shear = 0, rotate = 0;
  std::vector<double> zoom, shift, brightness;
  bool hflip = false, vflip = false, shuffle = true;
  // callbacks
  std::string monitor = "auto", mode = "auto", checkpoint_every = "1";
  int64_t keep = 0, patience = 5;
  bool save_best_only = false, early_stop = false;
  // device
  std::string devices = "cpu:0", parallel = "auto", plan, placement, costs = "measured", memory, precision = "fp32", backend_path;
  int64_t shards = 0;
  double device_timeout = 0;
  bool deterministic = false, sync_bn = false;
  // debugging
  std::string write_gradients;
  bool check_gradients = false, dry_run = false, profile = false;
};

// The rows point into `options`, which must outlive the table.
OptionTable train_table(TrainOptions& options);
// Options from the command line, --config FILE and, for --resume, OUT/config.toml; the command line wins. `help` set: only print it.
struct TrainLine {
  bool help = false, version = false;
  std::vector<std::string> given;
};
Result<TrainLine> read_train_options(TrainOptions& options, const std::vector<std::string>& words);
// "3" or "200steps": epochs and updates between checkpoints.
Status parse_checkpoint_every(const std::string& text, int64_t& epochs, int64_t& steps);

}  // namespace eng::tools
