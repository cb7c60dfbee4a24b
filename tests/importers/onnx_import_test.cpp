// What the ONNX reader makes of well-formed files: names, constants, functions, roles, what stays unsupported.
#include <filesystem>

#include "graph/ops/op.h"
#include "tests/importers/run_model.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

using namespace eng::test;
namespace fs = std::filesystem;

TensorProto typed(int type, const std::string& name, int64_t count) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(type);
  t.add_dims(count);
  return t;
}

onnx::FunctionProto& add_function(ModelProto& m, const std::string& name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  if (m.functions_size() == 0) {
    auto* o = m.add_opset_import();
    o->set_domain("local");
    o->set_version(1);
  }
  auto& f = *m.add_functions();
  f.set_name(name);
  f.set_domain("local");
  for (const auto& i : inputs) f.add_input(i);
  for (const auto& o : outputs) f.add_output(o);
  for (const auto& import : m.opset_import()) *f.add_opset_import() = import;
  return f;
}

NodeProto& add_node(onnx::FunctionProto& f, const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs, const std::string& domain = "") {
  NodeProto& n = *f.add_node();
  n.set_op_type(op);
  n.set_domain(domain);
  for (const auto& i : inputs) n.add_input(i);
  for (const auto& o : outputs) n.add_output(o);
  return n;
}
using test::add_node;

void refer(NodeProto& n, const std::string& name, const std::string& outer, AttributeProto::AttributeType type) {
  AttributeProto& a = add_attribute(n, name, type);
  a.set_ref_attr_name(outer);
}

}  // namespace

TEST_CASE("names, documentation, metadata and symbolic dimensions are kept") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  m.set_doc_string("a model");
  m.set_producer_name("maker");
  m.set_producer_version("3.1");
  m.set_domain("org.example");
  m.set_model_version(7);
  m.mutable_graph()->set_name("the graph");
  m.mutable_graph()->mutable_node(0)->set_name("block/add");
  m.mutable_graph()->mutable_node(0)->set_doc_string("adds");
  auto* pair = m.add_metadata_props();
  pair->set_key("classes");
  pair->set_value("cat,dog");
  const Graph g = import_model(m);
  const ModelProto out = export_checked(g);
  CHECK(out.doc_string() == "a model");
  CHECK(out.producer_name() == "maker");
  CHECK(out.producer_version() == "3.1");
  CHECK(out.domain() == "org.example");
  CHECK(out.model_version() == 7);
  CHECK(out.metadata_props(0).value() == "cat,dog");
  CHECK(out.graph().name() == "the graph");
  CHECK(out.graph().node(0).name() == "block/add");
  CHECK(out.graph().node(0).doc_string() == "adds");
  CHECK(out.graph().node(0).input(1) == "w");
  const auto& shape = out.graph().input(0).type().tensor_type().shape();
  CHECK(shape.dim(0).dim_param() == "N");
  CHECK(shape.dim(1).dim_value() == 4);
}

TEST_CASE("every form of Constant becomes a constant named after the output") {
  ModelProto m = empty_model(13);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2});
  add_output(g, "x", {-1, 2});
  *add_attribute(add_node(g, "Constant", {}, {"tensor"}), "value", AttributeProto::TENSOR).mutable_t() = float_tensor("ignored", {2}, {1, 2});
  set_float(add_node(g, "Constant", {}, {"float"}), "value_float", 2.5f);
  set_floats(add_node(g, "Constant", {}, {"floats"}), "value_floats", {1.5f, 2.5f});
  set_int(add_node(g, "Constant", {}, {"int"}), "value_int", int64_t{1} << 60);
  set_ints(add_node(g, "Constant", {}, {"ints"}), "value_ints", {3, -4});
  set_string(add_node(g, "Constant", {}, {"string"}), "value_string", "text");
  add_attribute(add_node(g, "Constant", {}, {"strings"}), "value_strings", AttributeProto::STRINGS).add_strings("text");
  auto& sparse = *add_attribute(add_node(g, "Constant", {}, {"sparse"}), "sparse_value", AttributeProto::SPARSE_TENSOR).mutable_sparse_tensor();
  *sparse.mutable_values() = float_tensor("v", {2}, {5, 6});
  *sparse.mutable_indices() = int_tensor("i", {0, 1, 1, 0});
  sparse.mutable_indices()->clear_dims();
  sparse.mutable_indices()->add_dims(2);
  sparse.mutable_indices()->add_dims(2);
  sparse.add_dims(2);
  sparse.add_dims(2);
  const Graph graph = import_model(m);
  CHECK(graph.live_nodes().empty());
  auto content = [&](const char* name) { return graph.constant(graph.find_value(name)); };
  REQUIRE(content("tensor"));
  check_near(*content("tensor"), {2}, {1, 2});
  check_near(*content("float"), {}, {2.5});
  check_near(*content("floats"), {2}, {1.5, 2.5});
  CHECK(content("int")->shape().empty());
  CHECK(content("int")->to_ints() == std::vector<int64_t>{int64_t{1} << 60});
  CHECK(content("ints")->to_ints() == std::vector<int64_t>{3, -4});
  check_near(*content("sparse"), {2, 2}, {0, 5, 6, 0});
  CHECK(content("string")->dtype() == DType::kString);
  CHECK(content("strings")->shape() == Shape{1});
}

