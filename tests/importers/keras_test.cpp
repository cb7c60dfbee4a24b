// Keras's HDF5 files, made here with the HDF5 library, into graphs; cases 23 and 24 of the field.
#include "importers/keras/keras.h"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <cmath>
#include <cstring>

#include "engine/io/safetensors.h"
#include "graph/ir/graph.h"
#include "importers/weights/weights.h"
#include "tests/support/pictures.h"
#include "tests/support/temp_folder.h"

using namespace eng;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Array {
  std::string name;
  std::vector<hsize_t> shape;
  std::vector<float> values;
};
struct Layer {
  std::string name;
  std::vector<Array> arrays;
};

void write_texts(hid_t object, const char* name, const std::vector<std::string>& texts) {
  size_t longest = 1;
  for (const auto& text : texts) longest = std::max(longest, text.size());
  std::string flat;
  for (const auto& text : texts) flat += text + std::string(longest - text.size(), '\0');
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, longest);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  hsize_t count = texts.size();
  hid_t space = H5Screate_simple(1, &count, nullptr), attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, flat.data());
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

// Arrays are written back to front: the order in the file must not matter.
void write_keras(const std::string& path, const std::vector<Layer>& layers, bool model_level, const char* backend = nullptr) {
  hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t root = model_level ? H5Gcreate2(file, "model_weights", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : H5Gopen2(file, "/", H5P_DEFAULT);
  hid_t parents = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(parents, 1);
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    names.push_back(layer.name);
    hid_t group = H5Gcreate2(root, layer.name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    std::vector<std::string> weights;
    for (const Array& array : layer.arrays) weights.push_back(array.name);
    write_texts(group, "weight_names", weights);
    for (auto array = layer.arrays.rbegin(); array != layer.arrays.rend(); ++array) {
      hid_t space = H5Screate_simple(static_cast<int>(array->shape.size()), array->shape.data(), nullptr);
      hid_t set = H5Dcreate2(group, array->name.c_str(), H5T_IEEE_F32LE, space, parents, H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array->values.data());
      H5Dclose(set);
      H5Sclose(space);
    }
    H5Gclose(group);
  }
  write_texts(root, "layer_names", names);
  if (backend) write_texts(root, "backend", {backend});
  H5Pclose(parents);
  H5Gclose(root);
  H5Fclose(file);
}

Tensor filled(Shape shape, float value) {
  Tensor t(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < t.element_count(); ++i) t.set(i, static_cast<double>(value));
  return t;
}

// x -> Conv 2x2 named conv1 -> BatchNormalization named bn1, epsilon 1e-3
Graph conv_bn(const std::string& conv_name = "conv1", const std::string& bn_name = "bn1") {
  Graph g;
  ValueId x = g.add_value("x", DType::kFloat32, {1, 1, 3, 3});
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  ValueId w = g.add_tensor("w", filled({1, 1, 2, 2}, 9), Role::kParameter);
  Node conv;
  conv.op_type = "Conv";
  conv.name = conv_name;
  conv.inputs = {x, w};
  conv.outputs = {g.add_value("c")};
  g.add_node(conv);
  Node bn;
  bn.op_type = "BatchNormalization";
  bn.name = bn_name;
  bn.attributes.set("epsilon", 1e-3f);
  bn.inputs = {conv.outputs[0], g.add_tensor("scale", filled({1}, 7), Role::kParameter), g.add_tensor("shift", filled({1}, 7), Role::kParameter),
               g.add_tensor("mean", filled({1}, 7), Role::kState), g.add_tensor("var", filled({1}, 7), Role::kState)};
  bn.outputs = {g.add_value("y")};
  g.add_node(bn);
  g.outputs = {bn.outputs[0]};
  return g;
}

double content(const Graph& g, const char* name, int64_t i = 0) { return g.value(g.find_value(name)).data->at(i); }

const Layer kConv{"conv1", {{"conv1/kernel:0", {2, 2, 1, 1}, {0, 1, 2, 3}}}};
const Layer kBn{"bn1", {{"bn1/beta:0", {1}, {.5f}}, {"bn1/moving_mean:0", {1}, {2}}, {"bn1/moving_variance:0", {1}, {4}}}};

// y = Gemm(x, W(transB), B)
Graph head(int64_t classes) {
  Graph g;
  ValueId x = g.add_value("x", DType::kFloat32, {1, 8});
  g.value(x).role = Role::kInput;
  g.inputs = {x};
  Node body;
  body.op_type = "MatMul";
  body.name = "body";
  body.inputs = {x, g.add_tensor("body.weight", filled({8, 8}, 1), Role::kParameter)};
  body.outputs = {g.add_value("h")};
  g.add_node(body);
  Node gemm;
  gemm.op_type = "Gemm";
  gemm.name = "fc";
  gemm.attributes.set("transB", int64_t{1});
  gemm.inputs = {body.outputs[0], g.add_tensor("fc.weight", filled({classes, 8}, 5), Role::kParameter),
                 g.add_tensor("fc.bias", filled({classes}, 5), Role::kParameter)};
  gemm.outputs = {g.add_value("y")};
  g.add_node(gemm);
  g.outputs = {gemm.outputs[0]};
  return g;
}

std::string head_file(const TempFolder& folder, int64_t classes) {
  SafetensorsFile file;
  Tensor body = filled({8, 8}, 0), weight(DType::kFloat32, {classes, 8}), bias(DType::kFloat32, {classes});
  for (int64_t i = 0; i < 64; ++i) body.set(i, 0.1 * static_cast<double>(i));
  for (int64_t i = 0; i < classes * 8; ++i) weight.set(i, static_cast<double>(i));
  for (int64_t i = 0; i < classes; ++i) bias.set(i, static_cast<double>(100 + i));
  file.tensors = {{"body.weight", body}, {"fc.weight", weight}, {"fc.bias", bias}};
  CHECK(write_safetensors(folder / "w.safetensors", file).ok());
  return folder / "w.safetensors";
}

}  // namespace

