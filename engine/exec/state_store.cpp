// See state_store.h.
#include "engine/exec/state_store.h"

namespace eng {

Status StateStore::check(const std::string& name, const Entry& entry, const Tensor& given) {
  if (entry.dtype == given.dtype() && entry.shape == given.shape()) return {};
  return invalid("state '", name, "' is ", name_of(entry.dtype), entry.shape, ", got ", name_of(given.dtype()), given.shape());
}

Status StateStore::ensure(const std::string& name, const Tensor& initial, std::shared_ptr<Device> device) {
  if (auto it = entries_.find(name); it != entries_.end()) return check(name, it->second, initial);
  if (!device) device = device_;
  ENG_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(device, initial.byte_count()));
  ENG_TRY(device->copy_to_device(buffer.data(), initial.bytes(), initial.byte_count()));
  ENG_TRY(device->synchronize());
  bytes_ += initial.byte_count();
  entries_.emplace(name, Entry{initial.dtype(), initial.shape(), std::move(buffer), std::move(device)});
  return {};
}

std::shared_ptr<Device> StateStore::device_of(const std::string& name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : it->second.device;
}

Result<const StateStore::Entry*> StateStore::find(const std::string& name) const {
  auto it = entries_.find(name);
  if (it == entries_.end()) return not_found("there is no state '", name, "' among the ", entries_.size(), " of the store");
  return &it->second;
}

Result<Tensor> StateStore::get(const std::string& name) const {
  ENG_ASSIGN(const Entry* entry, find(name));
  Tensor out(entry->dtype, entry->shape);
  ENG_TRY(entry->device->copy_to_host(out.mutable_bytes(), entry->buffer.data(), out.byte_count()));
  ENG_TRY(entry->device->synchronize());
  return out;
}

Status StateStore::set(const std::string& name, const Tensor& content) {
  ENG_ASSIGN(const Entry* entry, find(name));
  ENG_TRY(check(name, *entry, content));
  ENG_TRY(entry->device->copy_to_device(entry->buffer.data(), content.bytes(), content.byte_count()));
  return entry->device->synchronize();
}

std::vector<std::string> StateStore::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

void* StateStore::pointer(const std::string& name) const {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : it->second.buffer.data();
}

}  // namespace eng
