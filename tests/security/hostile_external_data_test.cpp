// Hostile external data: every place a tensor can hide, every path that could lead out of the model's folder, every size that does
// not fit. A new attack is one row or one test case.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include "tests/security/read_apart.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

using namespace eng::test;
namespace fs = std::filesystem;

const std::string kSixteenBytes("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 16);
const std::map<std::string, std::string> kPasswd = {{"location", "../../../etc/passwd"}, {"length", "16"}};

// folder/m/net.onnx, whose tensor w [4] has the given external data; data.bin of 16 bytes lies beside it.
std::string external_case(const TempFolder& folder, const std::map<std::string, std::string>& entries) {
  write_file(folder / "m/data.bin", kSixteenBytes);
  write_file(folder / "m/net.onnx", add_model(external_tensor("w", {4}, entries)).SerializeAsString());
  return folder / "m/net.onnx";
}

}  // namespace

TEST_CASE("external data beside the model is read, with offset, length and a right checksum") {
  TempFolder folder;
  auto graph = import_onnx(external_case(folder, {{"location", "data.bin"}, {"offset", "0"}, {"length", "16"}, {"checksum", "56178B86A57FAC22899A9964185C2CC96E7DA589"}}));
  REQUIRE_MESSAGE(graph.ok(), graph.status().message());
  const Tensor* w = graph->constant(graph->find_value("w"));
  REQUIRE(w);
  CHECK(std::string(reinterpret_cast<const char*>(w->bytes()), w->byte_count()) == kSixteenBytes);
}

TEST_CASE("external data outside the model's folder or that does not fit is refused") {
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> rows = {
      {kPasswd, "'..'"},
      {{{"location", "junk/../../x"}}, "'..'"},
      {{{"location", ".."}}, "'..'"},
      {{{"location", "/etc/passwd"}}, "absolute"},
      {{{"location", ""}}, "empty"},
      {{{"location", std::string("data.bin\0x", 10)}}, "zero byte"},
      {{{"offset", "0"}}, "empty"},
      {{{"location", "none.bin"}}, "cannot open external data"},
      {{{"location", "."}}, "a folder"},
      {{{"location", "data.bin"}, {"basepath", "/etc"}}, "unknown key 'basepath'"},
      {{{"location", "data.bin"}, {"offset", "-1"}}, "offset '-1'"},
      {{{"location", "data.bin"}, {"offset", "9223372036854775807"}}, "'data.bin' has 16"},
      {{{"location", "data.bin"}, {"offset", "99999999999999999999"}}, "is not a number"},
      {{{"location", "data.bin"}, {"offset", "9999999999999999999"}}, "is not a number"},
      {{{"location", "data.bin"}, {"length", "-16"}}, "is not a number"},
      {{{"location", "data.bin"}, {"length", "9223372036854775807"}}, "wants 16 bytes"},
      {{{"location", "data.bin"}, {"length", "12"}}, "wants 16 bytes"},
      {{{"location", "data.bin"}, {"length", "0x10"}}, "is not a number"},
      {{{"location", "data.bin"}, {"offset", "4"}}, "'data.bin' has 16"},
      {{{"location", "data.bin"}, {"checksum", "0000000000000000000000000000000000000000"}}, "checksum"},
  };
  for (const auto& [entries, wanted] : rows) {
    TempFolder folder;
    CAPTURE(wanted);
    refused(read_path(external_case(folder, entries)), wanted);
  }
}

TEST_CASE("external data that is cut short is refused") {
  TempFolder folder;
  const std::string model = external_case(folder, {{"location", "data.bin"}, {"length", "16"}});
  write_file(folder / "m/data.bin", kSixteenBytes.substr(0, 15));
  refused(read_path(model), "'data.bin' has 15");
}

