// Options about reading data that engine-train and engine-predict share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/preprocessing.h"
#include "graph/base/status.h"
#include "tools/common/option_table.h"

namespace eng::tools {

struct DataOptions {
  std::string size, color, interpolation = "bilinear";  // size, color: empty, from the model
  double rescale = 1;
  std::vector<double> mean, std;
  int64_t workers = 0;                                   // 0: one a processor, at most 4
  int64_t cache = 1024;                                  // MiB
};

// Rows of size, color, rescale, mean, std, interpolation, workers, cache.
std::vector<OptionRow> data_rows(DataOptions& options);
// The preprocessing for one picture input of the given declared dimensions (-1 where open): [N,C,H,W] or [N,H,W,C]. --size wins over the
// file's size: a network that pools over everything takes any; whether this one does, shape inference finds out.
Result<Preprocessing> preprocessing_for(const DataOptions& options, const std::string& input, const std::vector<int64_t>& dims);
// Options that mean something for pictures only: arrays come as they are.
const std::vector<std::string>& picture_options();
int64_t worker_count(const DataOptions& options);

}  // namespace eng::tools
