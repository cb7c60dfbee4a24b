// Loading plugins: what is refused and how it is said; a loaded backend runs programs; its failures reach the caller by name.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/abi/backend.hpp"
#include "engine/exec/program.h"
#include "engine/plugin/loader.h"
#include "graph/ops/op.h"
#include "tests/support/fake_plugin.h"

using namespace eng;
using namespace eng::test;

namespace {

std::string refusal(const std::vector<std::pair<std::string, std::string>>& settings) { return load_fake(settings).status().message(); }
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// y = (x w) + b with w, b in the store; x [2,3].
struct Small {
  Graph g;
  ValueId x, y;
  Small() {
    x = g.add_value("x", DType::kFloat32, {2, 3});
    g.value(x).role = Role::kInput;
    g.inputs = {x};
    Builder b(g);
    y = b.op("Add", {b.op("MatMul", {b.op("Identity", {x}), g.add_tensor("w", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}), Role::kParameter)}),
                     g.add_tensor("b", Tensor::of<float>({2, 2}, {10, 20, 30, 40}), Role::kConstant)});
  }
};

Result<std::shared_ptr<Device>> open_fake(const std::string& name, std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("FAKE_NAME", name);
  auto table = load_fake(settings);
  if (!table.ok()) return table.status();
  return Device::open(name + ":1");
}

}  // namespace

TEST_CASE("loader: a plugin that breaks the rules is refused with what is wrong") {
  CHECK(says(refusal({{"FAKE_MAJOR", "2"}}), cat("it speaks backend ABI 2.", EB_ABI_MINOR, ", this engine 1.", EB_ABI_MINOR, "; the major versions must be the same")));
  CHECK(says(refusal({{"FAKE_SHORT", "backend"}}), "its backend table is 40 bytes long, this engine needs"));
  CHECK(says(refusal({{"FAKE_SHORT", "core"}}), "its core table is 16 bytes long"));
  CHECK(says(refusal({{"FAKE_SHORT", "kernel"}}), "kernel 1: its descriptor is 64 bytes long"));
  CHECK(says(refusal({{"FAKE_NULL", "table"}}), "eb_get_backend returned null"));
  CHECK(says(refusal({{"FAKE_NULL", "allocate"}}), "the function allocate of its memory table is null"));
  CHECK(says(refusal({{"FAKE_NULL", "run"}}), "kernel 2 (MatMul): the function run of its descriptor is null"));
  CHECK(says(refusal({{"FAKE_NAME", "cpu"}}), "a backend named 'cpu' is there already"));
}

TEST_CASE("loader: a plugin of version 1.0 is taken; its shorter memory table has no copy between devices") {
  auto table = load_fake({{"FAKE_NAME", "fake_minor_0"}, {"FAKE_MINOR", "0"}});
  REQUIRE_MESSAGE(table.ok(), table.status().message());
  CHECK((*table)->abi_minor == 0);
  CHECK((*table)->memory->struct_size == 72);
  CHECK(static_cast<bool>(eb::copy_between(*(*table)->memory)) == false);
  CHECK(Device::open("fake_minor_0:0").ok());
}

TEST_CASE("loader: files that are no plugins") {
  CHECK(says(load_backend("/nowhere/engine-backend-x.so").status().message(), "backend '/nowhere/engine-backend-x.so' cannot be loaded"));
  CHECK(says(load_backend("/lib/x86_64-linux-gnu/libm.so.6").status().message(), "it does not export eb_get_backend; it is no backend of this engine"));
  CHECK(load_backends("/nowhere").code() == Code::kNotFound);
  CHECK(says(load_backends("/proc/self/fdinfo").message(), "backend path '/proc/self/fdinfo': the folder holds no plugin; one is named engine-backend-*.so or libengine_backend_*.so"));
}

TEST_CASE("loader: a list of folders loads engine-backend-*.so, each once") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("plugins-" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::copy_file(fake_backend_path(), folder / "engine-backend-one.so", fs::copy_options::overwrite_existing);
  std::ofstream(folder / "notes.so") << "not a plugin, and not named like one";
  const size_t before = backends().size();
  setenv("FAKE_NAME", "from_folder", 1);
  CHECK(load_backends(folder.string()).ok());
  CHECK(load_backends(folder.string() + ":" + (folder / "engine-backend-one.so").string()).ok());
  unsetenv("FAKE_NAME");
  CHECK(backends().size() == before + 1);
  CHECK(Device::open("from_folder:0").ok());
  fs::remove_all(folder);
}