TEST_CASE("weights keep their element type, whichever list they lie in") {
  ModelProto m = empty_model();
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {1});
  add_output(g, "x", {1});
  TensorProto half = typed(TensorProto::FLOAT16, "half", 2), brain = typed(TensorProto::BFLOAT16, "bfloat16", 1), wide = typed(TensorProto::DOUBLE, "double", 1);
  half.add_int32_data(0x3e00);  // 1.5
  half.add_int32_data(0xc000);  // -2
  brain.add_int32_data(0x3fc0);  // 1.5
  wide.add_double_data(1e300);
  TensorProto u8 = typed(TensorProto::UINT8, "u8", 1), i8 = typed(TensorProto::INT8, "i8", 1), u32 = typed(TensorProto::UINT32, "u32", 1), u64 = typed(TensorProto::UINT64, "u64", 1),
              boolean = typed(TensorProto::BOOL, "bool", 2);
  u8.add_int32_data(255);
  i8.add_int32_data(-128);
  u32.add_uint64_data(4294967295u);
  u64.add_uint64_data(1ull << 50);
  boolean.set_raw_data(std::string("\x00\x07", 2));
  for (const TensorProto* t : {&half, &brain, &wide, &u8, &i8, &u32, &u64, &boolean}) *g.add_initializer() = *t;
  const Graph graph = import_model(m);
  auto content = [&](const char* name) -> const Tensor& { return *graph.constant(graph.find_value(name)); };
  CHECK(content("half").dtype() == DType::kFloat16);
  CHECK(numbers(content("half")) == std::vector<double>{1.5, -2});
  CHECK(numbers(content("bfloat16")) == std::vector<double>{1.5});
  CHECK(numbers(content("double")) == std::vector<double>{1e300});
  CHECK(numbers(content("u8")) == std::vector<double>{255});
  CHECK(numbers(content("i8")) == std::vector<double>{-128});
  CHECK(numbers(content("u32")) == std::vector<double>{4294967295.0});
  CHECK(numbers(content("u64")) == std::vector<double>{static_cast<double>(1ull << 50)});
  CHECK(static_cast<int>(content("bool").data<uint8_t>()[1]) == 1);
}

TEST_CASE("a sparse initializer is made dense") {
  ModelProto m = add_model(float_tensor("other", {4}, {1, 2, 3, 4}));
  auto& sparse = *m.mutable_graph()->add_sparse_initializer();
  *sparse.mutable_values() = float_tensor("s", {2}, {7, 8});
  *sparse.mutable_indices() = int_tensor("", {1, 3});
  sparse.add_dims(4);
  const Graph g = import_model(m);
  check_near(*g.constant(g.find_value("s")), {4}, {0, 7, 0, 8});
}

TEST_CASE("functions of the model are expanded, with attributes, defaults and omitted inputs") {
  // F(a, b?) = LeakyRelu(a, alpha) + scale, G = F(F(x)); the second call gives its own alpha.
  ModelProto m = empty_model(17);
  auto& f = add_function(m, "F", {"a", "b"}, {"y", "untouched"});
  f.add_attribute("alpha");
  auto& standard = *f.add_attribute_proto();
  standard.set_name("scale");
  standard.set_type(AttributeProto::FLOAT);
  standard.set_f(10);
  refer(add_node(f, "LeakyRelu", {"a"}, {"t"}), "alpha", "alpha", AttributeProto::FLOAT);
  refer(add_node(f, "Constant", {}, {"c"}), "value_float", "scale", AttributeProto::FLOAT);
  add_node(f, "Add", {"t", "c"}, {"y"});
  add_node(f, "Identity", {"c"}, {"untouched"});
  auto& outer = add_function(m, "G", {"x"}, {"z", "constant"});
  outer.add_attribute("alpha");
  refer(add_node(outer, "F", {"x"}, {"u"}, "local"), "alpha", "alpha", AttributeProto::FLOAT);
  NodeProto& second = add_node(outer, "F", {"u"}, {"z", "constant"}, "local");
  set_float(second, "alpha", 0.5f);
  set_float(second, "scale", -100);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  NodeProto& call = add_node(g, "G", {"x"}, {"out", "c"});
  call.set_domain("local");
  call.set_name("call");
  set_float(call, "alpha", 0.25f);
  add_output(g, "out", {2});
  add_output(g, "c", {});
  // x = (-4, 4): F -> (-1, 4) + 10 = (9, 14); F -> (9, 14) - 100 = (-91, -86).
  check_outputs(m, {{"x", floats({2}, {-4, 4})}}, {{{2}, {-91, -86}}, {{}, {-100}}});
  const Graph graph = import_model(m);
  CHECK(graph.opsets.count("local") == 0);
}

