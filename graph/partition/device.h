// What the planner knows of the machine: devices and the directed links between them. Filled by the caller from
// measurements or from a what-if on the command line; the planner itself touches no hardware.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eng {

struct DeviceSpec {
  std::string name;                      // "cpu:0"
  std::optional<uint64_t> memory_limit;  // bytes; none: as much as is needed
  double flops_per_second = 0;           // for rooflines, where no measured time is known
  double bytes_per_second = 0;
};

// One direction between two devices: a transfer of b bytes occupies it for latency + b / bytes_per_second.
struct LinkSpec {
  double latency = 0;  // seconds
  double bytes_per_second = 0;
  double seconds(uint64_t bytes) const {
    return latency + (bytes_per_second > 0 ? static_cast<double>(bytes) / bytes_per_second : 0);
  }
};

struct Machine {
  std::vector<DeviceSpec> devices;
  std::vector<LinkSpec> links;  // from * devices + to; the diagonal is not used

  int device_count() const { return static_cast<int>(devices.size()); }
  const LinkSpec& link(int from, int to) const { return links[static_cast<size_t>(from * device_count() + to)]; }
  LinkSpec& link(int from, int to) { return links[static_cast<size_t>(from * device_count() + to)]; }
  // Every link alike.
  void connect_all(LinkSpec link) { links.assign(devices.size() * devices.size(), link); }
};

}  // namespace eng
