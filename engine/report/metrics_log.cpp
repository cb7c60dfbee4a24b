// See metrics_log.h.
#include "engine/report/metrics_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/io/file.h"

namespace eng {
namespace {

using nlohmann::ordered_json;

// JSON knows no NaN and no infinity: they are written as null.
void put(ordered_json& j, const char* name, double value) {
  if (std::isfinite(value)) j[name] = value;
  else j[name] = nullptr;
}
void put(ordered_json& j, const char* name, const std::optional<double>& value) {
  if (value) put(j, name, *value);
}

constexpr int64_t kLargestLog = int64_t{4} << 30;

}  // namespace

std::string to_json_line(const EpochRecord& r) {
  ordered_json j;
  j["kind"] = "epoch";
  j["epoch"] = r.epoch + 1;
  j["step"] = r.step;
  put(j, "loss", r.loss);
  put(j, "accuracy", r.accuracy);
  put(j, "val_loss", r.val_loss);
  put(j, "val_accuracy", r.val_accuracy);
  put(j, "lr", r.rate);
  put(j, "seconds", r.seconds);
  put(j, "images_per_s", r.samples_per_second);
  j["samples"] = r.samples;
  if (r.val_loss) j["val_samples"] = r.val_samples;
  j["skipped_files"] = r.skipped_files;
  j["best"] = r.best;
  if (!r.complete) j["complete"] = false;
  return j.dump();
}

std::string to_json_line(const StepRecord& r) {
  ordered_json j;
  j["kind"] = "step";
  j["epoch"] = r.epoch + 1;
  j["step"] = r.step;
  put(j, "loss", r.loss);
  put(j, "accuracy", r.accuracy);
  put(j, "lr", r.rate);
  put(j, "seconds", r.seconds);
  j["samples"] = r.batch;
  return j.dump();
}

Result<std::unique_ptr<MetricsLog>> MetricsLog::open(const std::string& path, int64_t keep_steps) {
  std::string kept;
  if (keep_steps >= 0 && file_info(path).kind == FileKind::kRegular) {
    ENG_ASSIGN(const std::string text, read_text_file(path, kLargestLog));
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      if (end == std::string::npos) break;  // a line cut short by a kill
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      const auto j = nlohmann::json::parse(line, nullptr, false);
      if (j.is_object() && j.contains("step") && j["step"].is_number_integer() && j["step"].get<int64_t>() <= keep_steps) kept += line + "\n";
    }
  }
  ENG_TRY(write_file_atomic(path, kept));
  auto log = std::make_unique<MetricsLog>();
  log->path_ = path;
  log->file_.reset(std::fopen(path.c_str(), "ae"));
  if (!log->file_) return invalid(path, ": cannot be opened for writing: ", std::strerror(errno));
  return log;
}

Status MetricsLog::write(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
    return invalid(path_, ": cannot be written: ", std::strerror(errno));
  }
  return {};
}

}  // namespace eng
