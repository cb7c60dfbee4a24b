// parallel-case MODEL.onnx OUT.npz [--samples N] [--classes N] [--size HxW]: random inputs and labels for a model, from its declared shapes.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>

#include "importers/npz/npz.h"
#include "importers/onnx/import.h"

using namespace eng;

int main(int argc, char** argv) {
  CLI::App app{"Random inputs and labels for a model"};
  std::string model, out, size = "224x224";
  int64_t samples = 32, classes = 2;
  app.add_option("model", model)->required();
  app.add_option("out", out)->required();
  app.add_option("--samples", samples);
  app.add_option("--classes", classes);
  app.add_option("--size", size, "of pictures that the file leaves open");
  CLI11_PARSE(app, argc, argv);
  auto graph = import_onnx(model);
  if (!graph.ok()) return std::fprintf(stderr, "%s\n", graph.status().message().c_str()), 3;
  std::map<std::string, Tensor> arrays;
  uint64_t state = 1;
  const auto random = [&state] {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state >> 33) * 0x1p-30 - 1;
  };
  const std::vector<int64_t> hw{std::atoll(size.c_str()), std::atoll(size.c_str() + size.find('x') + 1)};
  for (ValueId v : graph->inputs) {
    Shape shape = graph->value(v).declared_dims;
    shape[0] = samples;
    for (size_t k = 1; k < shape.size(); ++k)
      if (shape[k] < 0) shape[k] = k == 1 ? 3 : hw[k % 2];
    Tensor t(DType::kFloat32, shape);
    float* values = t.mutable_data<float>();
    for (int64_t i = 0; i < t.element_count(); ++i) values[i] = static_cast<float>(random());
    arrays[graph->value(v).name] = std::move(t);
  }
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i * 7 % classes);
  arrays["y"] = Tensor::ints(labels);
  const Status s = write_npz(out, arrays);
  if (!s.ok()) return std::fprintf(stderr, "%s\n", s.message().c_str()), 3;
}
