// Small ONNX models for tests, made with ONNX's own message classes.
#pragma once

#include <onnx/onnx_pb.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace eng::test {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

inline ModelProto empty_model(int64_t opset = 17, int64_t ir = 8) {
  ModelProto m;
  m.set_ir_version(ir);
  auto* o = m.add_opset_import();
  o->set_domain("");
  o->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

// Dimension -1 is symbolic and named "N".
inline void set_value(onnx::ValueInfoProto& v, const std::string& name, const std::vector<int64_t>& dims, int type = TensorProto::FLOAT) {
  v.set_name(name);
  auto* t = v.mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  t->mutable_shape();
  for (int64_t d : dims) {
    auto* dim = t->mutable_shape()->add_dim();
    if (d < 0) dim->set_dim_param("N");
    else dim->set_dim_value(d);
  }
}
inline void add_input(GraphProto& g, const std::string& name, const std::vector<int64_t>& dims, int type = TensorProto::FLOAT) {
  set_value(*g.add_input(), name, dims, type);
}
inline void add_output(GraphProto& g, const std::string& name, const std::vector<int64_t>& dims, int type = TensorProto::FLOAT) {
  set_value(*g.add_output(), name, dims, type);
}

inline TensorProto float_tensor(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  t.set_raw_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  return t;
}
inline TensorProto int_tensor(const std::string& name, const std::vector<int64_t>& values) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(TensorProto::INT64);
  t.add_dims(static_cast<int64_t>(values.size()));
  for (int64_t v : values) t.add_int64_data(v);
  return t;
}

inline NodeProto& add_node(GraphProto& g, const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  NodeProto& n = *g.add_node();
  n.set_op_type(op);
  for (const auto& i : inputs) n.add_input(i);
  for (const auto& o : outputs) n.add_output(o);
  return n;
}
inline AttributeProto& add_attribute(NodeProto& n, const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}
inline void set_int(NodeProto& n, const std::string& name, int64_t value) { add_attribute(n, name, AttributeProto::INT).set_i(value); }
inline void set_float(NodeProto& n, const std::string& name, float value) { add_attribute(n, name, AttributeProto::FLOAT).set_f(value); }
inline void set_ints(NodeProto& n, const std::string& name, const std::vector<int64_t>& values) {
  auto& a = add_attribute(n, name, AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
}
inline void set_floats(NodeProto& n, const std::string& name, const std::vector<float>& values) {
  auto& a = add_attribute(n, name, AttributeProto::FLOATS);
  for (float v : values) a.add_floats(v);
}
inline void set_string(NodeProto& n, const std::string& name, const std::string& value) { add_attribute(n, name, AttributeProto::STRING).set_s(value); }

// A tensor whose content lies in a file; entries are written as given.
inline TensorProto external_tensor(const std::string& name, const std::vector<int64_t>& dims, const std::map<std::string, std::string>& entries) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(TensorProto::FLOAT);
  for (int64_t d : dims) t.add_dims(d);
  t.set_data_location(TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto* pair = t.add_external_data();
    pair->set_key(key);
    pair->set_value(value);
  }
  return t;
}

// y = Add(x, w), w of shape [4].
inline ModelProto add_model(const TensorProto& w) {
  ModelProto m = empty_model();
  add_input(*m.mutable_graph(), "x", {-1, 4});
  add_node(*m.mutable_graph(), "Add", {"x", w.name()}, {"y"});
  add_output(*m.mutable_graph(), "y", {-1, 4});
  *m.mutable_graph()->add_initializer() = w;
  return m;
}

inline void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size())); }

}  // namespace eng::test
