// Hostile ONNX files other than external data (hostile_external_data_test.cpp): sizes, wiring, versions, nesting, damaged bytes. Each fixture is
// made here by code. A new attack is one row or one test case.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <limits>
#include <random>

#include "tests/security/read_apart.h"
#include "tests/support/temp_folder.h"

namespace eng {
namespace {

using namespace eng::test;

}  // namespace

TEST_CASE("tensors whose data does not fit their shape are refused") {
  const int64_t big = int64_t{1} << 62;
  auto with = [](const std::function<void(TensorProto&)>& change) {
    TensorProto t = float_tensor("w", {4}, {1, 2, 3, 4});
    change(t);
    return read_model(add_model(t));
  };
  auto dims = [&](std::vector<int64_t> d, const std::string& raw) {
    return with([&](TensorProto& t) {
      t.clear_dims();
      for (int64_t v : d) t.add_dims(v);
      t.set_raw_data(raw);
    });
  };
  refused(with([](TensorProto& t) { t.set_raw_data("12345"); }), "wants 16 bytes, raw data has 5");
  refused(with([](TensorProto& t) { t.mutable_raw_data()->append(16, 'x'); }), "raw data has 32");
  refused(with([](TensorProto& t) { t.clear_raw_data(); }), "the tensor holds 0");
  refused(with([](TensorProto& t) { t.add_float_data(1); }), "both raw data and a typed list");
  refused(with([](TensorProto& t) { t.clear_raw_data(); for (int i = 0; i < 4; ++i) t.add_int64_data(i); }), "another element type");
  refused(with([](TensorProto& t) { t.clear_raw_data(); for (int i = 0; i < 3; ++i) t.add_float_data(1); }), "holds 3");
  refused(with([](TensorProto& t) { t.set_data_type(0); }), "element type 0");
  refused(with([](TensorProto& t) { t.set_data_type(77); }), "element type 77");
  refused(with([](TensorProto& t) { t.set_data_type(TensorProto::STRING); }), "strings cannot be raw data");
  refused(with([](TensorProto& t) { t.set_data_type(TensorProto::UINT8); t.clear_raw_data(); for (int i = 0; i < 4; ++i) t.add_int32_data(300); }), "out of range");
  refused(with([](TensorProto& t) { t.mutable_segment()->set_begin(0); }), "segment");
  refused(dims({-1}, "1234"), "negative dimension");
  refused(dims({big}, ""), "larger than memory");
  refused(dims({0, big, big}, ""), "more elements than 64 bits");
  refused(dims({0}, "1234"), "wants 0 bytes");
  refused(dims({4194305, 4194305, 211106198978564}, std::string(16, 'x')), "more elements than 64 bits");
  refused(dims({1 << 20, 1 << 10}, "1234"), "raw data has 4");
  CHECK(dims({0, 3}, "").accepted);
}

TEST_CASE("sparse tensors are checked before they are made dense") {
  auto with = [](std::vector<int64_t> dims, std::vector<int64_t> indices, size_t values) {
    ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
    auto& sparse = *m.mutable_graph()->add_sparse_initializer();
    *sparse.mutable_values() = float_tensor("s", {static_cast<int64_t>(values)}, std::vector<float>(values, 1));
    *sparse.mutable_indices() = int_tensor("", indices);
    for (int64_t d : dims) sparse.add_dims(d);
    return read_model(m);
  };
  CHECK(with({8}, {1, 5}, 2).accepted);
  refused(with({8}, {1, 8}, 2), "outside the shape");
  refused(with({8}, {-1, 5}, 2), "outside the shape");
  refused(with({8}, {5, 5}, 2), "must increase");
  refused(with({8}, {1}, 2), "indices");
  refused(with({1 << 20, 1 << 20}, {0}, 1), "MiB allowed");
  refused(with({int64_t{1} << 40, int64_t{1} << 40}, {0}, 1), "more elements than 64 bits");
}

TEST_CASE("graphs that are wrongly wired are refused, with all problems at once") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  GraphProto& g = *m.mutable_graph();
  SUBCASE("a cycle") {
    add_node(g, "Add", {"x", "b"}, {"a"}).set_name("first");
    add_node(g, "Relu", {"a"}, {"b"}).set_name("second");
    refused(read_model(m), "cycle");
    CHECK(read_model(m).message.find("'second'") != std::string::npos);
  }
  SUBCASE("a node that reads itself") {
    add_node(g, "Add", {"x", "a"}, {"a"});
    refused(read_model(m), "cycle");
  }
  SUBCASE("nodes in the wrong order") {
    add_node(g, "Relu", {"a"}, {"b"}).set_name("late");
    add_node(g, "Relu", {"x"}, {"a"}).set_name("early");
    refused(read_model(m), "not sorted");
  }
  SUBCASE("two nodes that write one name") {
    add_node(g, "Relu", {"x"}, {"y"});
    refused(read_model(m), "another node writes too");
  }
  SUBCASE("a node that writes an initializer") {
    add_node(g, "Relu", {"x"}, {"w"});
    refused(read_model(m), "also a graph input or an initializer");
  }
  SUBCASE("two initializers of one name") {
    *g.add_initializer() = float_tensor("w", {1}, {1});
    refused(read_model(m), "two initializers are named 'w'");
  }
  SUBCASE("an input that nothing gives") {
    add_node(g, "Relu", {"ghost"}, {"a"});
    refused(read_model(m), "'ghost', which no node, input or initializer gives");
  }
  SUBCASE("an output that nothing gives") {
    add_output(g, "ghost", {4});
    refused(read_model(m), "graph output 'ghost'");
  }
  SUBCASE("several") {
    for (int i = 0; i < 30; ++i) add_node(g, "Relu", {"ghost" + std::to_string(i)}, {"a" + std::to_string(i)});
    const Outcome o = read_model(m);
    refused(o, "30 problems");
    CHECK(o.message.find("'ghost0'") != std::string::npos);
    CHECK(o.message.find("'ghost19'") != std::string::npos);
    CHECK(o.message.find("and 10 more") != std::string::npos);
  }
}