TEST_CASE("loader: a program runs on a plugin whose memory the host cannot touch") {
  Small s;
  auto device = open_fake("fake_program");
  REQUIRE_MESSAGE(device.ok(), device.status().message());
  CHECK((*device)->name() == "fake_program:1");
  auto store = std::make_shared<StateStore>(*device);
  auto program = Program::compile(s.g, *device, store, {s.y});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  CHECK((*program)->memory().constants == 16);
  Tensor y;
  const Tensor x = Tensor::of<float>({2, 3}, {1, 0, 0, 1, 1, 1});
  REQUIRE(((*program)->feed(s.x, x).ok() && (*program)->run().ok() && (*program)->fetch(s.y, y).ok()));
  const std::vector<float> wanted{11, 22, 39, 52};
  for (int i = 0; i < 4; ++i) CHECK(y.at(i) == wanted[static_cast<size_t>(i)]);
}

TEST_CASE("loader: what fails on a device reaches the caller") {
  Small s;
  const Tensor x(DType::kFloat32, {2, 3});
  Tensor y;
  SUBCASE("an allocation") {
    auto device = open_fake("fake_memory", {{"FAKE_FAIL_ALLOCATION", "3"}});
    REQUIRE(device.ok());
    auto program = Program::compile(s.g, *device, std::make_shared<StateStore>(*device), {s.y});
    CHECK(program.status().code() == Code::kDevice);
    CHECK(says(program.status().message(), "out of device memory"));
  }
  SUBCASE("a kernel that fails, and one that throws") {
    for (const char* how : {"FAKE_ERROR_AT", "FAKE_THROW_AT"}) {
      auto device = open_fake(std::string("fake_") + (how[5] == 'E' ? "error" : "throw"), {{how, "5"}});
      REQUIRE(device.ok());
      auto program = Program::compile(s.g, *device, std::make_shared<StateStore>(*device), {s.y});
      REQUIRE(program.ok());
      REQUIRE(((*program)->feed(s.x, x).ok() && (*program)->run().ok() && (*program)->fetch(s.y, y).ok()));
      REQUIRE((*program)->run().ok());
      const Status status = (*program)->fetch(s.y, y);
      CHECK(status.code() == Code::kDevice);
      CHECK(says(status.message(), how[5] == 'E' ? "kernel 5 failed on request" : "kernel 5 threw on request"));
    }
  }
  SUBCASE("an operator that the plugin does not have") {
    auto device = open_fake("fake_operator");
    REQUIRE(device.ok());
    Builder b(s.g);
    const ValueId z = b.op("Relu", {s.y});
    auto program = Program::compile(s.g, *device, std::make_shared<StateStore>(*device), {z});
    CHECK(program.status().code() == Code::kUnsupported);
    CHECK(says(program.status().message(), "Relu with output 'Relu': fake_operator:1 cannot run it; it has no kernel for this operator"));
  }
}

TEST_CASE("loader: waiting for a device that hangs ends when the time is over") {
  auto table = load_fake({{"FAKE_NAME", "fake_hang"}, {"FAKE_HANG_AT", "1"}});
  REQUIRE(table.ok());
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, {1});
  g.value(x).role = Role::kInput;
  Builder b(g);
  b.op("Identity", {x});
  auto device = Device::open(*table, 0);
  REQUIRE(device.ok());
  auto kernel = DeviceKernel::create(*device, g, g.node(0));
  auto from = DeviceBuffer::allocate(*device, 4), to = DeviceBuffer::allocate(*device, 4);
  REQUIRE((kernel.ok() && from.ok() && to.ok()));
  const void* in[] = {from->data()};
  void* out[] = {to->data()};
  REQUIRE(kernel->run(in, out, nullptr).ok());
  (*device)->set_timeout(50);
  const Status status = (*device)->synchronize();
  CHECK(status.code() == Code::kDevice);
  CHECK(says(status.message(), "has not answered for 0.05 s"));
}