TEST_CASE("a function that hands an input or a constant through still gives its output") {
  ModelProto m = empty_model(17);
  auto& f = add_function(m, "F", {"a"}, {"a_again"});
  add_node(f, "Identity", {"a"}, {"a_again"});
  auto& h = add_function(m, "H", {"a"}, {"k"});
  set_float(add_node(h, "Constant", {}, {"k"}), "value_float", 3);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {2});
  add_node(g, "F", {"x"}, {"p"}).set_domain("local");
  add_node(g, "H", {"x"}, {"q"}).set_domain("local");
  add_node(g, "Mul", {"p", "q"}, {"y"});
  add_output(g, "y", {2});
  check_outputs(m, {{"x", floats({2}, {1, 2})}}, {{{2}, {3, 6}}});
}

TEST_CASE("operators that are only known by their body in ONNX's schema are expanded") {
  auto model = [](const char* op, int64_t opset) {
    ModelProto m = empty_model(opset);
    add_input(*m.mutable_graph(), "x", {3});
    add_node(*m.mutable_graph(), op, {"x"}, {"y"});
    add_output(*m.mutable_graph(), "y", {3});
    return m;
  };
  const Tensor x = floats({3}, {-1, 0, 2});
  // By hand: x * tanh(ln(1 + e^x)); x e^(x > 0 ? 0 : x) - ... for Celu with alpha 1; x / (1 + |x|); x sigmoid(x).
  check_outputs(model("Mish", 18), {{"x", x}}, {{{3}, {-0.303401, 0, 1.943959}}});
  check_outputs(model("Celu", 12), {{"x", x}}, {{{3}, {-0.632121, 0, 2}}});
  check_outputs(model("Softsign", 17), {{"x", x}}, {{{3}, {-0.5, 0, 0.666667}}});
  check_outputs(model("Gelu", 20), {{"x", x}}, {{{3}, {-0.158655, 0, 1.954500}}});  // a body that depends on the input's type
}

TEST_CASE("IR 3 lists initializers as inputs; they are no inputs here") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  m.set_ir_version(3);
  m.mutable_opset_import(0)->set_version(8);
  add_input(*m.mutable_graph(), "w", {4});
  const Graph g = import_model(m);
  REQUIRE(g.inputs.size() == 1);
  CHECK(g.value(g.inputs[0]).name == "x");
  const ModelProto out = export_checked(g);
  CHECK(out.graph().input_size() == 1);
  CHECK(out.ir_version() >= 4);
}

TEST_CASE("slots decide which constants are parameters") {
  ModelProto m = empty_model(17);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2, 4, 4});
  auto tensor = [&](const char* name, std::vector<int64_t> dims, float value) {
    size_t n = 1;
    for (int64_t d : dims) n *= static_cast<size_t>(d);
    *g.add_initializer() = float_tensor(name, dims, std::vector<float>(n, value));
  };
  tensor("kernel", {1, 2, 1, 1}, 1);
  tensor("bn_scale", {1}, 1);
  tensor("bn_bias", {1}, 0);
  tensor("shared_statistic", {1}, 1);
  tensor("scalar", {}, 2);
  tensor("one", {1}, 2);
  tensor("vector", {4}, 2);
  *g.add_initializer() = int_tensor("shape", {-1, 4});
  add_node(g, "Conv", {"x", "kernel"}, {"c"});
  add_node(g, "BatchNormalization", {"c", "bn_scale", "bn_bias", "shared_statistic", "shared_statistic"}, {"b1"});
  add_node(g, "BatchNormalization", {"b1", "bn_scale", "bn_bias", "shared_statistic", "shared_statistic"}, {"b"});
  add_node(g, "Mul", {"b", "scalar"}, {"m"});
  add_node(g, "Mul", {"m", "one"}, {"n"});
  add_node(g, "Mul", {"n", "vector"}, {"v"});
  add_node(g, "Reshape", {"v", "shape"}, {"y"});
  add_output(g, "y", {-1, 4});
  Graph graph = import_model(m);
  REQUIRE(mark_parameters(graph).ok());
  auto role = [&](const char* name) { return graph.value(graph.find_value(name)).role; };
  CHECK(role("kernel") == Role::kParameter);
  CHECK(role("bn_scale") == Role::kParameter);  // a weight, whatever its size
  CHECK(role("bn_bias") == Role::kParameter);
  CHECK(role("scalar") == Role::kConstant);
  CHECK(role("one") == Role::kConstant);
  CHECK(role("vector") == Role::kParameter);
  CHECK(role("shape") == Role::kConstant);
  // Four slots read one tensor; each keeps statistics of its own.
  std::vector<ValueId> states;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (graph.value(v).role == Role::kState) states.push_back(v);
  CHECK(states.size() == 4);
  CHECK(role("shared_statistic") == Role::kState);
  CHECK(verify(graph).ok());
}

