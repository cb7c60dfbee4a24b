// The model generators, run as programs: the files pass ONNX's checker and have the published parameter counts.
// 42,681,353 and 41,145,890: the InceptionV4 that this follows (models/inception_v4/README.md); 82,690: 4*64*(256+64) + 8*64 + 128*2 + 2.
#include <doctest/doctest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace {

namespace fs = std::filesystem;

struct Run {
  int status;
  std::string path, errors;
};

// A folder that is gone when the test program ends.
const fs::path& scratch() {
  struct Folder {
    fs::path path = fs::temp_directory_path() / ("generators_test." + std::to_string(getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() { fs::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Run generate(const std::string& program, const std::string& options) {
  const char* bin = std::getenv("ENGINE_BIN");
  REQUIRE_MESSAGE(bin != nullptr, "ENGINE_BIN must name the folder of the programs; ctest sets it");
  static int number = 0;
  Run run;
  run.path = (scratch() / (std::to_string(++number) + ".onnx")).string();
  const std::string log = run.path + ".log";
  const int raw = std::system(("'" + std::string(bin) + "/" + program + "' '" + run.path + "' " + options + " 2>'" + log + "'").c_str());
  run.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  run.errors = bytes_of(log);
  return run;
}

onnx::ModelProto load(const Run& run) {
  INFO(run.errors);
  REQUIRE(run.status == 0);
  onnx::ModelProto model;
  std::ifstream in(run.path, std::ios::binary);
  REQUIRE(model.ParseFromIstream(&in));
  return model;
}

int64_t count(const onnx::TensorProto& t) {
  int64_t n = 1;
  for (int64_t d : t.dims()) n *= d;
  return n;
}

// Elements of float initializers, without running statistics and dropout ratios.
int64_t trainable(const onnx::ModelProto& model) {
  std::set<std::string> fixed;
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == "BatchNormalization") fixed.insert({node.input(3), node.input(4)});
    if (node.op_type() == "Dropout") fixed.insert(node.input(1));
  }
  int64_t n = 0;
  for (const auto& t : model.graph().initializer())
    if (t.data_type() == onnx::TensorProto::FLOAT && !fixed.count(t.name())) n += count(t);
  return n;
}

std::map<std::string, int> operators(const onnx::ModelProto& model) {
  std::map<std::string, int> out;
  for (const auto& node : model.graph().node()) ++out[node.op_type()];
  return out;
}

// "N,3,299,299"
std::string dims(const onnx::ValueInfoProto& v) {
  std::string out;
  for (const auto& d : v.type().tensor_type().shape().dim())
    out += (out.empty() ? "" : ",") + (d.has_dim_value() ? std::to_string(d.dim_value()) : d.dim_param());
  return out;
}

// ONNX's checker and its strict shape inference, which also compares the declared output with what the nodes give.
void check(onnx::ModelProto& model) {
  CHECK_NOTHROW(onnx::checker::check_model(model, true));
  CHECK_NOTHROW(onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), onnx::ShapeInferenceOptions{true, 1, false}));
}

}  // namespace

TEST_CASE("InceptionV4 with 1001 classes has 42,681,353 trainable parameters in 149 convolutions") {
  onnx::ModelProto model = load(generate("generate-inception_v4", ""));
  CHECK(trainable(model) == 42681353);
  std::map<std::string, int> n = operators(model);
  CHECK(n["Conv"] == 149);
  CHECK(n["BatchNormalization"] == 149);
  CHECK(n["Relu"] == 149);
  CHECK(n["AveragePool"] == 14);
  CHECK(n["MaxPool"] == 4);
  CHECK(n["Dropout"] == 1);
  CHECK(n["Gemm"] == 1);
  CHECK(n["Softmax"] == 1);
  CHECK(dims(model.graph().input(0)) == "N,3,299,299");
  CHECK(dims(model.graph().output(0)) == "N,1001");
  check(model);
}

TEST_CASE("InceptionV4 with 2 classes has 41,145,890 trainable parameters, and one seed always gives the same file") {
  const Run run = generate("generate-inception_v4", "--classes 2 --seed 7");
  onnx::ModelProto model = load(run);
  CHECK(trainable(model) == 41145890);
  check(model);
  CHECK(bytes_of(run.path) == bytes_of(generate("generate-inception_v4", "--classes 2 --seed 7").path));
}

TEST_CASE("InceptionV4 takes grey pictures, other sizes, a fixed batch, and leaves out dropout and softmax") {
  onnx::ModelProto model = load(generate("generate-inception_v4", "--classes 3 --channels 1 --size 171x203 --batch 8 --dropout 0 --no-softmax"));
  CHECK(dims(model.graph().input(0)) == "8,1,171,203");
  CHECK(dims(model.graph().output(0)) == "8,3");
  CHECK(operators(model).count("Dropout") == 0);
  CHECK(operators(model).count("Softmax") == 0);
  CHECK(trainable(model) == 41145890 - 2 * 32 * 9 + 1536 + 1);  // two input channels fewer in the first 3x3 layer of 32, one class more
  check(model);
}

TEST_CASE("InceptionV4's smallest picture is 75x75, and a smaller one is refused with the layer's name") {
  onnx::ModelProto model = load(generate("generate-inception_v4", "--classes 2 --size 75x75"));
  check(model);
  const Run small = generate("generate-inception_v4", "--classes 2 --size 74x299");
  CHECK(small.status == 2);
  CHECK(small.errors.find("reduction_b") != std::string::npos);
  CHECK(small.errors.find("75x75") != std::string::npos);
  CHECK(generate("generate-inception_v4", "--size 299").status == 2);
  CHECK(generate("generate-inception_v4", "--channels 2").status == 2);
}

TEST_CASE("the shared LSTM has 82,690 parameters and both uses read the same weights") {
  onnx::ModelProto model = load(generate("generate-shared_lstm", ""));
  CHECK(trainable(model) == 82690);
  CHECK(dims(model.graph().input(0)) == "N,140,256");
  CHECK(dims(model.graph().input(1)) == "N,140,256");
  CHECK(dims(model.graph().output(0)) == "N,2");
  std::set<std::string> weights;
  int uses = 0;
  for (const auto& node : model.graph().node())
    if (node.op_type() == "LSTM") {
      ++uses;
      weights.insert(node.input(1) + node.input(2) + node.input(3));
    }
  CHECK(uses == 2);
  CHECK(weights.size() == 1);
  check(model);
}

TEST_CASE("the shared LSTM's recurrent kernel is orthogonal over its 64 units") {
  onnx::ModelProto model = load(generate("generate-shared_lstm", "--classes 1"));
  check(model);
  for (const auto& t : model.graph().initializer())
    if (t.name() == "lstm_1/recurrent_kernel") {
      REQUIRE(count(t) == 256 * 64);
      const float* r = reinterpret_cast<const float*>(t.raw_data().data());
      double worst = 0;
      for (int a = 0; a < 64; ++a)
        for (int b = 0; b < 64; ++b) {
          double dot = 0;
          for (int gate = 0; gate < 256; ++gate) dot += static_cast<double>(r[gate * 64 + a]) * r[gate * 64 + b];
          worst = std::max(worst, std::abs(dot - (a == b)));
        }
      CHECK(worst < 1e-5);
    }
}
