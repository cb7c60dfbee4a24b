// See communicator.h.
#include "engine/plugin/communicator.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/plugin/abi_words.h"

namespace eng {
namespace {

const eb_collectives_table* table_of(const Device& device) { return optional_table<eb_collectives_table>(device.backend(), "collectives"); }

Status without(const Device& device) { return unsupported(device.name(), ": its backend has no collective operations"); }

// What a thread that joins leaves behind; kept by both sides, since the waiting one may go first.
struct Joining {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, abandoned = false;
  Status status;
  std::vector<eb_communicator*> handles;
};

// The ABI's call for several members of one process: between group_begin and group_end, all on one thread.
Status join_members(const eb_collectives_table& table, const std::vector<std::shared_ptr<Device>>& devices, const eb_unique_id& id, int count, int first,
                    std::vector<eb_communicator*>& handles) {
  eb_error error = no_error();
  const std::string what = devices[0]->name() + ": joining the other devices for sums";
  ENG_TRY(to_status(table.group_begin(&error), error, what));
  Status status;
  for (size_t i = 0; i < devices.size() && status.ok(); ++i)
    status = to_status(table.init_rank(devices[i]->handle(), &id, count, first + static_cast<int>(i), &handles[i], &error), error, what);
  const int32_t ended = table.group_end(&error);
  return status.ok() ? to_status(ended, error, what) : status;
}

}  // namespace

bool Communicator::offered(const Device& device) { return table_of(device) != nullptr; }

// An empty group: it needs the library and nothing else.
Status Communicator::available(const Device& device) {
  const eb_collectives_table* table = table_of(device);
  if (!table) return without(device);
  eb_error error = no_error();
  ENG_TRY(to_status(table->group_begin(&error), error, device.name()));
  return to_status(table->group_end(&error), error, device.name());
}

Result<eb_unique_id> Communicator::make_id(const Device& device) {
  const eb_collectives_table* table = table_of(device);
  if (!table) return without(device);
  eb_unique_id id{};
  eb_error error = no_error();
  ENG_TRY(to_status(table->unique_id(&id, &error), error, device.name()));
  return id;
}

std::vector<std::unique_ptr<Communicator>> Communicator::own(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<eb_communicator*>& handles) {
  std::vector<std::unique_ptr<Communicator>> out;
  for (size_t i = 0; i < devices.size(); ++i) out.emplace_back(new Communicator(devices[i], table_of(*devices[i]), handles[i]));
  return out;
}

Result<std::vector<std::unique_ptr<Communicator>>> Communicator::join(const std::vector<std::shared_ptr<Device>>& devices) {
  const eb_collectives_table* table = table_of(*devices[0]);
  if (!table) return without(*devices[0]);
  std::vector<eb_device*> members;
  for (const auto& device : devices) members.push_back(device->handle());
  std::vector<eb_communicator*> handles(devices.size(), nullptr);
  eb_error error = no_error();
  ENG_TRY(to_status(table->init_all(members.data(), static_cast<int32_t>(members.size()), handles.data(), &error), error, devices[0]->name() + ": joining the other devices for sums"));
  return own(devices, handles);
}

Result<std::vector<std::unique_ptr<Communicator>>> Communicator::join(const std::vector<std::shared_ptr<Device>>& devices, const eb_unique_id& id, int count, int first,
                                                                      std::chrono::milliseconds patience) {
  const eb_collectives_table* table = table_of(*devices[0]);
  if (!table) return without(*devices[0]);
  const auto joining = std::make_shared<Joining>();
  joining->handles.assign(devices.size(), nullptr);
  std::thread([=] {  // the call has no limit of its own: a member that never comes must not hold up this process for ever
    std::vector<eb_communicator*> handles(devices.size(), nullptr);
    Status status = join_members(*table, devices, id, count, first, handles);
    const std::lock_guard lock(joining->mutex);
    if (!status.ok() || joining->abandoned)  // nobody will use them
      for (eb_communicator*& handle : handles)
        if (handle) table->destroy(std::exchange(handle, nullptr));
    joining->status = std::move(status);
    joining->handles = handles;
    joining->done = true;
    joining->changed.notify_all();
  }).detach();
  std::unique_lock lock(joining->mutex);
  if (!joining->changed.wait_for(lock, patience, [&] { return joining->done; })) {
    joining->abandoned = true;
    return device_error(devices[0]->name(), ": not all of the ", count, " devices have joined for sums after ", static_cast<double>(patience.count()) / 1000,
                        " s: a process is late or the processes cannot reach one another; --deterministic adds up without the backend's collectives");
  }
  if (!joining->status.ok())
    return Status(joining->status.code(), joining->status.message() + " (each process needs a device of its own; --deterministic adds up without the backend's collectives)");
  return own(devices, joining->handles);
}

Communicator::~Communicator() {
  if (device_->lost()) {
    keep_for_lost_device(handle_);
    return;
  }
  table_->destroy(handle_);
}

Status Communicator::all_reduce(const std::vector<Communicator*>& members, const std::vector<void*>& blocks, uint64_t count, DType dtype) {
  const eb_collectives_table& table = *members[0]->table_;
  eb_error error = no_error();
  if (const int32_t code = table.group_begin(&error); code != EB_OK) return to_status(code, error, members[0]->device_->name());
  Status status;
  for (size_t i = 0; i < members.size() && status.ok(); ++i) {
    const Communicator& m = *members[i];
    const int32_t code = table.all_reduce(m.handle_, m.device_->stream(), blocks[i], blocks[i], count, static_cast<int32_t>(dtype), EB_REDUCE_SUM, &error);
    if (code != EB_OK) status = to_status(code, error, m.device_->name());
  }
  const int32_t ended = table.group_end(&error);
  return status.ok() && ended != EB_OK ? to_status(ended, error, members[0]->device_->name()) : status;
}

Status Communicator::health() const {
  eb_error error = no_error();
  const int32_t code = table_->async_error(handle_, &error);
  return code == EB_OK ? Status() : to_status(code, error, device_->name());
}

void Communicator::abort() {
  eb_error error = no_error();
  (void)table_->abort(handle_, &error);
}

}  // namespace eng