TEST_CASE("case 23: batch norm without gamma, kernel layout, with and without the model_weights level") {
  TempFolder folder;
  for (bool level : {false, true}) {
    write_keras(folder / "w.h5", {kConv, kBn}, level, "tensorflow");
    Graph g = conv_bn();
    auto report = load_weights(g, folder / "w.h5");
    INFO(report.status().message());
    REQUIRE(report.ok());
    for (int64_t i = 0; i < 4; ++i) CHECK(content(g, "w", i) == i);  // [[0,1],[2,3]], not turned
    CHECK(content(g, "scale") == 1);
    CHECK(content(g, "shift") == .5);
    CHECK(content(g, "mean") == 2);
    CHECK(content(g, "var") == 4);
    CHECK(g.value(g.find_value("scale")).frozen);
    CHECK_FALSE(g.value(g.find_value("shift")).frozen);
    REQUIRE(report->defaults.size() == 1);
    CHECK(contains(report->defaults[0], "bn1: no gamma"));
    CHECK(report->only_in_model.empty());
    // x = arange(9): conv = 19, 25 / 37, 43; (conv - 2) / sqrt(4.001) + .5
    const double want[4] = {8.998938, 11.998563, 17.997813, 20.997438};
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 2; ++x) {
        double conv = 0;
        for (int i = 0; i < 4; ++i) conv += content(g, "w", i) * ((y + i / 2) * 3 + x + i % 2);
        double out = (conv - content(g, "mean")) / std::sqrt(content(g, "var") + 1e-3) * content(g, "scale") + content(g, "shift");
        CHECK(out == doctest::Approx(want[y * 2 + x]).epsilon(1e-6));
      }
  }
}

TEST_CASE("case 23: no beta gives 0; a missing array that is neither is an error with the layer's name") {
  TempFolder folder;
  write_keras(folder / "w.h5", {kConv, {"bn1", {{"gamma", {1}, {3}}, {"moving_mean", {1}, {2}}, {"moving_variance", {1}, {4}}}}}, false);
  Graph g = conv_bn();
  REQUIRE(load_weights(g, folder / "w.h5").ok());
  CHECK(content(g, "scale") == 3);
  CHECK(content(g, "shift") == 0);
  CHECK(g.value(g.find_value("shift")).frozen);
  write_keras(folder / "w.h5", {kConv, {"bn1", {{"beta", {1}, {3}}, {"moving_mean", {1}, {2}}}}}, false);
  Graph before = conv_bn();
  auto report = load_weights(before, folder / "w.h5");
  REQUIRE_FALSE(report.ok());
  CHECK(contains(report.status().message(), "bn1"));
  CHECK(contains(report.status().message(), "moving_variance"));
  CHECK(content(before, "w") == 9);  // nothing was changed
}

