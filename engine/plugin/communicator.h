// Membership of devices in a group that adds up what each member has (the ABI's collectives; NCCL for GPUs). A member is a device of this process or of
// another one. A group may be of one process (join) or of several, which meet by an id that one of them makes and hands to the others.
// Another collective operation of the ABI: a function beside all_reduce.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engine/plugin/device.h"

namespace eng {

class Communicator {
 public:
  static bool offered(const Device& device);  // whether the device's backend has collectives
  // Whether it can use them now; else why not. The first call loads what the backend needs for them.
  static Status available(const Device& device);
  // All members are devices of this process, each another one.
  static Result<std::vector<std::unique_ptr<Communicator>>> join(const std::vector<std::shared_ptr<Device>>& devices);

  static Result<eb_unique_id> make_id(const Device& device);
  // These devices become members first, first + 1, ... of `count`. Waits until all members have come, at most as long as `patience`: then the
  // process cannot go on (the call that waits is left behind) and should end.
  static Result<std::vector<std::unique_ptr<Communicator>>> join(const std::vector<std::shared_ptr<Device>>& devices, const eb_unique_id& id, int count, int first,
                                                                 std::chrono::milliseconds patience);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Enqueues on each member's stream: block[i] += what the other members have there, over `count` elements; all members get the same bits. `members`: all of
  // this process, made together; block[i] lies on member i's device. All processes make the same calls in the same order. One thread at a time.
  static Status all_reduce(const std::vector<Communicator*>& members, const std::vector<void*>& blocks, uint64_t count, DType dtype);
  // The first error of what was enqueued. Cheap.
  Status health() const;
  // Ends what was enqueued and waits for other members; nothing can be enqueued any more.
  void abort();

  const std::shared_ptr<Device>& device() const { return device_; }

 private:
  Communicator(std::shared_ptr<Device> device, const eb_collectives_table* table, eb_communicator* handle) : device_(std::move(device)), table_(table), handle_(handle) {}
  static std::vector<std::unique_ptr<Communicator>> own(const std::vector<std::shared_ptr<Device>>& devices, const std::vector<eb_communicator*>& handles);
  std::shared_ptr<Device> device_;
  const eb_collectives_table* table_;
  eb_communicator* handle_;
};

}  // namespace eng
