// TensorBoard's event files: records of (length, masked CRC-32C of it, bytes, masked CRC-32C of them), each a protobuf message Event:
//   1 wall_time (double)  2 step (varint)  3 file_version (string, first record)  5 summary { 1 value { 1 tag (string) 2 simple_value (float) } }
// The few fields are encoded by hand.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/status.h"

namespace eng {

class TensorBoardLog {
 public:
  // A new file events.out.tfevents.<seconds>.<host>.<process> in the folder; with `anew` those of earlier runs there go, as TensorBoard would mix them in.
  static Result<std::unique_ptr<TensorBoardLog>> create(const std::string& folder, bool anew = false);
  Status write(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  Status record(const std::string& event);
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

// For tests: one record with its frame.
std::string tensorboard_record(const std::string& event);
std::string tensorboard_event(double wall_time, int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

}  // namespace eng
