// The ONNX writer: what comes out passes ONNX's checker, is written whole or not at all, and never over somebody else's data.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "importers/onnx/export_model.h"
#include "tests/importers/run_model.h"
#include "tests/support/model_builder.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

using namespace eng::test;
namespace fs = std::filesystem;

Graph small_net() {
  ModelBuilder b;
  const ValueId x = b.input("x", {3});
  const ValueId y = b.op("Gemm", {x, b.weight("w", {3, 400}), b.weight("b", {400})}, {}, "dense");
  b.output(y, "y");
  b.g.value(y).dtype = DType::kFloat32;
  b.g.value(y).declared_dims = {-1, 400};
  b.g.value(y).declared_dim_names = {"N", ""};
  return std::move(b.g);
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool same_weights(const Graph& a, const Graph& b, const char* name) {
  const Tensor &ta = *a.value(a.find_value(name)).data, &tb = *b.value(b.find_value(name)).data;
  return ta.shape() == tb.shape() && ta.dtype() == tb.dtype() && std::memcmp(ta.bytes(), tb.bytes(), ta.byte_count()) == 0;
}

}  // namespace

TEST_CASE("a written model passes the checker and holds the same bits") {
  const Graph g = small_net();
  const ModelProto m = export_checked(g);
  CHECK(m.graph().initializer_size() == 2);
  CHECK(m.opset_import_size() == 1);
  const Graph back = import_model(m);
  CHECK(same_weights(g, back, "w"));
  CHECK(same_weights(g, back, "b"));
  CHECK(print(back).find("Gemm") != std::string::npos);
}

TEST_CASE("attributes of every kind come back as they were") {
  Graph g = small_net();
  Node& n = g.node(0);
  n.domain = "com.acme";
  g.opsets["com.acme"] = 3;
  auto inner = std::make_shared<Graph>();
  inner->inputs.push_back(inner->add_value("i", DType::kFloat32, {2}));
  inner->value(0).role = Role::kInput;
  inner->outputs.push_back(inner->node(inner->add_node("", "Relu", {0}, 1, {}, "r")).outputs[0]);
  n.attributes.set("f", 1.5f);
  n.attributes.set("i", int64_t{-7});
  n.attributes.set("s", std::string("text"));
  n.attributes.set("fs", std::vector<float>{1, 2});
  n.attributes.set("is", std::vector<int64_t>{3, 4});
  n.attributes.set("ss", std::vector<std::string>{"a", "b"});
  n.attributes.set("t", Tensor::ints({5, 6}));
  n.attributes.set("g", inner);
  const Graph back = import_model(export_checked(g));
  const Attributes& a = back.node(0).attributes;
  CHECK(back.opsets.at("com.acme") == 3);
  CHECK(a.get_float("f", 0) == 1.5f);
  CHECK(a.get_int("i", 0) == -7);
  CHECK(a.get_string("s", "") == "text");
  CHECK(a.get_floats("fs") == std::vector<float>{1, 2});
  CHECK(a.get_ints("is") == std::vector<int64_t>{3, 4});
  REQUIRE(a.find<std::vector<std::string>>("ss"));
  CHECK(*a.find<std::vector<std::string>>("ss") == std::vector<std::string>{"a", "b"});
  REQUIRE(a.find<Tensor>("t"));
  CHECK(a.find<Tensor>("t")->to_ints() == std::vector<int64_t>{5, 6});
  REQUIRE(a.find<std::shared_ptr<Graph>>("g"));
  CHECK((*a.find<std::shared_ptr<Graph>>("g"))->node(0).op_type == "Relu");
}

TEST_CASE("kinds of attributes that the graph has no place for survive import and export") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  auto* o = m.add_opset_import();
  o->set_domain("com.acme");
  o->set_version(1);
  NodeProto& n = add_node(*m.mutable_graph(), "Foo", {"x"}, {"f"});
  n.set_domain("com.acme");
  *add_attribute(n, "ts", AttributeProto::TENSORS).add_tensors() = float_tensor("t", {1}, {3});
  add_attribute(n, "tp", AttributeProto::TYPE_PROTO).mutable_tp()->mutable_tensor_type()->set_elem_type(TensorProto::INT8);
  const ModelProto out = export_checked(import_model(m));
  const NodeProto& back = out.graph().node(1);
  REQUIRE(back.attribute_size() == 2);
  CHECK(back.attribute(0).tp().tensor_type().elem_type() == TensorProto::INT8);
  CHECK(back.attribute(1).tensors(0).raw_data().size() == 4);
}

