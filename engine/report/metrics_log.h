// metrics.jsonl: one JSON object a line, for every epoch ("kind":"epoch") and, if asked, every step ("kind":"step"). Epochs count from 1.
// Lines are appended and flushed; a resumed run first drops what lies after its checkpoint, so that no line is there twice.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "engine/train/metrics.h"
#include "graph/base/status.h"

namespace eng {

std::string to_json_line(const EpochRecord& record);
std::string to_json_line(const StepRecord& record);

class MetricsLog {
 public:
  // keep_steps < 0: starts anew. Otherwise keeps the lines up to that many updates.
  static Result<std::unique_ptr<MetricsLog>> open(const std::string& path, int64_t keep_steps);
  Status write(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace eng
