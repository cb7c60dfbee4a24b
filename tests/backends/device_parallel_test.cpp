// Runs of engine-train on another backend's devices (tests/support/device_nets.h): data parallelism on as many as there are, and nodes that they cannot run.
#include "engine/exec/program.h"
#include "engine/io/safetensors.h"
#include "tests/support/device_nets.h"
#include "tests/support/train_run.h"

using namespace eng;
using namespace eng::test;

namespace {

std::string kind() { return other_device_name().substr(0, other_device_name().find(':')); }

// "cuda:0,cuda:1"; empty where there are not so many.
std::string devices(int count) {
  int32_t there = 0;
  eb_error error{sizeof(eb_error), 0, {0}};
  REQUIRE(other_device()->backend().core->device_count(&there, &error) == EB_OK);
  std::string list;
  for (int i = 0; i < count && count <= there; ++i) list += (i ? "," : "") + kind() + ":" + std::to_string(i);
  return list;
}

struct Case {
  TempFolder folder;
  std::string model, data;
  Case(const Net& net, int64_t classes) {
    model = write_model(folder, "net.onnx", net.g);
    Shape shape = net.g.value(net.g.inputs[0]).declared_dims;
    shape[0] = 22;  // the last batch is short
    Random random(5);
    Tensor x(DType::kFloat32, shape);
    for (int64_t i = 0; i < x.element_count(); ++i) x.set(i, random.uniform(-1, 1));
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < shape[0]; ++i) labels.push_back(i * 7 % classes);
    data = write_arrays(folder, "d.npz", {{"x", x}, {"y", Tensor::ints(labels)}});
  }
  std::string run(const std::string& name, const std::vector<std::string>& more, const char* batch = "8") const {
    std::vector<std::string> words{model, "--data", data, "--batch", batch, "--epochs", "2", "--lr", "0.02", "--momentum", "0.9", "--costs", "estimated", "--metrics-every-step", "--out", folder / name};
    words.insert(words.end(), more.begin(), more.end());
    CHECK(train(words) == 0);
    return folder / name;
  }
};

void check_same_on_all(const Net& net, int64_t classes) {
  const Case c(net, classes);
  const auto one = weights_of(c.run("one", {"--devices", devices(1), "--shards", "4"}) + "/last.onnx");
  for (int count : {2, 4}) {
    const std::string list = devices(count);
    if (list.empty()) {
      MESSAGE("there are no ", count, " devices of ", kind());
      continue;
    }
    CHECK_MESSAGE(same_bits(one, weights_of(c.run(std::to_string(count), {"--devices", list, "--shards", "4", "--parallel", "data", "--deterministic"}) + "/last.onnx")), list);
  }
}

// float32 sums of at most some hundred terms in another order, for 6 steps: far below 1e-4 of a loss near 1.
void check_losses(const std::string& got, const std::string& wanted) {
  const auto a = metrics(got, "step"), b = metrics(wanted, "step");
  REQUIRE(a.size() == b.size());
  REQUIRE(!a.empty());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i]["loss"].get<double>() == doctest::Approx(b[i]["loss"].get<double>()).epsilon(1e-4));
}

// In the backend's own order, where it has collectives. The last of the batches of 7 has one row: all devices but one have nothing to add.
void check_collectives(const Net& net, int64_t classes) {
  const Case c(net, classes);
  const std::string one = c.run("one", {"--devices", devices(1), "--shards", "4"}, "7");
  for (int count : {2, 3, 4}) {
    const std::string list = devices(count);
    if (list.empty()) {
      MESSAGE("there are no ", count, " devices of ", kind());
      continue;
    }
    CAPTURE(list);
    const std::vector<std::string> words{"--devices", list, "--shards", "4", "--parallel", "data"};
    const std::string got = c.run("first", words, "7");
    check_losses(got, one);
    CHECK(same_bits(weights_of(got + "/last.onnx"), weights_of(c.run("again", words, "7") + "/last.onnx")));
  }
}

}  // namespace

TEST_CASE("several other devices: gradients added up by the backend's collectives give the losses of one device, and the same bits each time") {
  check_collectives(mlp_net(), 5);
  check_collectives(cnn_net(), 4);
}
TEST_CASE("several other devices: a multilayer perceptron with dropout trains to the same bits on 1, 2 and 4") { check_same_on_all(mlp_net(), 5); }
TEST_CASE("several other devices: convolutions, batch normalisation and pools train to the same bits on 1, 2 and 4 in the fixed order") { check_same_on_all(cnn_net(), 4); }

TEST_CASE("several other devices: nodes that they cannot run are computed by the host, with the same bits on 1, 2 and 4") { check_same_on_all(mixed_net(), 4); }

