// Writes InceptionV4 as ONNX: stem, 4 x A, reduction A, 7 x B, reduction B, 3 x C, global average pool, dropout, dense, softmax.
// Every convolution is without bias, followed by batch normalisation (inference form, epsilon 1e-3, momentum 0.99) and ReLU; average
// pools leave the padding out of the mean. Layers carry Keras's automatic names in Keras's order of creation, below the name of
// their block: "inception_a_1/conv2d_12", "inception_a_1/batch_normalization_12". The table of a block is its function below.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "models/common/tail.h"

namespace {

using namespace eng;          // NOLINT: a program, not a header
using namespace eng::models;  // NOLINT

struct Options {
  std::string path;
  int64_t classes = 1001, channels = 3, height = 299, width = 299, batch = kSymbolicBatch;
  double dropout = 0.2;
  uint64_t seed = 0;
  bool softmax = true;
};

// An activation and what must be known of it to place the next layer.
struct Map {
  ValueId id;
  int64_t channels, height, width;
};

class Network {
 public:
  Network(Graph& graph, uint64_t seed) : graph_(graph), random_(seed) {}

  Random& random() { return random_; }
  void enter(const std::string& block) { block_ = block + "/"; }
  // The first layer that does not fit on its input; fine where all fit.
  const Status& status() const { return status_; }

  // Conv + BatchNormalization + Relu. `same` keeps the size (stride 1, odd kernels), else no padding.
  Map conv(const Map& x, int64_t filters, int64_t rows, int64_t columns, int64_t stride = 1, bool same = true) {
    const std::string n = std::to_string(++convolutions_), name = block_ + "conv2d_" + n;
    const int64_t pad_rows = same ? rows / 2 : 0, pad_columns = same ? columns / 2 : 0;
    const Map y = slide(x, filters, rows, columns, stride, pad_rows, pad_columns, name);
    Attributes a;
    a.set("kernel_shape", std::vector<int64_t>{rows, columns});
    a.set("strides", std::vector<int64_t>{stride, stride});
    a.set("pads", std::vector<int64_t>{pad_rows, pad_columns, pad_rows, pad_columns});
    const int64_t window = rows * columns;
    const ValueId kernel =
        add(name + "/kernel", glorot_uniform(random_, {filters, x.channels, rows, columns}, x.channels * window, filters * window));
    const ValueId z = add_named_node(graph_, "Conv", {x.id, kernel}, name, a);
    return {relu(batch_norm(z, filters, block_ + "batch_normalization_" + n), block_ + "activation_" + n), filters, y.height, y.width};
  }

  Map max_pool(const Map& x) {
    const std::string name = block_ + "max_pooling2d_" + std::to_string(++max_pools_);
    Map y = slide(x, x.channels, 3, 3, 2, 0, 0, name);
    Attributes a;
    a.set("kernel_shape", std::vector<int64_t>{3, 3});
    a.set("strides", std::vector<int64_t>{2, 2});
    y.id = add_named_node(graph_, "MaxPool", {x.id}, name, a);
    return y;
  }

  Map average_pool(const Map& x) {
    const std::string name = block_ + "average_pooling2d_" + std::to_string(++average_pools_);
    Attributes a;
    a.set("kernel_shape", std::vector<int64_t>{3, 3});
    a.set("strides", std::vector<int64_t>{1, 1});
    a.set("pads", std::vector<int64_t>{1, 1, 1, 1});
    a.set("count_include_pad", int64_t{0});
    return {add_named_node(graph_, "AveragePool", {x.id}, name, a), x.channels, x.height, x.width};
  }

  Map concat(const std::vector<Map>& parts) {
    std::vector<ValueId> ids;
    int64_t channels = 0;
    for (const Map& part : parts) {
      ids.push_back(part.id);
      channels += part.channels;
    }
    Attributes a;
    a.set("axis", int64_t{1});
    const std::string name = block_ + "concatenate_" + std::to_string(++concats_);
    return {add_named_node(graph_, "Concat", ids, name, a), channels, parts[0].height, parts[0].width};
  }

 private:
  ValueId add(const std::string& name, Tensor t, Role role = Role::kParameter) { return graph_.add_tensor(name, std::move(t), role); }