TEST_CASE("a step graph is written with its updates as outputs and the engine's domain imported") {
  Graph g = small_net();
  const ValueId w = g.find_value("w");
  g.value(w).role = Role::kParameter;
  Node step;
  step.domain = kEngineDomain;
  step.op_type = "SomeUpdate";
  step.inputs = {w};
  step.outputs = {g.add_value("w/next", DType::kFloat32, {3, 400})};
  g.add_node(step);
  g.updates.emplace_back(w, g.find_value("w/next"));
  const ModelProto m = export_checked(g);
  CHECK(m.graph().output_size() == 2);
  CHECK(m.graph().output(1).name() == "w/next");
  REQUIRE(m.metadata_props_size() == 1);
  CHECK(m.metadata_props(0).key() == "update:w");
  CHECK(m.metadata_props(0).value() == "w/next");
  bool imported = false;
  for (const auto& o : m.opset_import()) imported |= o.domain() == kEngineDomain && o.version() == 1;
  CHECK(imported);
}

TEST_CASE("constants that nothing reads any more are not written") {
  Graph g = small_net();
  g.add_tensor("left over", Tensor(DType::kFloat32, {1000}), Role::kConstant);
  CHECK(export_checked(g).graph().initializer_size() == 2);
}

TEST_CASE("a graph that is not sound is not written") {
  Graph g = small_net();
  g.node(0).inputs[0] = g.add_value("ghost");
  CHECK(export_onnx_bytes(g).status().message().find("'ghost'") != std::string::npos);
  TempFolder folder;
  CHECK_FALSE(export_onnx(g, folder / "net.onnx").ok());
  CHECK(files_in(folder.path()).empty());
}

TEST_CASE("writing replaces the target whole and leaves nothing else behind") {
  TempFolder folder;
  const std::string path = folder / "net.onnx";
  REQUIRE(export_onnx(small_net(), path).ok());
  CHECK(files_in(folder.path()) == std::vector<std::string>{"net.onnx"});
  const std::string first = content_of(path);
  REQUIRE(export_onnx(small_net(), path).ok());
  CHECK(content_of(path) == first);
  SUBCASE("a symlink is replaced, not followed") {
    write_file(folder / "victim", "untouched");
    fs::create_symlink(folder / "victim", folder / "link.onnx");
    REQUIRE(export_onnx(small_net(), folder / "link.onnx").ok());
    CHECK(content_of(folder / "victim") == "untouched");
    CHECK_FALSE(fs::is_symlink(folder / "link.onnx"));
  }
  SUBCASE("a folder that is not there") { CHECK(export_onnx(small_net(), folder.path() + "/none/net.onnx").message().find("none/net.onnx") != std::string::npos); }
  SUBCASE("a folder of that name") {
    fs::create_directory(folder / "dir.onnx");
    CHECK_FALSE(export_onnx(small_net(), folder / "dir.onnx").ok());
    CHECK(files_in(folder.path()) == std::vector<std::string>{"dir.onnx", "net.onnx"});
  }
}

TEST_CASE("large weights go to a new file beside the model; existing data files are left alone") {
  TempFolder folder;
  const std::string path = folder / "net.onnx";
  const Graph g = small_net();
  write_file(folder / "net.onnx.0.data", "of the source model");
  REQUIRE(export_onnx_split(g, path, 100).ok());
  CHECK(files_in(folder.path()) == std::vector<std::string>{"net.onnx", "net.onnx.0.data", "net.onnx.1.data"});
  CHECK(content_of(folder / "net.onnx.0.data") == "of the source model");
  CHECK_NOTHROW(onnx::checker::check_model(path, true));
  auto back = import_onnx(path);
  REQUIRE_MESSAGE(back.ok(), back.status().message());
  CHECK(same_weights(g, *back, "w"));
  CHECK(same_weights(g, *back, "b"));
  // The pair is self-contained: it can be moved.
  fs::rename(folder.path(), folder.path() + "-moved");
  CHECK(import_onnx(folder.path() + "-moved/net.onnx").ok());
  fs::rename(folder.path() + "-moved", folder.path());
}

}  // namespace eng
