// One block of device memory for what the programs of one stream make within a step. Training at two batch sizes and evaluation never run at the
// same time on a stream, so they share it; it is as large as the largest of them needs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/plugin/device.h"

namespace eng {

class SharedArena {
 public:
  explicit SharedArena(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // At least `bytes` from here on. Where the block moves, every user's `moved` is called with the new address after the stream's work is done.
  Status reserve(uint64_t bytes);
  // `moved` is called now, and whenever the block moves, until release(owner).
  void use(const void* owner, std::function<void(void*)> moved);
  void release(const void* owner);
  uint64_t bytes() const { return buffer_.bytes(); }

 private:
  std::shared_ptr<Device> device_;
  DeviceBuffer buffer_;
  std::vector<std::pair<const void*, std::function<void(void*)>>> users_;
};

}  // namespace eng
