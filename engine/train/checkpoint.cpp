// See checkpoint.h. Numbers go through JSON in their shortest form that reads back to the same bits.
#include "engine/train/checkpoint.h"

#include <nlohmann/json.hpp>

#include "engine/distributed/text_of_rank.h"
#include "engine/io/safetensors.h"

namespace eng {
namespace {

using nlohmann::json;

constexpr const char* kFormatKey = "engine.checkpoint";
constexpr const char* kStateKey = "engine.state";
constexpr const char* kOptionsKey = "engine.options";
constexpr const char* kFormat = "1";

json to_json(const TrainingState& s) {
  json j = {{"epoch", s.epoch}, {"step", s.step}, {"pass", s.pass}, {"batch", s.batch}, {"step_in_epoch", s.step_in_epoch},
            {"seconds", s.seconds}, {"seed", s.seed}, {"monitor", s.monitor_metric}, {"best_epoch", s.monitor.best_epoch},
            {"waited", s.monitor.waited}, {"optimizer", s.optimizer}, {"schedule", s.schedule}, {"loss", s.loss},
            {"batch_size", s.batch_size}, {"samples", s.samples}, {"unfrozen", s.unfrozen},
            {"epoch_sums", {{"loss", s.sums.loss}, {"correct", s.sums.correct}, {"samples", s.sums.samples}}}};
  j["best"] = s.monitor.best ? json(*s.monitor.best) : json(nullptr);
  return j;
}

TrainingState from_json(const json& j) {  // throws json::exception
  TrainingState s;
  j.at("epoch").get_to(s.epoch);
  j.at("step").get_to(s.step);
  j.at("pass").get_to(s.pass);
  j.at("batch").get_to(s.batch);
  j.at("step_in_epoch").get_to(s.step_in_epoch);
  j.at("seconds").get_to(s.seconds);
  j.at("seed").get_to(s.seed);
  j.at("monitor").get_to(s.monitor_metric);
  j.at("best_epoch").get_to(s.monitor.best_epoch);
  j.at("waited").get_to(s.monitor.waited);
  j.at("optimizer").get_to(s.optimizer);
  j.at("schedule").get_to(s.schedule);
  j.at("loss").get_to(s.loss);
  j.at("batch_size").get_to(s.batch_size);
  j.at("samples").get_to(s.samples);
  j.at("unfrozen").get_to(s.unfrozen);
  j.at("epoch_sums").at("loss").get_to(s.sums.loss);
  j.at("epoch_sums").at("correct").get_to(s.sums.correct);
  j.at("epoch_sums").at("samples").get_to(s.sums.samples);
  if (!j.at("best").is_null()) s.monitor.best = j.at("best").get<double>();
  return s;
}

Status check_range(const TrainingState& s, const std::string& path) {
  for (int64_t n : {s.epoch, s.step, s.pass, s.batch, s.step_in_epoch, s.monitor.waited}) {
    if (n < 0) return invalid(path, ": its state holds a negative count");
  }
  return {};
}

// "a, b, c and 7 more"
std::string shortened(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 4; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 4 ? cat(text, " and ", names.size() - 4, " more") : text;
}

}  // namespace

Status save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  SafetensorsFile file;
  file.tensors = checkpoint.tensors;
  file.metadata[kFormatKey] = kFormat;
  file.metadata[kStateKey] = to_json(checkpoint.state).dump(-1, ' ', false, json::error_handler_t::replace);
  file.metadata[kOptionsKey] = checkpoint.options;
  return write_safetensors(path, file, true).in("writing checkpoint");
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  ENG_ASSIGN(SafetensorsFile file, read_safetensors(path));
  const auto format = file.metadata.find(kFormatKey), state = file.metadata.find(kStateKey);
  if (format == file.metadata.end() || state == file.metadata.end()) {
    return invalid(path, ": a safetensors file, but no checkpoint (", kFormatKey, " is missing); give weights with --weights");
  }
  if (format->second != kFormat) return unsupported(path, ": checkpoint format ", format->second, "; this version reads format ", kFormat);
  if (!file.checksummed) return invalid(path, ": its checksums are missing, so it cannot be told whether it is whole");
  Checkpoint checkpoint;
  try {
    checkpoint.state = from_json(json::parse(state->second));
  } catch (const json::exception& e) {
    return invalid(path, ": its state cannot be read: ", e.what());
  }
  ENG_TRY(check_range(checkpoint.state, path));
  checkpoint.tensors = std::move(file.tensors);
  checkpoint.options = file.metadata[kOptionsKey];
  return checkpoint;
}

Status share_checkpoint(Ranks& ranks, Checkpoint& checkpoint) {
  json head;
  if (ranks.rank() == 0) {
    head["state"] = to_json(checkpoint.state);
    head["options"] = checkpoint.options;
    for (const auto& [name, t] : checkpoint.tensors) head["tensors"].push_back({name, static_cast<int>(t.dtype()), t.shape()});
  }
  ENG_ASSIGN(const std::string text, text_of_rank(ranks, 0, head.dump(-1, ' ', false, json::error_handler_t::replace)));
  if (ranks.rank() != 0) {
    try {
      head = json::parse(text);
      checkpoint.state = from_json(head["state"]);
      checkpoint.options = head["options"];
      for (const json& t : head["tensors"]) checkpoint.tensors[t[0]] = Tensor(static_cast<DType>(t[1].get<int>()), t[2].get<Shape>());
    } catch (const json::exception& e) {
      return internal_error("rank 0's checkpoint arrived damaged: ", e.what());
    }
  }
  for (auto& [name, t] : checkpoint.tensors) ENG_TRY(ranks.broadcast(t.mutable_bytes(), t.byte_count(), 0));
  return {};
}

Status check_checkpoint(const Checkpoint& checkpoint, const std::map<std::string, Tensor>& wanted, const std::string& path) {
  std::vector<std::string> missing, left_over, different;
  for (const auto& [name, tensor] : wanted) {
    const auto found = checkpoint.tensors.find(name);
    if (found == checkpoint.tensors.end()) {
      missing.push_back(name);
    } else if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      different.push_back(cat(name, " (checkpoint ", name_of(found->second.dtype()), found->second.shape(), ", model ",
                              name_of(tensor.dtype()), tensor.shape(), ")"));
    }
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!wanted.count(name)) left_over.push_back(name);
  }
  if (missing.empty() && left_over.empty() && different.empty()) return {};
  std::string text = path + " does not belong to this model and optimiser:";
  if (!different.empty()) text += cat(" other shapes: ", shortened(different), ";");
  if (!missing.empty()) text += cat(" not in it: ", shortened(missing), ";");
  if (!left_over.empty()) text += cat(" only in it: ", shortened(left_over), ";");
  return invalid(text, " give the model, --replace-head and --optimizer of the run that wrote it");
}

}  // namespace eng
