// See shared_arena.h.
#include "engine/exec/shared_arena.h"

namespace eng {

Status SharedArena::reserve(uint64_t bytes) {
  if (buffer_.data() && bytes <= buffer_.bytes()) return {};
  ENG_TRY(device_->synchronize());
  buffer_ = DeviceBuffer();  // the old block first: nothing in it outlives a step
  auto block = DeviceBuffer::allocate(device_, bytes);
  if (!block.ok()) return block.status();
  buffer_ = std::move(*block);
  for (auto& [owner, moved] : users_) moved(buffer_.data());
  return {};
}

void SharedArena::use(const void* owner, std::function<void(void*)> moved) {
  moved(buffer_.data());
  users_.emplace_back(owner, std::move(moved));
}

void SharedArena::release(const void* owner) {
  std::erase_if(users_, [owner](const auto& u) { return u.first == owner; });
}

}  // namespace eng