  ValueId batch_norm(ValueId x, int64_t channels, const std::string& name) {
    const ValueId gamma = add(name + "/gamma", filled({channels}, 1)), beta = add(name + "/beta", filled({channels}, 0));
    const ValueId mean = add(name + "/moving_mean", filled({channels}, 0), Role::kState);
    const ValueId variance = add(name + "/moving_variance", filled({channels}, 1), Role::kState);
    Attributes a;
    a.set("epsilon", 1e-3F);
    a.set("momentum", 0.99F);
    return add_named_node(graph_, "BatchNormalization", {x, gamma, beta, mean, variance}, name, a);
  }

  ValueId relu(ValueId x, const std::string& name) { return add_named_node(graph_, "Relu", {x}, name); }

  // The output's size of a sliding window; remembers the first layer whose window is larger than its input.
  Map slide(const Map& x, int64_t channels, int64_t rows, int64_t columns, int64_t stride, int64_t pad_rows, int64_t pad_columns,
            const std::string& name) {
    const int64_t free_rows = x.height + 2 * pad_rows - rows, free_columns = x.width + 2 * pad_columns - columns;
    if ((free_rows < 0 || free_columns < 0) && status_.ok())
      status_ = usage_error("--size: the picture is too small: ", name, " has a window of ", rows, "x", columns, " on ", x.height, "x", x.width,
                            "; choose at least 75x75");
    return {kNoValue, channels, free_rows / stride + 1, free_columns / stride + 1};
  }