// A recurrent layer is one operator in training and another one in an evaluation; both are the host's where the device lacks them.
TEST_CASE("another device: an evaluation's own nodes are placed on the host too") {
  Net m;
  const ValueId x = m.op("Transpose", {m.input("x", {4, 3})}, attrs({{"perm", std::vector<int64_t>{1, 0, 2}}}));
  const NodeId lstm = m.g.add_node("", "LSTM", {x, m.weight("w", {1, 20, 3}), m.weight("r", {1, 20, 5})}, 3, attrs({{"hidden_size", int64_t{5}}}), "lstm");
  m.output(m.dense(m.op("Reshape", {m.g.node(lstm).outputs[1], m.g.add_tensor("flat", Tensor::ints({-1, 5}), Role::kConstant)}), "head", 5, 3), "scores");
  const Case c(m, 3);
  const std::string wanted = c.run("wanted", {"--devices", "cpu:0", "--val", c.data});
  for (int count : {1, 2}) {
    const std::string list = devices(count);
    if (list.empty()) continue;
    CAPTURE(list);
    for (const char* parallel : {"data", "branch"}) {
      const std::string got = c.run(cat(parallel, count), {"--devices", list, "--parallel", parallel, "--val", c.data});
      const auto a = metrics(got, "epoch"), b = metrics(wanted, "epoch");
      REQUIRE(a.size() == 2);
      for (size_t i = 0; i < a.size(); ++i) CHECK(a[i]["val_loss"].get<double>() == doctest::Approx(b[i]["val_loss"].get<double>()).epsilon(1e-4));
    }
  }
}

TEST_CASE("several other devices: gradients can be written where some were made on the host") {
  const Case c(mixed_net(), 4);
  const auto gradients = [&](const std::string& name, const std::string& list) {
    c.run(name, {"--devices", list, "--shards", "2", "--parallel", "data", "--steps", "1", "--write-gradients", c.folder / (name + ".safetensors")});
    auto read = read_safetensors(c.folder / (name + ".safetensors"));
    REQUIRE_MESSAGE(read.ok(), read.status().message());
    return std::move(read->tensors);
  };
  const auto wanted = gradients("wanted", "cpu:0,cpu:1");
  for (int count : {1, 2}) {
    const std::string list = devices(count);
    if (list.empty()) continue;
    CAPTURE(list);
    const auto got = gradients("got" + std::to_string(count), list);
    REQUIRE(got.size() == wanted.size());
    for (const auto& [name, tensor] : wanted) {
      CAPTURE(name);
      REQUIRE(got.count(name) == 1);
      double largest = 0, worst = 0;
      for (int64_t i = 0; i < tensor.element_count(); ++i) {
        largest = std::max(largest, std::abs(tensor.at(i)));
        worst = std::max(worst, std::abs(tensor.at(i) - got.at(name).at(i)));
      }
      CHECK(worst <= 1e-5 * largest + 1e-7);  // float32, sums of some hundred terms in another order
    }
  }
}

TEST_CASE("another device: what it cannot run is placed on the CPU, and the plan says why") {
  const Case c(mixed_net(), 4);
  const std::string got = c.run("got", {"--devices", devices(1)});
  check_losses(got, c.run("wanted", {"--devices", "cpu:0"}));
  if (kind() == "cpu") return;
  const auto file = read_text_file(got + "/plan.json", 16 << 20);
  REQUIRE_MESSAGE(file.ok(), file.status().message());
  const auto plan = nlohmann::json::parse(*file);
  int placed = 0;
  for (const auto& n : plan["nodes"]) {
    const std::string op = n["op"], device = n["device"], reason = n["reason"];
    const bool lacking = op == "PRelu" || op == "LayerNormalization";
    if (n["phase"] == "forward") CHECK_MESSAGE((device == "cpu:0") == lacking, op, " on ", device);
    if (!lacking) continue;
    ++placed;
    CHECK_MESSAGE(reason.find(devices(1) + " cannot run it: " + op + " '" + n["name"].get<std::string>() + "': it has no kernel for this operator") != std::string::npos, reason);
  }
  CHECK(placed == 2);
}

// Each of these runs puts the next value into the host memory through which the CPU reads: it may only do so when that was read. The CPU has the longer part.
TEST_CASE("another device: steps that are enqueued without waiting hand every value over to the CPU") {
  constexpr int64_t kSide = 256, kRuns = 12;
  const Shape square{kSide, kSide};
  Tensor one(DType::kFloat32, square);
  for (int64_t i = 0; i < kSide; ++i) one.set(i * kSide + i, 1);
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, square), sum = g.add_tensor("sum", Tensor(DType::kFloat32, square), Role::kState);
  const ValueId identity = g.add_tensor("identity", one, Role::kConstant);
  g.value(x).role = Role::kInput;
  g.inputs.push_back(x);
  Builder b(g);
  ValueId y = b.op("Neg", {x});
  for (int i = 0; i < 12; ++i) y = b.op("MatMul", {y, identity});
  const ValueId next = b.op("Add", {sum, y});
  g.updates.emplace_back(sum, next);
  for (NodeId n : g.live_nodes()) g.node(n).place = g.node(n).op_type == "Neg" ? 0 : 1;
  auto host = Device::open("cpu:0", {.threads = 1});
  REQUIRE(host.ok());
  auto store = std::make_shared<StateStore>(*host);
  auto program = Program::compile(g, {other_device(), *host}, store, {});
  REQUIRE_MESSAGE(program.ok(), program.status().message());
  std::vector<Tensor> fed;
  for (int i = 0; i < kRuns; ++i) {
    fed.emplace_back(DType::kFloat32, square);
    for (int64_t k = 0; k < kSide * kSide; ++k) fed.back().set(k, 1 << i);
  }
  for (const Tensor& t : fed) {
    REQUIRE((*program)->feed(x, t).ok());
    REQUIRE((*program)->run().ok());
  }
  REQUIRE((*program)->synchronize().ok());
  const auto total = store->get("sum");
  REQUIRE_MESSAGE(total.ok(), total.status().message());
  for (int64_t k = 0; k < kSide * kSide; k += 4099) CHECK(total->at(k) == 1 - (1 << kRuns));  // a power of two for each run
}
