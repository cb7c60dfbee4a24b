// External data is found beside the model, wherever the program runs; writing elsewhere gives a complete pair and leaves the source alone.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "importers/onnx/export_model.h"
#include "tests/importers/run_model.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

using namespace eng::test;
namespace fs = std::filesystem;

// A Gemm net with W = 0, 1, 2, ...; its two tensors in one file, as onnx.save(save_as_external_data) lays them out.
void write_net(const TempFolder& folder) {
  ModelProto m = empty_model();
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 4});
  *g.add_initializer() = external_tensor("W", {4, 3}, {{"location", "net.data"}, {"offset", "0"}, {"length", "48"}});
  *g.add_initializer() = external_tensor("B", {3}, {{"location", "net.data"}, {"offset", "48"}, {"length", "12"}});
  add_node(g, "Gemm", {"x", "W", "B"}, {"y"});
  add_output(g, "y", {-1, 3});
  std::vector<float> content;
  for (int i = 0; i < 15; ++i) content.push_back(static_cast<float>(i));
  write_file(folder / "m/net.onnx", m.SerializeAsString());
  write_file(folder / "m/net.data", std::string(reinterpret_cast<const char*>(content.data()), content.size() * 4));
}

class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& path) : before_(fs::current_path()) { fs::current_path(path); }
  ~WorkingFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

void check_net(const std::string& path) {
  auto g = import_onnx(path);
  REQUIRE_MESSAGE(g.ok(), g.status().message());
  check_near(*g->constant(g->find_value("W")), {4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  check_near(*g->constant(g->find_value("B")), {3}, {12, 13, 14});
}

}  // namespace

TEST_CASE("case 12: external data is found from every working folder, by every spelling of the path, through a symlink to the model") {
  TempFolder folder;
  write_net(folder);
  fs::create_symlink(folder / "m/net.onnx", folder / "other/link.onnx");
  {
    WorkingFolder root("/");
    check_net(folder / "m/net.onnx");
    check_net((folder / "m/net.onnx").substr(1));
    check_net(folder / "other/link.onnx");
  }
  {
    WorkingFolder inside(folder.path() + "/m");
    check_net("net.onnx");
    check_net("./net.onnx");
    check_net("../m/net.onnx");
    check_net("../other/link.onnx");
  }
}

TEST_CASE("case 12: written to another folder it is complete, and the source's data file is untouched") {
  TempFolder folder;
  write_net(folder);
  auto g = import_onnx(folder / "m/net.onnx");
  REQUIRE(g.ok());
  SUBCASE("as one file") {
    REQUIRE(export_onnx(*g, folder / "out/net.onnx").ok());
    CHECK(fs::file_size(folder / "m/net.data") == 60);
  }
  SUBCASE("over the source itself, as a pair") {
    ModelProto big;
    Graph wide = *g;
    wide.value(wide.find_value("W")).data = std::make_shared<const Tensor>(ramp({4, 300}));
    wide.value(wide.find_value("W")).shape = {4, 300};
    wide.value(wide.find_value("B")).data = std::make_shared<const Tensor>(ramp({300}));
    wide.value(wide.find_value("B")).shape = {300};
    wide.value(wide.outputs[0]).declared_dims[1] = 300;
    REQUIRE(export_onnx_split(wide, folder / "m/net.onnx", 0).ok());
    CHECK(fs::file_size(folder / "m/net.data") == 60);
    CHECK_NOTHROW(onnx::checker::check_model(folder / "m/net.onnx", true));
    return;
  }
  fs::remove_all(folder.path() + "/m");
  CHECK_NOTHROW(onnx::checker::check_model(folder / "out/net.onnx", true));
  check_net(folder / "out/net.onnx");
}

}  // namespace eng
