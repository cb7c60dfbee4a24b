// See monitor.h.
#include "engine/train/monitor.h"

#include <vector>

namespace eng {

Result<Monitor> Monitor::create(const MonitorOptions& options, bool has_validation, bool has_accuracy) {
  Monitor m;
  m.metric_ = options.metric;
  if (m.metric_ == "auto") m.metric_ = has_validation ? "val_loss" : "loss";
  if (m.metric_ == "acc") m.metric_ = "accuracy";
  if (m.metric_ == "val_acc") m.metric_ = "val_accuracy";
  std::vector<std::string> known{"loss"};
  if (has_accuracy) known.emplace_back("accuracy");
  if (has_validation) known.emplace_back("val_loss");
  if (has_validation && has_accuracy) known.emplace_back("val_accuracy");
  bool found = false;
  std::string list;
  for (const std::string& k : known) {
    found = found || k == m.metric_;
    list += (list.empty() ? "" : ", ") + k;
  }
  if (!found) {
    const bool lacks_data = !has_validation && m.metric_.rfind("val_", 0) == 0;
    return usage_error("--monitor ", options.metric, ": this run has ", list,
                       lacks_data ? "; give validation data with --val or --val-split" : "");
  }
  if (options.mode == "auto") {
    m.maximise_ = m.metric_.find("accuracy") != std::string::npos;
  } else if (options.mode == "min" || options.mode == "max") {
    m.maximise_ = options.mode == "max";
  } else {
    return usage_error("--mode ", options.mode, ": known are min, max, auto");
  }
  m.patience_ = options.patience;
  return m;
}

bool Monitor::update(const EpochRecord& record) {
  const std::optional<double> value = record.metric(metric_);
  const bool better = value && *value == *value && (!state_.best || (maximise_ ? *value > *state_.best : *value < *state_.best));
  if (better) {
    state_.best = value;
    state_.best_epoch = record.epoch;
    state_.waited = 0;
  } else {
    ++state_.waited;
  }
  return better;
}

}  // namespace eng
