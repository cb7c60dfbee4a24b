// The engine's groups of devices (engine/plugin/communicator.h) over the plugin's collectives and the emulated NCCL: in one process, by an id, with a member that
// never comes, and with one that fails.
#include <doctest/doctest.h>

#include <thread>

#include "engine/plugin/communicator.h"
#include "tests/cuda/on_device.h"

using namespace eng;
using namespace std::chrono_literals;

extern "C" const eb_backend_table* eb_get_backend(void);

namespace {

std::vector<std::shared_ptr<Device>> open_devices(int count) {
  std::vector<std::shared_ptr<Device>> out;
  for (int i = 0; i < count; ++i) {
    auto device = Device::open(eb_get_backend(), i);
    REQUIRE_MESSAGE(device.ok(), device.status().message());
    (*device)->set_timeout(5000);
    out.push_back(*device);
  }
  return out;
}

struct Block {
  std::shared_ptr<Device> device;
  DeviceBuffer buffer;
  Block(const std::shared_ptr<Device>& d, const std::vector<float>& values) : device(d) {
    auto made = DeviceBuffer::allocate(d, values.size() * sizeof(float));
    REQUIRE(made.ok());
    buffer = std::move(*made);
    REQUIRE(d->copy_to_device(buffer.data(), values.data(), buffer.bytes()).ok());
    REQUIRE(d->synchronize().ok());
  }
  std::vector<float> read() const {
    std::vector<float> out(buffer.bytes() / sizeof(float));
    REQUIRE(device->copy_to_host(out.data(), buffer.data(), buffer.bytes()).ok());
    REQUIRE(device->synchronize().ok());
    return out;
  }
};

std::vector<Communicator*> pointers(const std::vector<std::unique_ptr<Communicator>>& members) {
  std::vector<Communicator*> out;
  for (const auto& m : members) out.push_back(m.get());
  return out;
}

void check_clean() {
  for (const std::string& v : eng_emulation::violations()) FAIL_CHECK(v);
  for (const std::string& l : eng_emulation::leaks()) FAIL_CHECK(l);
}

}  // namespace

TEST_CASE("communicator: devices of a process add up in place and all have the sum") {
  eng_emulation::reset({.devices = 2, .order = eng_emulation::Order::kRandom, .seed = 2});
  {
    const auto devices = open_devices(2);
    CHECK(Communicator::available(*devices[0]).ok());
    auto members = Communicator::join(devices);
    REQUIRE_MESSAGE(members.ok(), members.status().message());
    std::vector<Block> blocks;
    std::vector<void*> at;
    for (int i = 0; i < 2; ++i) blocks.emplace_back(devices[static_cast<size_t>(i)], std::vector<float>{1.0F * static_cast<float>(i), 10, -1});
    for (const Block& b : blocks) at.push_back(b.buffer.data());
    REQUIRE(Communicator::all_reduce(pointers(*members), at, 3, DType::kFloat32).ok());
    for (const Block& b : blocks) CHECK(b.read() == std::vector<float>{1, 20, -2});
    for (const auto& m : *members) CHECK(m->health().ok());
  }
  check_clean();
}

TEST_CASE("communicator: a CPU has no collectives") {
  auto cpu = Device::open("cpu:0");
  REQUIRE(cpu.ok());
  CHECK(!Communicator::offered(**cpu));
  CHECK(Communicator::join({*cpu}).status().message() == "cpu:0: its backend has no collective operations");
}

TEST_CASE("communicator: processes meet by an id") {
  eng_emulation::reset({.devices = 2});
  {
    const auto devices = open_devices(2);
    const auto id = Communicator::make_id(*devices[0]);
    REQUIRE(id.ok());
    const auto process = [&](int number) {  // a thread plays it
      const std::vector<std::shared_ptr<Device>> own{devices[static_cast<size_t>(number)]};
      auto members = Communicator::join(own, *id, 2, number, 20s);
      REQUIRE_MESSAGE(members.ok(), members.status().message());
      const Block block(own[0], {static_cast<float>(1 + number), 1});
      REQUIRE(Communicator::all_reduce(pointers(*members), {block.buffer.data()}, 2, DType::kFloat32).ok());
      CHECK(block.read() == std::vector<float>{3, 2});
    };
    std::thread other(process, 1);
    process(0);
    other.join();
  }
  check_clean();
}

TEST_CASE("communicator: a member that never comes is waited for as long as said") {
  eng_emulation::reset({.devices = 1, .hang_seconds = 1});
  {
    const auto devices = open_devices(1);
    const auto id = Communicator::make_id(*devices[0]);
    REQUIRE(id.ok());
    const auto begun = std::chrono::steady_clock::now();
    const auto members = Communicator::join(devices, *id, 2, 0, 200ms);
    CHECK(std::chrono::steady_clock::now() - begun < 1s);
    REQUIRE(!members.ok());
    CHECK(members.status().code() == Code::kDevice);
    CHECK(members.status().message().find("cuda:0: not all of the 2 devices have joined for sums after 0.2 s") == 0);
    std::this_thread::sleep_for(1500ms);  // the call that was left behind ends
  }
  CHECK(caught("did not come"));
  eng_emulation::reset();
}

TEST_CASE("communicator: a device that fails is an error of the group, and after an abort the others are free") {
  eng_emulation::reset({.devices = 2, .fail_operation = 3});
  {
    const auto devices = open_devices(2);
    auto members = Communicator::join(devices);
    REQUIRE(members.ok());
    const Block first(devices[0], {1, 2}), second(devices[1], {3, 4});
    REQUIRE(devices[1]->fill_zero(second.buffer.data(), 4).ok());
    REQUIRE(!devices[1]->synchronize().ok());
    CHECK(!Communicator::all_reduce(pointers(*members), {first.buffer.data(), second.buffer.data()}, 2, DType::kFloat32).ok());
    CHECK((*members)[0]->health().ok());
    CHECK(!(*members)[1]->health().ok());
    for (const auto& m : *members) m->abort();
    CHECK(devices[0]->synchronize().ok());
    CHECK(!Communicator::all_reduce(pointers(*members), {first.buffer.data(), second.buffer.data()}, 2, DType::kFloat32).ok());
  }
  eng_emulation::reset();
}