TEST_CASE("operators without their inputs, outputs or attributes are refused") {
  auto with = [](const char* op, int64_t opset, std::vector<std::string> inputs, const std::function<void(NodeProto&)>& change = {}) {
    ModelProto m = empty_model(opset);
    add_input(*m.mutable_graph(), "x", {4, 4});
    NodeProto& n = add_node(*m.mutable_graph(), op, inputs, {"y"});
    if (change) change(n);
    add_output(*m.mutable_graph(), "y", {4, 4});
    return read_model(m);
  };
  refused(with("Cast", 9, {}, [](NodeProto& n) { set_int(n, "to", 1); }), "input");
  refused(with("Softmax", 12, {}), "input");
  refused(with("Softmax", 13, {}), "input");
  refused(with("Upsample", 6, {}), "Upsample");
  refused(with("Upsample", 9, {}), "input");
  refused(with("Conv", 17, {"x", ""}), "input 1");
  refused(with("Cast", 17, {"x"}), "to");
  refused(with("Relu", 17, {"x", "x"}), "input");
  refused(with("Relu", 17, {"x"}, [](NodeProto& n) { set_int(n, "nonsense", 1); }), "nonsense");
  refused(with("Transpose", 17, {"x"}, [](NodeProto& n) { set_string(n, "perm", "ab"); }), "perm");
  refused(with("Transpose", 17, {"x"}, [](NodeProto& n) { set_ints(n, "perm", {1, 0}); set_ints(n, "perm", {0, 1}); }), "twice");
  refused(with("Gelu", 17, {"x"}), "does not exist in opset 17");
  refused(with("", 17, {"x"}), "no operator type");
  refused(with("Constant", 17, {}), "no value");
}

TEST_CASE("versions that are not known are refused with the newest known") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  SUBCASE("opset 99") { m.mutable_opset_import(0)->set_version(99); refused(read_model(m), "newest known is 28"); }
  SUBCASE("opset 10^9") { m.mutable_opset_import(0)->set_version(1000000000); refused(read_model(m), "newest known"); }
  SUBCASE("opset 2^62") { m.mutable_opset_import(0)->set_version(int64_t{1} << 62); refused(read_model(m), "newest known"); }
  SUBCASE("opset -1") { m.mutable_opset_import(0)->set_version(-1); refused(read_model(m), "cannot be"); }
  SUBCASE("no opset") { m.clear_opset_import(); refused(read_model(m), "no opset is imported"); }
  SUBCASE("two opsets") { auto* o = m.add_opset_import(); o->set_domain("ai.onnx"); o->set_version(11); refused(read_model(m), "two opset versions"); }
  SUBCASE("IR 99") { m.set_ir_version(99); refused(read_model(m), "IR version 99"); }
  SUBCASE("IR 2") { m.set_ir_version(2); refused(read_model(m), "IR version 2"); }
  SUBCASE("a domain without opset") { add_node(*m.mutable_graph(), "Foo", {"x"}, {"f"}).set_domain("com.acme"); refused(read_model(m), "'com.acme'"); }
  SUBCASE("no graph") { m.clear_graph(); refused(read_model(m), "no graph"); }
}

TEST_CASE("NaN and infinite weights are named in a warning") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, std::numeric_limits<float>::quiet_NaN(), 3, std::numeric_limits<float>::infinity()}));
  const std::string bytes = m.SerializeAsString();
  std::vector<std::string> warnings;
  ImportOptions options;
  options.warnings = &warnings;
  CHECK(import_onnx_bytes(bytes.data(), bytes.size(), "", options).ok());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("'w'") != std::string::npos);
}

