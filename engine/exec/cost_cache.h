// Measured seconds on disk, one JSON file a device: {"version": 1, "device": "...", "seconds": {"node signature": 1.2e-4, ...}}. What was
// measured once is never measured again on the same processor with the same engine. A file that is damaged, of another version or of
// another device counts as empty, with a warning; it is replaced by the next save().
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "graph/base/status.h"

namespace eng {

// $ENGINE_CACHE, else $XDG_CACHE_HOME/onnx-training-engine, else ~/.cache/onnx-training-engine; empty where none of them is set.
std::string user_cache_folder();

class CostCache {
 public:
  // `device` is all that times depend on: backend, version, processor, threads, ... `folder` empty: nothing is read or written.
  static CostCache load(const std::string& folder, const std::string& device, const std::function<void(const std::string&)>& warn);

  const double* find(const std::string& key) const;
  void put(const std::string& key, double seconds);
  // Writes what is new, together with what other processes have saved meanwhile. Does nothing where nothing is new.
  Status save();
  const std::string& path() const { return path_; }

 private:
  std::string path_, device_;
  std::unordered_map<std::string, double> seconds_;
  bool changed_ = false;
};

}  // namespace eng