TEST_CASE("external data reached through links or that is no regular file is refused") {
  TempFolder folder;
  const std::string model = external_case(folder, {{"location", "inner/link.bin"}});
  const std::string outside = folder / "outside.bin", link = folder / "m/inner/link.bin";
  write_file(outside, kSixteenBytes);
  SUBCASE("a symlink as file") {
    fs::create_symlink(outside, link);
    refused(read_path(model), "symlink");
    ImportOptions options;
    options.allow_symlinks = true;
    CHECK(read_path(model, options).accepted);
  }
  SUBCASE("a symlink to a file in the folder is no better") {
    fs::create_symlink("../data.bin", link);
    refused(read_path(model), "symlink");
  }
  SUBCASE("a symlink as parent folder") {
    fs::remove(folder.path() + "/m/inner");
    write_file(folder / "elsewhere/link.bin", kSixteenBytes);
    fs::create_directory_symlink(folder.path() + "/elsewhere", folder.path() + "/m/inner");
    refused(read_path(model), "symlink");
  }
  SUBCASE("a hard link to a file outside") {
    fs::create_hard_link(outside, link);
    refused(read_path(model), "hard links");
    ImportOptions options;
    options.allow_symlinks = true;
    CHECK(read_path(model, options).accepted);
  }
  SUBCASE("a FIFO") {
    REQUIRE(mkfifo(link.c_str(), 0600) == 0);
    refused(read_path(model), "a FIFO");
  }
  SUBCASE("a folder") {
    fs::create_directory(link);
    refused(read_path(model), "a folder");
  }
  SUBCASE("a device") {
    if (mknod(link.c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0) refused(read_path(model), "device");
    else MESSAGE("no right to make a device; not tried");
  }
}

TEST_CASE("external data is refused alike in every place that can hold a tensor") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  GraphProto& g = *m.mutable_graph();
  const TensorProto bad = external_tensor("bad", {4}, kPasswd);
  SUBCASE("a Constant node") { *add_attribute(add_node(g, "Constant", {}, {"c"}), "value", AttributeProto::TENSOR).mutable_t() = bad; }
  SUBCASE("the values of a sparse initializer") {
    auto& sparse = *g.add_sparse_initializer();
    *sparse.mutable_values() = bad;
    *sparse.mutable_indices() = int_tensor("", {0, 1, 2, 3});
    sparse.add_dims(8);
  }
  SUBCASE("a Constant's sparse value") {
    auto& sparse = *add_attribute(add_node(g, "Constant", {}, {"c"}), "sparse_value", AttributeProto::SPARSE_TENSOR).mutable_sparse_tensor();
    *sparse.mutable_values() = bad;
    *sparse.mutable_indices() = int_tensor("", {0, 1, 2, 3});
    sparse.add_dims(8);
  }
  SUBCASE("an attribute of an unknown operator") {
    auto* o = m.add_opset_import();
    o->set_domain("com.acme");
    o->set_version(1);
    NodeProto& n = add_node(g, "Foo", {"x"}, {"f"});
    n.set_domain("com.acme");
    SUBCASE("a tensor") { *add_attribute(n, "t", AttributeProto::TENSOR).mutable_t() = bad; }
    SUBCASE("a list of tensors") { *add_attribute(n, "ts", AttributeProto::TENSORS).add_tensors() = bad; }
  }
  SUBCASE("a sub-graph") {
    add_input(g, "condition", {}, TensorProto::BOOL);
    NodeProto& n = add_node(g, "If", {"condition"}, {"z"});
    for (const char* branch : {"then_branch", "else_branch"}) {
      GraphProto& inner = *add_attribute(n, branch, AttributeProto::GRAPH).mutable_g();
      inner.set_name(branch);
      *inner.add_initializer() = bad;
      add_output(inner, "bad", {4});
    }
  }
  SUBCASE("a function") {
    auto* o = m.add_opset_import();
    o->set_domain("local");
    o->set_version(1);
    auto& f = *m.add_functions();
    f.set_name("F");
    f.set_domain("local");
    f.add_input("a");
    f.add_output("b");
    *f.add_opset_import() = m.opset_import(0);
    NodeProto& c = *f.add_node();
    c.set_op_type("Constant");
    c.add_output("c");
    *add_attribute(c, "value", AttributeProto::TENSOR).mutable_t() = bad;
    NodeProto& add = *f.add_node();
    add.set_op_type("Add");
    add.add_input("a");
    add.add_input("c");
    add.add_output("b");
    SUBCASE("that is called") { add_node(g, "F", {"x"}, {"fx"}).set_domain("local"); }
    SUBCASE("that is not called") {}
  }
  SUBCASE("training_info") {
    GraphProto& inner = *m.add_training_info()->mutable_initialization();
    inner.set_name("i");
    *inner.add_initializer() = bad;
    add_output(inner, "bad", {4});
  }
  TempFolder folder;
  write_file(folder / "m/net.onnx", m.SerializeAsString());
  refused(read_path(folder / "m/net.onnx"), "'..'");
}

TEST_CASE("many tensors over the same bytes do not multiply memory") {
  TempFolder folder;
  write_file(folder / "m/data.bin", std::string(8 << 20, 'x'));
  ModelProto m = empty_model();
  std::string dots;
  for (int i = 0; i < 500; ++i) {
    if (i % 50 == 0) dots += "./";  // another spelling is not another file
    *m.mutable_graph()->add_initializer() =
        external_tensor("w" + std::to_string(i), {1 << 20}, {{"location", dots + "data.bin"}, {"offset", std::to_string(4 * i)}});
  }
  write_file(folder / "m/net.onnx", m.SerializeAsString());
  refused(read_path(folder / "m/net.onnx"), "overlap");
}

}  // namespace eng