TEST_CASE("size alone does no harm") {
  SUBCASE("a million nodes") {
    std::string graph;
    for (int i = 0; i < 1000000; ++i) {
      GraphProto one;
      add_node(one, "Identity", {i ? "v" + std::to_string(i - 1) : "x"}, {"v" + std::to_string(i)});
      graph += one.SerializeAsString();
    }
    ModelProto m = empty_model();
    m.clear_graph();
    refused(read_bytes(m.SerializeAsString() + wrapped("\x3a", graph)), "250000 nodes");
  }
  SUBCASE("a chain of 50,000 nodes is read") {
    ModelProto m = empty_model();
    add_input(*m.mutable_graph(), "x", {1});
    std::string last = "x";
    for (int i = 0; i < 50000; ++i) {
      const std::string next = "v" + std::to_string(i);
      add_node(*m.mutable_graph(), "Identity", {last}, {next});
      last = next;
    }
    add_output(*m.mutable_graph(), last, {1});
    const Outcome o = read_model(m);
    check_limits(o);
    CHECK(o.accepted);
  }
  SUBCASE("a name of a megabyte") {
    ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
    add_node(*m.mutable_graph(), "Relu", {"x"}, {std::string(1 << 20, 'n')});
    refused(read_model(m), "a name in NodeProto");
  }
  SUBCASE("20 MB of empty nodes") {
    std::string graph;
    for (int i = 0; i < 10 << 20; ++i) graph.append("\x0a\x00", 2);
    ModelProto m = empty_model();
    m.clear_graph();
    refused(read_bytes(m.SerializeAsString() + wrapped("\x3a", graph)), "250000 nodes");
  }
  SUBCASE("20 MB of empty initializers, attributes, strings or numbers") {
    for (const char* unit : {"\x2a\x00", "\x5a\x00", "\x82\x01\x00"}) {
      std::string graph;
      const size_t n = unit[1] == 0 ? 2 : 3;
      while (graph.size() < (20u << 20)) graph.append(unit, n);
      ModelProto m = empty_model();
      m.clear_graph();
      refused(read_bytes(m.SerializeAsString() + wrapped("\x3a", graph)), "MiB of memory");
    }
  }
}

TEST_CASE("nesting is bounded") {
  SUBCASE("If in If, 100 deep") {
    GraphProto inner;
    inner.set_name("leaf");
    add_output(inner, "x", {4});
    for (int i = 0; i < 100; ++i) {
      GraphProto outer;
      outer.set_name("level");
      NodeProto& n = add_node(outer, "If", {"c"}, {"r"});
      *add_attribute(n, "then_branch", AttributeProto::GRAPH).mutable_g() = inner;
      GraphProto& other = *add_attribute(n, "else_branch", AttributeProto::GRAPH).mutable_g();
      other.set_name("e");
      add_output(other, "x", {4});
      add_output(outer, "r", {4});
      inner = outer;
    }
    ModelProto m = empty_model();
    *m.mutable_graph() = inner;
    add_input(*m.mutable_graph(), "x", {4});
    add_input(*m.mutable_graph(), "c", {}, TensorProto::BOOL);
    refused(read_model(m), "nested deeper");
  }
  SUBCASE("a type of 10,000 sequences") {
    std::string type;
    for (int i = 0; i < 10000; ++i) type = wrapped("\x22", wrapped("\x0a", type));
    const std::string graph = wrapped("\x5a", wrapped("\x12", type));
    ModelProto m = empty_model();
    m.clear_graph();
    refused(read_bytes(m.SerializeAsString() + wrapped("\x3a", graph)), "nested deeper");
  }
  SUBCASE("functions that call each other") {
    for (bool circle : {true, false}) {
      ModelProto m = empty_model();
      auto* o = m.add_opset_import();
      o->set_domain("local");
      o->set_version(1);
      for (int i = 0; i < 25; ++i) {  // f0 calls f1 twice, f1 calls f2 twice, ...: 2^25 nodes
        auto& f = *m.add_functions();
        f.set_name("f" + std::to_string(i));
        f.set_domain("local");
        f.add_input("a");
        f.add_output("c");
        for (const auto& import : m.opset_import()) *f.add_opset_import() = import;
        for (auto [in, out] : {std::pair("a", "b"), std::pair("b", "c")}) {
          NodeProto& n = *f.add_node();
          n.set_op_type(i == 24 && !circle ? "Relu" : "f" + std::to_string((i + 1) % 25));
          n.set_domain(i == 24 && !circle ? "" : "local");
          n.add_input(in);
          n.add_output(out);
        }
      }
      add_input(*m.mutable_graph(), "x", {4});
      add_node(*m.mutable_graph(), circle ? "f0" : "f10", {"x"}, {"y"}).set_domain("local");
      add_output(*m.mutable_graph(), "y", {4});
      const Outcome out = read_model(m);
      check_limits(out);
      if (circle) refused(out, "functions call each other");
      else CHECK(out.accepted);  // 2^15 nodes are within the limit
    }
  }
  SUBCASE("functions that double 20 times") {
    ModelProto m = empty_model();
    auto* o = m.add_opset_import();
    o->set_domain("local");
    o->set_version(1);
    for (int i = 0; i < 15; ++i) {
      auto& f = *m.add_functions();
      f.set_name("f" + std::to_string(i));
      f.set_domain("local");
      f.add_input("a");
      f.add_output("d");
      for (const auto& import : m.opset_import()) *f.add_opset_import() = import;
      for (auto [in, out] : {std::pair("a", "b"), std::pair("b", "c"), std::pair("c", "d")}) {
        NodeProto& n = *f.add_node();
        n.set_op_type(i == 14 ? "Relu" : "f" + std::to_string(i + 1));
        n.set_domain(i == 14 ? "" : "local");
        n.add_input(in);
        n.add_output(out);
      }
    }
    add_input(*m.mutable_graph(), "x", {4});
    add_node(*m.mutable_graph(), "f0", {"x"}, {"y"}).set_domain("local");
    add_output(*m.mutable_graph(), "y", {4});
    refused(read_model(m), "expanded");
  }
}

