// See cost_cache.h.
#include "engine/exec/cost_cache.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/checksum.h"
#include "engine/io/file.h"

namespace eng {
namespace {

constexpr int kVersion = 1;
constexpr int64_t kLargestFile = int64_t{256} << 20;

// Times that are finite and not negative; anything else says that the file was not written by save().
Status read(const std::string& path, const std::string& device, std::unordered_map<std::string, double>& seconds) {
  ENG_ASSIGN(const std::string text, read_text_file(path, kLargestFile));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid("it is no JSON object");
  if (json.value("version", 0) != kVersion) return invalid("it is not of version ", kVersion);
  if (const auto at = json.find("device"); at == json.end() || !at->is_string() || at->get<std::string>() != device) return invalid("it belongs to another device");
  const auto list = json.find("seconds");
  if (list == json.end() || !list->is_object()) return invalid("it has no object 'seconds'");
  for (const auto& [key, value] : list->items()) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0) return invalid("'", key, "' has no time");
    seconds.try_emplace(key, value.get<double>());
  }
  return {};
}

}  // namespace

std::string user_cache_folder() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string own = variable("ENGINE_CACHE"); !own.empty()) return own;
  if (const std::string base = variable("XDG_CACHE_HOME"); !base.empty()) return join_path(base, "onnx-training-engine");
  if (const std::string home = variable("HOME"); !home.empty()) return join_path(join_path(home, ".cache"), "onnx-training-engine");
  return "";
}

CostCache CostCache::load(const std::string& folder, const std::string& device, const std::function<void(const std::string&)>& warn) {
  CostCache cache;
  cache.device_ = device;
  if (folder.empty()) return cache;
  cache.path_ = join_path(join_path(folder, "costs"), hex8(crc32c(device.data(), device.size())) + ".json");
  if (file_info(cache.path_).kind == FileKind::kMissing) return cache;
  const Status s = read(cache.path_, device, cache.seconds_);
  if (s.ok()) return cache;
  cache.seconds_.clear();
  if (warn) warn(cat(printable(cache.path_), " cannot be used: ", s.message(), "; costs are measured anew"));
  return cache;
}

const double* CostCache::find(const std::string& key) const {
  const auto it = seconds_.find(key);
  return it == seconds_.end() ? nullptr : &it->second;
}

void CostCache::put(const std::string& key, double seconds) {
  seconds_[key] = seconds;
  changed_ = true;
}

Status CostCache::save() {
  if (!changed_ || path_.empty()) return {};
  if (file_info(path_).kind == FileKind::kRegular) {
    std::unordered_map<std::string, double> others;
    if (read(path_, device_, others).ok()) seconds_.merge(others);  // a damaged file is replaced
  }
  ENG_TRY(make_folder(path_.substr(0, path_.rfind('/'))));
  nlohmann::ordered_json json;
  json["version"] = kVersion;
  json["device"] = device_;
  json["seconds"] = std::map<std::string, double>(seconds_.begin(), seconds_.end());
  ENG_TRY(write_file_atomic(path_, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  changed_ = false;
  return {};
}

}  // namespace eng