  Graph& graph_;
  Random random_;
  std::string block_;
  Status status_;
  int convolutions_ = 0, max_pools_ = 0, average_pools_ = 0, concats_ = 0;
};

Map stem(Network& n, Map x) {
  n.enter("stem");
  x = n.conv(x, 32, 3, 3, 2, false);
  x = n.conv(x, 32, 3, 3, 1, false);
  x = n.conv(x, 64, 3, 3);
  Map a = n.max_pool(x), b = n.conv(x, 96, 3, 3, 2, false);
  x = n.concat({a, b});
  a = n.conv(n.conv(x, 64, 1, 1), 96, 3, 3, 1, false);
  b = n.conv(n.conv(n.conv(n.conv(x, 64, 1, 1), 64, 1, 7), 64, 7, 1), 96, 3, 3, 1, false);
  x = n.concat({a, b});
  a = n.conv(x, 192, 3, 3, 2, false);
  return n.concat({a, n.max_pool(x)});
}

Map block_a(Network& n, const Map& x) {
  const Map a = n.conv(x, 96, 1, 1);
  const Map b = n.conv(n.conv(x, 64, 1, 1), 96, 3, 3);
  const Map c = n.conv(n.conv(n.conv(x, 64, 1, 1), 96, 3, 3), 96, 3, 3);
  return n.concat({a, b, c, n.conv(n.average_pool(x), 96, 1, 1)});
}

Map reduction_a(Network& n, const Map& x) {
  const Map a = n.conv(x, 384, 3, 3, 2, false);
  const Map b = n.conv(n.conv(n.conv(x, 192, 1, 1), 224, 3, 3), 256, 3, 3, 2, false);
  return n.concat({a, b, n.max_pool(x)});
}

Map block_b(Network& n, const Map& x) {
  const Map a = n.conv(x, 384, 1, 1);
  const Map b = n.conv(n.conv(n.conv(x, 192, 1, 1), 224, 1, 7), 256, 7, 1);
  const Map c = n.conv(n.conv(n.conv(n.conv(n.conv(x, 192, 1, 1), 192, 7, 1), 224, 1, 7), 224, 7, 1), 256, 1, 7);
  return n.concat({a, b, c, n.conv(n.average_pool(x), 128, 1, 1)});
}

Map reduction_b(Network& n, const Map& x) {
  const Map a = n.conv(n.conv(x, 192, 1, 1), 192, 3, 3, 2, false);
  const Map b = n.conv(n.conv(n.conv(n.conv(x, 256, 1, 1), 256, 1, 7), 320, 7, 1), 320, 3, 3, 2, false);
  return n.concat({a, b, n.max_pool(x)});
}

Map block_c(Network& n, const Map& x) {
  const Map a = n.conv(x, 256, 1, 1);
  Map b = n.conv(x, 384, 1, 1);
  const Map b1 = n.conv(b, 256, 1, 3), b2 = n.conv(b, 256, 3, 1);
  b = n.concat({b1, b2});
  Map c = n.conv(n.conv(n.conv(x, 384, 1, 1), 448, 3, 1), 512, 1, 3);
  const Map c1 = n.conv(c, 256, 1, 3), c2 = n.conv(c, 256, 3, 1);
  c = n.concat({c1, c2});
  return n.concat({a, b, c, n.conv(n.average_pool(x), 256, 1, 1)});
}

Status build(Graph& graph, const Options& o) {
  graph.name = "inception_v4";
  Network n(graph, o.seed);
  Map x{add_input(graph, "image", o.batch, {o.channels, o.height, o.width}), o.channels, o.height, o.width};
  x = stem(n, x);
  auto repeat = [&](const std::string& block, int times, Map (*layers)(Network&, const Map&)) {
    for (int i = 1; i <= times; ++i) {
      n.enter(block + (times > 1 ? "_" + std::to_string(i) : ""));
      x = layers(n, x);
    }
  };
  repeat("inception_a", 4, block_a);
  repeat("reduction_a", 1, reduction_a);
  repeat("inception_b", 7, block_b);
  repeat("reduction_b", 1, reduction_b);
  repeat("inception_c", 3, block_c);
  ENG_TRY(n.status());
  ValueId y = add_named_node(graph, "GlobalAveragePool", {x.id}, "average_pool");
  if (o.dropout > 0) {
    const ValueId ratio = graph.add_tensor("dropout_1/ratio", Tensor::scalar(DType::kFloat32, o.dropout), Role::kConstant);
    y = add_named_node(graph, "Dropout", {y, ratio}, "dropout_1");
  }
  Attributes flat;
  flat.set("axis", int64_t{1});
  y = add_named_node(graph, "Flatten", {y}, "flatten_1", flat);
  y = dense(graph, n.random(), y, x.channels, o.classes, "dense_1");
  if (o.softmax) {
    Attributes axis;
    axis.set("axis", int64_t{-1});
    y = add_named_node(graph, "Softmax", {y}, "softmax_1", axis);
  }
  graph.rename_value(y, o.softmax ? "probabilities" : "logits");
  declare(graph, y, o.batch, {o.classes});
  graph.outputs = {y};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Writes InceptionV4 with freshly initialised weights as an ONNX file (opset 21)."};
  app.add_option("OUT", o.path, "the file to write")->required();
  app.add_option("--classes", o.classes, "outputs of the last layer")->check(CLI::Range(int64_t{1}, int64_t{1} << 20))->capture_default_str();
  app.add_option("--channels", o.channels, "channels of a picture")->check(CLI::IsMember({1, 3}))->capture_default_str();
  std::string size = "299x299";
  app.add_option("--size", size, "HEIGHTxWIDTH of a picture in pixels, at least 75x75")->capture_default_str();
  app.add_option("--dropout", o.dropout, "part of the features that dropout zeroes; 0 leaves the node out")
      ->check(CLI::Range(0.0, 0.999))->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the first weights")->capture_default_str();
  app.add_option("--batch", o.batch, "fixed batch size; 0: symbolic (N)")->check(CLI::Range(int64_t{0}, int64_t{1} << 20))->capture_default_str();
  app.add_flag("--softmax,!--no-softmax", o.softmax, "end in a softmax (default) or in the logits");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  char rest = 0;
  if (std::sscanf(size.c_str(), "%5ldx%5ld%c", &o.height, &o.width, &rest) != 2 || o.height < 1 || o.width < 1) {
    std::fprintf(stderr, "error: --size: got '%s', wanted HEIGHTxWIDTH, for example 299x299\n", size.c_str());
    return 2;
  }
  eng::Graph graph;
  const eng::Status status = build(graph, o);
  if (!status.ok()) {
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return eng::exit_status(status.code());
  }
  return finish(graph, o.path);
}