TEST_CASE("weights that are reassembled before use are parameters") {
  ModelProto m = empty_model(17);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 4});
  *g.add_initializer() = float_tensor("w", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  *g.add_initializer() = int_tensor("shape", {2, 4});
  add_node(g, "Reshape", {"w", "shape"}, {"r"});
  set_ints(add_node(g, "Transpose", {"r"}, {"t"}), "perm", {1, 0});
  add_node(g, "MatMul", {"x", "t"}, {"y"});
  add_output(g, "y", {-1, 2});
  Graph graph = import_model(m);
  REQUIRE(mark_parameters(graph).ok());
  CHECK(graph.value(graph.find_value("w")).role == Role::kParameter);
  CHECK(graph.value(graph.find_value("shape")).role == Role::kConstant);
}

TEST_CASE("weights written as ConstantOfShape become parameters") {
  ModelProto m = empty_model(9, 3);
  GraphProto& g = *m.mutable_graph();
  add_input(g, "x", {-1, 2});
  *g.add_initializer() = int_tensor("s", {3, 2});
  add_input(g, "s", {2}, TensorProto::INT64);
  *add_attribute(add_node(g, "ConstantOfShape", {"s"}, {"w"}), "value", AttributeProto::TENSOR).mutable_t() = float_tensor("", {1}, {0.5f});
  *g.add_initializer() = float_tensor("b", {3}, {0, 0, 0});
  set_int(add_node(g, "Gemm", {"x", "w", "b"}, {"y"}), "transB", 1);
  add_output(g, "y", {-1, 3});
  Graph graph = import_model(m);
  REQUIRE(mark_parameters(graph).ok());
  const Value& w = graph.value(graph.find_value("w"));
  CHECK(w.role == Role::kParameter);
  check_near(*w.data, {3, 2}, std::vector<double>(6, 0.5));
}

TEST_CASE("string tensors and unknown element types are carried, never computed with") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  TensorProto text = typed(TensorProto::STRING, "text", 2);
  text.add_string_data("a");
  text.add_string_data("b");
  *m.mutable_graph()->add_initializer() = text;
  TensorProto tiny = typed(TensorProto::FLOAT8E4M3FN, "tiny", 3);
  tiny.set_raw_data("abc");
  *m.mutable_graph()->add_initializer() = tiny;
  add_node(*m.mutable_graph(), "Identity", {"text"}, {"copy"});
  const Graph g = import_model(m);
  const auto lines = unsupported_nodes(g);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("'text'") != std::string::npos);
}

TEST_CASE("the model may be reached through a symlink; its data lies beside the file itself") {
  TempFolder folder;
  write_file(folder / "real/net.onnx", add_model(external_tensor("w", {4}, {{"location", "net.data"}})).SerializeAsString());
  const std::vector<float> content{1, 2, 3, 4};
  write_file(folder / "real/net.data", std::string(reinterpret_cast<const char*>(content.data()), 16));
  fs::create_symlink(folder / "real/net.onnx", folder / "elsewhere/link.onnx");
  auto g = import_onnx(folder / "elsewhere/link.onnx");
  REQUIRE_MESSAGE(g.ok(), g.status().message());
  check_near(*g->constant(g->find_value("w")), {4}, {1, 2, 3, 4});
  fs::remove(folder / "real/net.data");
  auto missing = import_onnx(folder / "elsewhere/link.onnx");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().message().find("real/net.data") != std::string::npos);
}

}  // namespace eng
