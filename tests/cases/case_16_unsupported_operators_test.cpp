// What cannot be run is listed at once, with operator, domain, opset and node, and the graph can still be looked at.
#include "tests/importers/run_model.h"

namespace eng {
namespace {

using namespace eng::test;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ModelProto base() {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  auto* o = m.add_opset_import();
  o->set_domain("com.acme");
  o->set_version(1);
  return m;
}

}  // namespace

TEST_CASE("case 16: unknown operators are kept and listed all at once, with op type, domain, opset and node name or output name") {
  ModelProto m = base();
  GraphProto& g = *m.mutable_graph();
  NodeProto& acme = add_node(g, "FooBar", {"y"}, {"a"});
  acme.set_domain("com.acme");
  acme.set_name("the/node");
  add_node(g, "FooBar", {"a"}, {"b"});
  add_node(g, "FooBar", {"x"}, {"feeds_nothing"});
  add_output(g, "b", {-1, 4});
  const Graph graph = import_model(m);
  CHECK(graph.live_nodes().size() == 4);
  CHECK(has(print(graph), "com.acme::FooBar"));
  const Status status = check_supported(graph);
  REQUIRE_FALSE(status.ok());
  CHECK(exit_status(status.code()) == 3);
  CHECK(has(status.message(), "FooBar (domain com.acme, opset 1), node 'the/node'"));
  CHECK(has(status.message(), "FooBar (domain ai.onnx, opset 17), node with output 'b'"));
  CHECK(has(status.message(), "node with output 'feeds_nothing'"));
  CHECK(unsupported_nodes(graph).size() == 3);
}

TEST_CASE("case 16: an opset that is not known is refused by name") {
  ModelProto m = base();
  m.mutable_opset_import(0)->set_version(99);
  const std::string bytes = m.SerializeAsString();
  const Status status = import_onnx_bytes(bytes.data(), bytes.size(), "").status();
  CHECK(exit_status(status.code()) == 3);
  CHECK(has(status.message(), "opset 99"));
  CHECK(has(status.message(), "28"));
}

TEST_CASE("case 16: an If that uses an initializer of the outer graph is listed like the rest and survives export") {
  ModelProto m = base();
  GraphProto& g = *m.mutable_graph();
  add_input(g, "condition", {}, TensorProto::BOOL);
  NodeProto& n = add_node(g, "If", {"condition"}, {"z"});
  n.set_name("choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    GraphProto& inner = *add_attribute(n, branch, AttributeProto::GRAPH).mutable_g();
    inner.set_name(branch);
    add_node(inner, branch[0] == 't' ? "Relu" : "Neg", {"w"}, {std::string(branch) + "_out"});
    add_output(inner, std::string(branch) + "_out", {4});
  }
  add_output(g, "z", {4});
  const Graph graph = import_model(m);
  const auto lines = unsupported_nodes(graph);
  REQUIRE(lines.size() == 1);
  CHECK(has(lines[0], "If (domain ai.onnx, opset 17), node 'choice'"));
  CHECK(has(lines[0], "control flow"));
  const ModelProto out = export_checked(graph);
  CHECK(out.graph().initializer_size() == 1);
}

}  // namespace eng
