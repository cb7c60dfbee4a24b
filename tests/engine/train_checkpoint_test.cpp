// Checkpoints: everything comes back to the bit; damage, foreign files and other models are refused by name.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/io/safetensors.h"
#include "engine/train/checkpoint.h"

namespace eng {
namespace {
namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("checkpoint_test_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

Checkpoint example() {
  Checkpoint c;
  c.state.epoch = 3;
  c.state.step = 17;
  c.state.pass = 4;
  c.state.batch = 2;
  c.state.step_in_epoch = 1;
  c.state.sums = {0.1 + 0.2, 5, 8};
  c.state.seed = UINT64_MAX;
  c.state.monitor.best = 1.0 / 3;
  c.state.monitor.waited = 1;
  c.state.optimizer = "adam";
  c.tensors["w"] = Tensor::of<float>({2, 2}, {1, 2, 3, 4.5f});
  c.tensors["w/momentum"] = Tensor::of<float>({2, 2}, {0, 0.25f, 0, 0});
  c.tensors["optimizer/step"] = Tensor::of<int64_t>({}, {17});
  c.options = "epochs = 5\n";
  return c;
}

TEST_CASE("a checkpoint comes back to the bit") {
  const Folder folder;
  const Checkpoint c = example();
  REQUIRE(save_checkpoint(folder.file("a.ckpt"), c).ok());
  const auto back = load_checkpoint(folder.file("a.ckpt"));
  REQUIRE_MESSAGE(back.ok(), back.status().message());
  CHECK(back->state.epoch == 3);
  CHECK(back->state.step == 17);
  CHECK(back->state.pass == 4);
  CHECK(back->state.batch == 2);
  CHECK(back->state.step_in_epoch == 1);
  CHECK(back->state.sums.loss == 0.1 + 0.2);
  CHECK(back->state.seed == UINT64_MAX);
  CHECK(*back->state.monitor.best == 1.0 / 3);
  CHECK(back->options == c.options);
  REQUIRE(back->tensors.size() == 3);
  CHECK(std::memcmp(back->tensors.at("w").bytes(), c.tensors.at("w").bytes(), 16) == 0);
  CHECK(back->tensors.at("optimizer/step").to_ints() == std::vector<int64_t>{17});
  CHECK(check_checkpoint(*back, c.tensors, "a.ckpt").ok());
}

TEST_CASE("every single changed bit of a checkpoint is found") {
  const Folder folder;
  REQUIRE(save_checkpoint(folder.file("a.ckpt"), example()).ok());
  std::ifstream in(folder.file("a.ckpt"), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  int found = 0, tried = 0;
  for (size_t bit = 0; bit < good.size() * 8; bit += 5) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(folder.file("b.ckpt"), std::ios::binary) << bad;
    ++tried;
    found += !load_checkpoint(folder.file("b.ckpt")).ok();
  }
  CHECK(tried > 300);
  CHECK(found == tried);
}

TEST_CASE("a checkpoint of another model is refused by the names that differ") {
  const Checkpoint c = example();
  auto wanted = c.tensors;
  wanted.erase("w/momentum");
  wanted["v"] = Tensor::of<float>({1}, {0});
  wanted["w"] = Tensor(DType::kFloat32, {2, 3});
  const Status s = check_checkpoint(c, wanted, "a.ckpt");
  REQUIRE_FALSE(s.ok());
  CHECK(s.message().find("w (checkpoint float32[2,2], model float32[2,3])") != std::string::npos);
  CHECK(s.message().find("not in it: v") != std::string::npos);
  CHECK(s.message().find("only in it: w/momentum") != std::string::npos);
}

TEST_CASE("a safetensors file that is no checkpoint is refused") {
  const Folder folder;
  SafetensorsFile plain;
  plain.tensors["w"] = Tensor::of<float>({1}, {1});
  REQUIRE(write_safetensors(folder.file("w.safetensors"), plain).ok());
  const auto back = load_checkpoint(folder.file("w.safetensors"));
  REQUIRE_FALSE(back.ok());
  CHECK(back.status().message().find("no checkpoint") != std::string::npos);
}

}  // namespace
}  // namespace eng
