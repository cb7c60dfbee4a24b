// Buffers that outlive a step, by value name: parameters, running statistics, optimiser slots, counters. The programs of several
// batch sizes (training, a short last batch, evaluation) share one store, so a weight exists once. A model whose branches lie on several
// devices has one store too: each state lives on the device that updates it.
// One thread at a time; a program that is compiled against a store keeps its pointers, so buffers are never moved or freed before
// the store is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plugin/device.h"
#include "graph/base/tensor.h"

namespace eng {

class StateStore {
 public:
  explicit StateStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Allocates a buffer with `initial`'s content on the device (null: the store's); a name that is there already keeps its content and its
  // device and must have the same type and shape.
  Status ensure(const std::string& name, const Tensor& initial, std::shared_ptr<Device> device = nullptr);
  // Where a state lives; null for an unknown name.
  std::shared_ptr<Device> device_of(const std::string& name) const;
  bool has(const std::string& name) const { return entries_.count(name) != 0; }
  // A copy of the content, after everything enqueued so far.
  Result<Tensor> get(const std::string& name) const;
  // Replaces the content (a checkpoint); type and shape must agree. Waits until it is done.
  Status set(const std::string& name, const Tensor& content);
  std::vector<std::string> names() const;  // in alphabetical order
  // The device buffer; null for an unknown name.
  void* pointer(const std::string& name) const;
  uint64_t bytes() const { return bytes_; }
  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  struct Entry {
    DType dtype;
    Shape shape;
    DeviceBuffer buffer;
    std::shared_ptr<Device> device;
  };
  Result<const Entry*> find(const std::string& name) const;
  static Status check(const std::string& name, const Entry& entry, const Tensor& given);

  std::shared_ptr<Device> device_;
  std::map<std::string, Entry> entries_;
  uint64_t bytes_ = 0;
};

}  // namespace eng
