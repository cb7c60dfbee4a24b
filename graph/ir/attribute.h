// A node's attributes: name -> one of ONNX's kinds. Sub-graphs are kept (If, Loop, Scan), so that such nodes can be
// shown and listed as not supported instead of being lost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graph/base/tensor.h"

namespace eng {

class Graph;

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
                               Tensor, std::shared_ptr<Graph>>;

// Ordered by name, so that prints and files are the same on every run.
class Attributes {
 public:
  bool has(const std::string& name) const { return map_.count(name) != 0; }
  void set(const std::string& name, Attribute value) { map_[name] = std::move(value); }
  void erase(const std::string& name) { map_.erase(name); }
  // The value where it is there and of kind T, else null.
  template <class T>
  const T* find(const std::string& name) const {
    auto it = map_.find(name);
    return it == map_.end() ? nullptr : std::get_if<T>(&it->second);
  }
  int64_t get_int(const std::string& name, int64_t fallback) const { return get<int64_t>(name, fallback); }
  float get_float(const std::string& name, float fallback) const { return get<float>(name, fallback); }
  std::string get_string(const std::string& name, const std::string& fallback) const { return get<std::string>(name, fallback); }
  std::vector<int64_t> get_ints(const std::string& name, const std::vector<int64_t>& fallback = {}) const {
    return get<std::vector<int64_t>>(name, fallback);
  }
  std::vector<float> get_floats(const std::string& name, const std::vector<float>& fallback = {}) const {
    return get<std::vector<float>>(name, fallback);
  }
  auto begin() const { return map_.begin(); }
  auto end() const { return map_.end(); }
  size_t size() const { return map_.size(); }

 private:
  template <class T>
  T get(const std::string& name, const T& fallback) const {
    const T* v = find<T>(name);
    return v ? *v : fallback;
  }
  std::map<std::string, Attribute> map_;
};

}  // namespace eng
