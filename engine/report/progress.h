// What a run shows while it works, on stderr: a bar that is redrawn (only on a terminal, verbosity 1), one line an epoch (1 and 2),
// nothing (0). A bar without a terminal becomes nothing; the epoch lines stay.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/train/metrics.h"

namespace eng {

class Progress {
 public:
  Progress(int verbosity, int64_t epochs);
  ~Progress();
  // A stage with a known end: "checking pictures 120/4000".
  void stage(const std::string& name, int64_t done, int64_t total);
  void step(const StepRecord& record);
  void evaluating(int64_t done, int64_t total);
  void epoch(const EpochRecord& record);
  // Removes the bar so that other output can be printed.
  void clear();

 private:
  bool due();  // a redraw at most ten times a second
  void draw(const std::string& line);

  int verbosity_;
  int64_t epochs_;
  bool bar_, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// "1:05", "2:03:10"
std::string clock_text(double seconds);
// A line for an epoch: "epoch 2/3: loss 0.4321, accuracy 0.8512, val_loss ..., 12.3 s, 325 samples/s".
std::string epoch_line(const EpochRecord& record, int64_t epochs);

}  // namespace eng