TEST_CASE("damaged files end in an error, never in a crash") {
  ModelProto m = add_model(float_tensor("w", {4}, {1, 2, 3, 4}));
  NodeProto& n = add_node(*m.mutable_graph(), "ReduceMean", {"y"}, {"z"});
  set_ints(n, "axes", {1});
  *m.mutable_metadata_props()->Add()->mutable_key() = "k";
  const std::string bytes = m.SerializeAsString();
  std::mt19937 random(7);
  int accepted = 0;
  // In one process: a crash fails the whole test program.
  for (size_t length = 0; length < bytes.size(); ++length) accepted += import_onnx_bytes(bytes.data(), length, "").ok();
  CHECK(accepted <= 2);  // cutting off the trailing metadata leaves a whole model
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      (void)import_onnx_bytes(flipped.data(), flipped.size(), "");
    }
  for (int i = 0; i < 3000; ++i) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    CHECK_FALSE(import_onnx_bytes(noise.data(), noise.size(), "").ok());
  }
  for (int i = 0; i < 3000; ++i) {
    std::string mixed = bytes;
    for (int k = 0; k < 4; ++k) mixed[random() % mixed.size()] = static_cast<char>(random());
    (void)import_onnx_bytes(mixed.data(), mixed.size(), "");
  }
}

TEST_CASE("fields of the wrong wire type are refused") {
  const std::string good = add_model(float_tensor("w", {4}, {1, 2, 3, 4})).SerializeAsString();
  refused(read_bytes(std::string("\x38\x05", 2) + good), "wire type");      // graph (field 7) as a number
  refused(read_bytes(std::string("\x3d\x01\x02\x03\x04", 5) + good), "wire type");  // as four bytes
  refused(read_bytes(std::string("\x3b\x3c", 2) + good), "wire type");      // a group
  refused(read_bytes("not a model, only text"), "");
}

TEST_CASE("the model's own path may be anything") {
  TempFolder folder;
  refused(read_path(folder / "none.onnx"), "cannot open");
  refused(read_path(folder.path()), "a folder");
  write_file(folder / "empty.onnx", "");
  refused(read_path(folder / "empty.onnx"), "empty");
  REQUIRE(mkfifo((folder / "fifo.onnx").c_str(), 0600) == 0);
  refused(read_path(folder / "fifo.onnx"), "a FIFO");
  refused(read_path("/dev/zero"), "a device");
  write_file(folder / "huge.onnx", "x");
  REQUIRE(truncate((folder / "huge.onnx").c_str(), int64_t{3} << 30) == 0);
  refused(read_path(folder / "huge.onnx"), "at most 2 GiB");
}

TEST_CASE("bare tensors are read with the same care") {
  TempFolder folder;
  const std::string path = folder / "t.pb";
  write_file(path, float_tensor("t", {4}, {1, 2, 3, 4}).SerializeAsString());
  auto t = read_tensor_proto(path);
  REQUIRE(t.ok());
  CHECK(t->at(3) == 4);
  write_file(path, external_tensor("t", {4}, {{"location", "t.bin"}}).SerializeAsString());
  CHECK_FALSE(read_tensor_proto(path).ok());
  write_file(path, "\xff\xff\xff");
  CHECK_FALSE(read_tensor_proto(path).ok());
}

}  // namespace eng
