// What the trainer (trainer.h) reads and writes: checkpoints, models, the first step's gradients.
#include <cmath>
#include <filesystem>

#include "engine/io/file.h"
#include "engine/io/safetensors.h"
#include "engine/train/trainer.h"

namespace eng {
namespace fs = std::filesystem;

std::string not_finite(const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, t] : tensors) {
    if (!is_floating(t.dtype())) continue;
    if (t.dtype() == DType::kFloat32) {
      const float* values = t.data<float>();
      float sum = 0;  // NaN or infinite where a value is: x * 0 is 0 for finite x only
      for (int64_t i = 0; i < t.element_count(); ++i) sum += values[i] * 0.0f;
      if (sum == 0) continue;
    }
    for (int64_t i = 0; i < t.element_count(); ++i) {
      if (!std::isfinite(t.at(i))) return cat("'", name, "' ", t.shape(), " holds ", std::isnan(t.at(i)) ? "nan" : t.at(i) > 0 ? "inf" : "-inf", " at ", i);
    }
  }
  return "";
}

Status Trainer::check_finite(const std::map<std::string, Tensor>& tensors, const std::string& file) {
  const std::string found = not_finite(tensors);
  if (found.empty()) {
    finite_step_ = state_.step;
    return {};
  }
  const std::string kept = saved_step_ < 0 ? "nothing is saved" : cat("what was saved after step ", saved_step_, " is kept");
  return invalid("after step ", state_.step, " the weight or state ", found, ": training has diverged, ", file, " is not written, ", kept,
                 "; try a smaller --lr, --clip-norm 1 or --warmup, and check that the inputs are scaled (--rescale)");
}

Status Trainer::save(const std::string& name) {
  if (options_.folder.empty()) return {};
  Checkpoint checkpoint;
  checkpoint.state = state_;
  checkpoint.state.monitor = monitor_.state();
  checkpoint.options = options_.options_text;
  ENG_ASSIGN(checkpoint.tensors, steps_.contents(a_batch()));
  ENG_TRY(check_finite(checkpoint.tensors, name));
  ENG_TRY(save_checkpoint(join_path(options_.folder, name), checkpoint));
  saved_step_ = state_.step;
  steps_.fleet().ranks->set_note(cat("the last checkpoint is ", join_path(options_.folder, name), ", after step ", state_.step));
  return {};
}

// last.ckpt under another name too: a hard link (last.ckpt is only ever replaced, never written into), or a copy where links do not work.
Status Trainer::save_copy(const std::string& name) {
  if (options_.folder.empty()) return {};
  const std::string last = join_path(options_.folder, "last.ckpt"), target = join_path(options_.folder, name), made = target + ".new";
  std::error_code error;
  fs::remove(made, error);
  fs::create_hard_link(last, made, error);
  if (error) fs::copy_file(last, made, error);
  if (!error) fs::rename(made, target, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(made, ignored);
  return invalid(target, ": cannot be written: ", error.message());
}

Status Trainer::save_numbered() {
  if (options_.folder.empty()) return {};
  std::string number = std::to_string(state_.epoch);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  ENG_TRY(save_copy("epoch-" + number + ".ckpt"));
  ENG_ASSIGN(const std::vector<std::string> names, list_folder(options_.folder));
  std::vector<std::string> numbered;
  for (const std::string& n : names) {
    if (n.rfind("epoch-", 0) == 0 && n.size() > 11 && n.substr(n.size() - 5) == ".ckpt") numbered.push_back(n);
  }
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) < numbered.size(); ++i) {
    std::error_code error;
    fs::remove(join_path(options_.folder, numbered[i]), error);
    if (error) say(cat("cannot remove ", numbered[i], ": ", error.message()));
  }
  return {};
}

Status Trainer::write_model(const std::string& name) {
  if (options_.folder.empty() || !write_model_) return {};
  if (finite_step_ != state_.step) {
    ENG_ASSIGN(const auto tensors, steps_.contents(a_batch()));
    ENG_TRY(check_finite(tensors, name));
  }
  ENG_ASSIGN(const Graph graph, steps_.trained_model());
  return write_model_(graph, join_path(options_.folder, name));
}

Status Trainer::write_gradients() {
  SafetensorsFile file;
  ENG_ASSIGN(const Step step, steps_.plan(batch_.size));
  ENG_ASSIGN(const std::vector<Tensor> gradients, steps_.gradients());
  for (size_t i = 0; i < step.parameters.size(); ++i)
    if (gradients[i].defined()) file.tensors[step.graph.value(step.parameters[i]).name] = gradients[i];
  file.metadata["engine.gradients"] = cat("of step 1, batch ", batch_.size);
  ENG_TRY(write_safetensors(options_.gradients_file, file).in("--write-gradients"));
  say(cat("wrote the first step's ", file.tensors.size(), " gradients to ", options_.gradients_file));
  steps_.fetch_gradients(false);  // the programs without them need less memory
  return {};
}

Status Trainer::resume(const Checkpoint& checkpoint, const std::string& path) {
  const TrainingState& s = checkpoint.state;
  if (s.optimizer != state_.optimizer) {
    return usage_error(path, ": written by a run with --optimizer ", s.optimizer, ", this one has ", state_.optimizer);
  }
  if (s.seed != state_.seed) return usage_error(path, ": written by a run with --seed ", s.seed, ", this one has ", state_.seed);
  if (s.samples != state_.samples || s.batch_size != state_.batch_size) {
    const std::string was = cat(s.samples, " training samples in batches of ", s.batch_size), is = cat(state_.samples, " in batches of ", state_.batch_size);
    if (s.batch != 0 || s.step_in_epoch != 0) return invalid(path, ": saved inside an epoch over ", was, ", now there are ", is, ": it cannot be continued");
    say(cat("note: the checkpoint was written with ", was, ", now there are ", is));
  }
  if (s.unfrozen) steps_.unfreeze();
  ENG_ASSIGN(const auto wanted, steps_.contents(a_batch()));
  ENG_TRY(check_checkpoint(checkpoint, wanted, path));
  ENG_TRY(steps_.restore(checkpoint.tensors));
  const TrainingState fresh = state_;
  state_ = s;
  state_.monitor_metric = fresh.monitor_metric;
  state_.schedule = fresh.schedule;
  state_.batch_size = fresh.batch_size;
  state_.samples = fresh.samples;
  if (s.monitor_metric == fresh.monitor_metric) {
    monitor_.restore(s.monitor);
  } else {
    say(cat("note: --monitor was ", s.monitor_metric, " and is ", fresh.monitor_metric, " now: the best value so far is forgotten"));
  }
  saved_step_ = state_.step;
  return {};
}

}  // namespace eng