TEST_CASE("layers find nodes by name, by a part of the name, and by the weight's name") {
  TempFolder folder;
  write_keras(folder / "w.h5", {kConv, kBn}, false);
  Graph part = conv_bn("model/conv1/Conv2D", "model/bn1/FusedBatchNormV3");
  REQUIRE(load_weights(part, folder / "w.h5").ok());
  CHECK(content(part, "w", 3) == 3);
  Graph by_weight = conv_bn("", "");
  by_weight.rename_value(by_weight.find_value("w"), "conv1.weight");
  by_weight.rename_value(by_weight.find_value("scale"), "bn1/gamma:0");
  REQUIRE(load_weights(by_weight, folder / "w.h5").ok());
  CHECK(content(by_weight, "conv1.weight", 3) == 3);
  Graph other = conv_bn("conv11", "bn");
  auto report = load_weights(other, folder / "w.h5");
  REQUIRE_FALSE(report.ok());
  CHECK(contains(report.status().message(), "bn1, conv1"));
}

TEST_CASE("Keras 1 names, Theano's order and its turned kernels") {
  TempFolder folder;
  // (out, in, h, w) = (2, 1, 2, 2) is no HWIO of the same model.
  Layer theano{"conv1", {{"conv1_W", {2, 1, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}, {"conv1_b", {2}, {8, 9}}}};
  for (bool turned : {false, true}) {
    write_keras(folder / "w.h5", {theano}, false, turned ? "theano" : nullptr);
    Graph g;
    ValueId x = g.add_value("x", DType::kFloat32, {1, 1, 3, 3});
    g.inputs = {x};
    Node conv;
    conv.op_type = "Conv";
    conv.name = "conv1";
    conv.inputs = {x, g.add_tensor("w", filled({2, 1, 2, 2}, 0), Role::kParameter), g.add_tensor("b", filled({2}, 0), Role::kParameter)};
    conv.outputs = {g.add_value("y")};
    g.add_node(conv);
    auto report = load_weights(g, folder / "w.h5");
    INFO(report.status().message());
    REQUIRE(report.ok());
    for (int64_t i = 0; i < 8; ++i) CHECK(content(g, "w", i) == (turned ? i / 4 * 4 + 3 - i % 4 : i));
    CHECK(content(g, "b", 1) == 9);
  }
}

TEST_CASE("dense kernels are (in, out): transposed for Gemm with transB, as they are for MatMul; depthwise kernels") {
  TempFolder folder;
  std::vector<float> body(64), fc(24);
  for (size_t i = 0; i < 64; ++i) body[i] = static_cast<float>(i);
  for (size_t i = 0; i < 24; ++i) fc[i] = static_cast<float>(i);
  write_keras(folder / "w.h5", {{"body", {{"kernel:0", {8, 8}, body}}}, {"fc", {{"kernel:0", {8, 3}, fc}, {"bias:0", {3}, {1, 2, 3}}}}}, true);
  Graph g = head(3);
  auto report = load_weights(g, folder / "w.h5");
  INFO(report.status().message());
  REQUIRE(report.ok());
  CHECK(content(g, "body.weight", 9) == 9);
  CHECK(content(g, "fc.weight", 1 * 8 + 2) == 2 * 3 + 1);  // output 1, input 2
  CHECK(content(g, "fc.bias", 2) == 3);

  Graph d;
  ValueId x = d.add_value("x", DType::kFloat32, {1, 3, 4, 4});
  d.inputs = {x};
  Node conv;
  conv.op_type = "Conv";
  conv.name = "dw";
  conv.attributes.set("group", int64_t{3});
  conv.inputs = {x, d.add_tensor("w", filled({6, 1, 1, 2}, 0), Role::kParameter)};
  conv.outputs = {d.add_value("y")};
  d.add_node(conv);
  std::vector<float> kernel(12);  // (h 1, w 2, in 3, multiplier 2)
  for (size_t i = 0; i < 12; ++i) kernel[i] = static_cast<float>(i);
  write_keras(folder / "w.h5", {{"dw", {{"depthwise_kernel:0", {1, 2, 3, 2}, kernel}}}}, false);
  REQUIRE(load_weights(d, folder / "w.h5").ok());
  for (int64_t in = 0; in < 3; ++in)
    for (int64_t m = 0; m < 2; ++m)
      for (int64_t w = 0; w < 2; ++w) CHECK(content(d, "w", (in * 2 + m) * 2 + w) == w * 6 + in * 2 + m);
}

TEST_CASE("case 24: another class count is an error with layer and shapes, or skipped with its bias, or loses the background") {
  TempFolder folder;
  std::string path = head_file(folder, 6);
  Graph g = head(5);
  auto refused = load_weights(g, path);
  REQUIRE_FALSE(refused.ok());
  for (const char* part : {"fc.", "[6", "[5"}) CHECK(contains(refused.status().message(), part));
  CHECK(content(g, "body.weight", 63) == 1);

  LoadOptions skip;
  skip.skip_mismatch = true;
  auto skipped = load_weights(g, path, skip);
  REQUIRE(skipped.ok());
  CHECK(skipped->loaded == std::vector<std::string>{"body.weight"});
  CHECK(skipped->skipped.size() == 2);
  CHECK(content(g, "body.weight", 63) == doctest::Approx(6.3));
  CHECK(content(g, "fc.weight") == 5);
  CHECK(content(g, "fc.bias") == 5);

  LoadOptions drop;
  drop.drop_background = true;
  REQUIRE(load_weights(g, path, drop).ok());
  for (int64_t row = 0; row < 5; ++row) {
    CHECK(content(g, "fc.weight", row * 8) == (row + 1) * 8);
    CHECK(content(g, "fc.bias", row) == 101 + row);
  }
}

TEST_CASE("case 24: names on one side only are listed, and a file of which nothing fits is refused") {
  TempFolder folder;
  SafetensorsFile file;
  file.tensors = {{"body.weight", filled({8, 8}, 2)}, {"extra.weight", filled({1}, 2)}};
  REQUIRE(write_safetensors(folder / "w.safetensors", file).ok());
  Graph g = head(5);
  auto report = load_weights(g, folder / "w.safetensors");
  REQUIRE(report.ok());
  CHECK(report->only_in_file == std::vector<std::string>{"extra.weight"});
  CHECK(report->only_in_model == std::vector<std::string>{"fc.weight", "fc.bias"});
  file.tensors.erase("body.weight");
  REQUIRE(write_safetensors(folder / "w.safetensors", file).ok());
  CHECK(contains(load_weights(g, folder / "w.safetensors").status().message(), "extra.weight"));
}

TEST_CASE("damaged and hostile HDF5 files are refused") {
  TempFolder folder;
  write_keras(folder / "w.h5", {kConv, kBn}, false);
  Bytes good = read_bytes(folder / "w.h5");
  for (size_t length = 0; length < good.size(); length += 97) {
    write_bytes(folder / "bad.h5", good.substr(0, length));
    CHECK_FALSE(read_keras_weights(folder / "bad.h5").ok());
  }
  CHECK_FALSE(read_keras_weights(folder.path()).ok());
  CHECK_FALSE(read_keras_weights(folder / "missing.h5").ok());

  // Links and external storage would read other files.
  hid_t file = H5Fcreate((folder / "link.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("w.h5", "/conv1", file, "conv1", H5P_DEFAULT, H5P_DEFAULT);
  write_texts(file, "layer_names", {"conv1"});
  H5Fclose(file);
  auto linked = read_keras_weights(folder / "link.h5");
  REQUIRE_FALSE(linked.ok());
  CHECK(contains(linked.status().message(), "link"));

  file = H5Fcreate((folder / "external.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t group = H5Gcreate2(file, "conv1", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(list, "/etc/passwd", 0, 16);
  hsize_t four = 4;
  hid_t space = H5Screate_simple(1, &four, nullptr);
  H5Dclose(H5Dcreate2(group, "kernel", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  write_texts(file, "layer_names", {"conv1"});
  H5Sclose(space);
  H5Pclose(list);
  H5Gclose(group);
  H5Fclose(file);
  CHECK(contains(read_keras_weights(folder / "external.h5").status().message(), "another file"));
}
